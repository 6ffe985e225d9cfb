"""How updates reach the bot: getUpdates, and the webhook with its secret, its order and its retries.

A webhook gets one update at a time, in order; an answer other than 2xx is retried with a growing pause until the
update is too old. A Bot API call in the webhook's answer is not simulated and is written to the log.
"""

import asyncio
from urllib.parse import urlsplit

import aiohttp
from aiogram import methods as api
from aiogram.types import Update

from codemojex.local_telegram.errors import Json, bad_request, not_simulated
from codemojex.local_telegram.state.model import WaitingUpdate, Webhook
from codemojex.local_telegram.state.updates import check_kinds
from codemojex.local_telegram.state.world import World

HOST_LIMIT = 254
UPDATE_KINDS = set(Update.model_fields) - {"update_id"}
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 10.0
DELIVERY_TIMEOUT_S = 60.0
SECRET_CHARACTERS = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


async def get_updates(world: World, call: api.GetUpdates) -> list[Json]:
    """Confirm below `offset` and return what waits."""
    check_kinds(call.allowed_updates, UPDATE_KINDS)
    world.updates.allow(call.allowed_updates)
    return await world.updates.poll(call.offset, call.limit, call.timeout)


async def set_webhook(world: World, call: api.SetWebhook) -> bool:
    """Push updates to `url` from now on; plain http is accepted, as by a Bot API server of one's own."""
    if not call.url:
        return await _remove(world, bool(call.drop_pending_updates))
    if not _callable(call.url):
        raise bad_request("bad webhook: invalid webhook URL specified")
    secret = call.secret_token
    if secret is not None and (not 1 <= len(secret) <= 256 or set(secret) - SECRET_CHARACTERS):
        raise bad_request("secret token contains unallowed characters")
    check_kinds(call.allowed_updates, UPDATE_KINDS)
    if call.drop_pending_updates:
        world.state.updates.clear()
    world.updates.allow(call.allowed_updates)
    world.state.bot.webhook = Webhook(call.url, secret, call.max_connections or 40)
    world.updates.end_poll()
    world.updates.wake()
    world.storage.touch()
    return True


async def delete_webhook(world: World, call: api.DeleteWebhook) -> bool:
    """Back to polling."""
    return await _remove(world, bool(call.drop_pending_updates))


async def get_webhook_info(world: World, call: api.GetWebhookInfo) -> Json:
    """How the delivery goes."""
    webhook = world.state.bot.webhook
    body: Json = {
        "url": webhook.url,
        "has_custom_certificate": False,
        "pending_update_count": len(world.updates.waiting()),
    }
    if webhook.url:
        body["max_connections"] = webhook.max_connections
    if webhook.last_error_date:
        body |= {"last_error_date": webhook.last_error_date, "last_error_message": webhook.last_error_message}
    if world.state.bot.allowed_updates:
        body["allowed_updates"] = world.state.bot.allowed_updates
    return body


async def push_updates(world: World) -> None:
    """Deliver to the webhook while there is one; runs until cancelled."""
    pause_s = RETRY_FIRST_S
    timeout = aiohttp.ClientTimeout(total=DELIVERY_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            webhook = world.state.bot.webhook
            waiting = world.updates.waiting() if webhook.url else []
            if not waiting:
                await world.updates.arrival(timeout_s=60)
                continue
            trouble = await _deliver(world, session, webhook, waiting[0])
            if trouble is None:
                world.updates.confirm(waiting[0].update_id + 1)
                pause_s = RETRY_FIRST_S
                continue
            webhook.last_error_date, webhook.last_error_message = world.clock.date(), trouble
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_MAX_S)


async def _deliver(world: World, session: aiohttp.ClientSession, webhook: Webhook, update: WaitingUpdate) -> str | None:
    headers = {"X-Telegram-Bot-Api-Secret-Token": webhook.secret_token} if webhook.secret_token else {}
    body = {"update_id": update.update_id, update.kind: update.body}
    try:
        async with session.post(webhook.url, json=body, headers=headers, allow_redirects=False) as answer:
            content = await answer.content.read(100_000)
            if not 200 <= answer.status < 300:
                return f"Wrong response from the webhook: {answer.status} {answer.reason}"
            if b'"method"' in content:
                refusal = not_simulated("a method in the answer of a webhook")
                world.note("webhook answer", {}, {"ok": False, "description": refusal.description})
            return None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:  # the latter of a name that is no host's
        return f"{type(error).__name__}: connection failed"


def _callable(url: str) -> bool:
    """Whether a request could be sent there, as far as the text tells."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        labels = host.encode("idna") if ":" not in host else b"::"
    except ValueError:  # of a port that is no number, or a label that is too long
        return False
    printable = url.isprintable() and " " not in url
    return parts.scheme in ("http", "https") and printable and bool(labels) and len(host) < HOST_LIMIT


async def _remove(world: World, drop: bool) -> bool:
    if drop:
        world.state.updates.clear()
    world.state.bot.webhook = Webhook()
    world.storage.touch()
    return True
