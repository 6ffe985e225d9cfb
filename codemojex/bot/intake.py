"""Takes updates from Telegram and confirms only what the bus has admitted.

Loop: poll a batch, admit every update, and only then use the next offset, which is how Telegram is told to forget
them. A crash between the two brings the same batch again, and its dedup keys make that harmless. Nothing is ever
dropped, the token never reaches a log, and polling pauses while the queue is deeper than its limit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from aiogram import Bot
from aiogram.methods import GetUpdates

from codemojex.play.inbox import Incoming
from codemojex.play.outcomes import VALKEY, away

from .errors import BadToken, Classified, Fault, classify

log = logging.getLogger(__name__)

# Sticky on the server, so always stated. Edits are no guesses: they are not asked for.
ALLOWED_UPDATES = ("message", "callback_query", "my_chat_member")
MAX_UPDATE_BYTES = 60_000  # below the bus's limit for a payload; nothing that the game reads is that long
_AWAY = (Fault.SERVER, Fault.NEVER_SENT, Fault.UNKNOWN_OUTCOME)
_IDLE_S = 0.2  # how soon a full queue or a lease in other hands is looked at again


Admit = Callable[[Sequence[Incoming]], Awaitable[bool]]
"""Puts updates on the bus; True only when every single one is there (admitted now or earlier)."""


class PollerLease(Protocol):
    """One poller per token: who holds the lease may poll."""

    async def hold(self) -> bool:
        """Take or renew the lease; False while somebody else has it."""
        ...

    async def release(self) -> None:
        """Give the lease back, if it is still ours."""
        ...


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """`poll_timeout_s` on the server; `max_depth` waiting updates stop the polling; backoff from base to cap.

    The lease is renewed, or asked for, every `renew_s`; a renewal that takes twice as long has failed.
    """

    poll_timeout_s: int = 25
    request_timeout_s: float = 15.0
    batch: int = 100
    max_depth: int = 5000
    renew_s: float = 1.0
    backoff_base_s: float = 0.5
    backoff_cap_s: float = 30.0


class RawUpdates(GetUpdates):
    """getUpdates that leaves each update as JSON: a kind of update that this program cannot read blocks nobody."""

    __returning__ = list[dict[str, Any]]  # the Bot API is JSON of any shape


class Intake:
    """The poller of one bot. `run` until `stop`."""

    def __init__(
        self,
        bot: Bot,
        admit: Admit,
        depth: Callable[[], Awaitable[int]],
        lease: PollerLease | None = None,
        options: IntakeOptions | None = None,
    ) -> None:
        self._bot = bot
        self._admit = admit
        self._depth = depth
        self._lease = lease
        self._options = options or IntakeOptions()
        self._offset: int | None = None
        self._stopping = asyncio.Event()
        self._poll: asyncio.Timeout | None = None
        self._held = asyncio.Event()
        if lease is None:
            self._held.set()

    async def run(self) -> None:
        """Poll until `stop`. Raises BadToken; every other misfortune is waited out."""
        refused: BadToken | None = None
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep_lease())
            try:
                await self._loop()
            except BadToken as error:
                refused = error  # raised below, where the group does not wrap it
            finally:
                keeper.cancel()
        await self._give_back()
        if refused is not None:
            raise refused

    def stop(self) -> None:
        """End the long poll at once; a batch that has arrived is still admitted."""
        self._stopping.set()
        self._end_poll()

    def _end_poll(self) -> None:
        if self._poll is not None and not self._poll.expired():
            self._poll.reschedule(0)

    async def _loop(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            if not self._held.is_set() or await self._full():
                await self._pause(_IDLE_S)
                continue
            try:
                await self._step()
                failures = 0
            except BadToken:
                raise
            except Exception as error:
                failures += 1
                await self._misfortune(error, failures)

    async def _step(self) -> None:
        """One batch: poll, admit, and only then move the offset."""
        updates = await self._get_updates()
        if not updates:
            return
        items = [incoming(self._bot.id, update) for update in updates]
        if not await self._admit(items):
            raise NotAdmittedError(len(items))
        self._offset = max(int(update["update_id"]) for update in updates) + 1

    async def _get_updates(self) -> list[dict[str, Any]]:  # as above
        options = self._options
        method = RawUpdates(
            offset=self._offset,
            limit=options.batch,
            timeout=options.poll_timeout_s,
            allowed_updates=list(ALLOWED_UPDATES),
        )
        try:
            async with asyncio.timeout(None) as self._poll:
                updates = await self._bot(
                    method, request_timeout=int(options.poll_timeout_s + options.request_timeout_s)
                )
        except TimeoutError:
            return []  # `stop` ended the poll, or the lease is lost; what it may have brought comes again
        finally:
            self._poll = None  # a poll that has ended cannot be ended: `stop` may come between two of them
        return cast("list[dict[str, Any]]", updates)

    async def _misfortune(self, error: Exception, failures: int) -> None:
        met = classify(error)
        if met.fault is Fault.UNAUTHORIZED:
            raise BadToken from None
        wait_s = self._wait_s(met, failures)
        text = str(error) if isinstance(error, NotAdmittedError) else f"{met.fault}: {met.reason}"
        told = {"outage": "Telegram" if met.fault in _AWAY else away(error), "again_s": wait_s}
        log.warning("updates are not coming in, next attempt in %.1f s: %s", wait_s, text, extra=told)
        if met.fault is Fault.CONFLICT:
            await self._give_back()
        await self._pause(wait_s)

    def _wait_s(self, met: Classified, failures: int) -> float:
        if met.fault is Fault.FLOOD:
            return float(met.retry_after_s)
        options = self._options
        ceiling = min(options.backoff_cap_s, options.backoff_base_s * 2 ** min(failures, 16))
        return random.uniform(ceiling / 2, ceiling)

    async def _full(self) -> bool:
        try:
            return await self._depth() >= self._options.max_depth
        except Exception as error:  # the bus is away; what it is does not matter here
            log.warning("the queue's depth is unknown: %s", type(error).__name__, extra={"outage": away(error)})
            return True

    async def _keep_lease(self) -> None:
        while self._lease is not None:
            try:
                async with asyncio.timeout(2 * self._options.renew_s):
                    held = await self._lease.hold()
            except Exception as error:  # as above
                told = {"outage": away(error) or VALKEY}  # also when its answer took too long
                log.warning("the poller's lease cannot be renewed: %s", type(error).__name__, extra=told)
                held = False
            if held:
                self._held.set()
            elif self._held.is_set():
                self._held.clear()
                self._end_poll()  # the next holder's would be answered with 409
            await asyncio.sleep(self._options.renew_s)

    async def _give_back(self) -> None:
        """Let another poller have the lease. Without a lease the next attempt is simply later."""
        if self._lease is None:
            return
        self._held.clear()
        try:
            await self._lease.release()
        except Exception as error:  # it lapses by itself
            log.warning(
                "the poller's lease was not given back: %s", type(error).__name__, extra={"outage": away(error)}
            )

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


class NotAdmittedError(Exception):
    """The bus took not every update of a batch; the batch comes again."""

    def __init__(self, count: int) -> None:
        super().__init__(f"the bus did not admit every one of {count} updates")


def incoming(bot_id: int, update: dict[str, Any]) -> Incoming:  # as above
    """Name an update's conversation and its dedup key, and keep its JSON."""
    payload = _json(update)
    if len(payload) > MAX_UPDATE_BYTES:
        log.warning("update %s has %d bytes and is passed over", update["update_id"], len(payload))
        payload = _json({"update_id": update["update_id"]})
    return Incoming(conversation(update), f"{bot_id}:{update['update_id']}", payload)


def conversation(update: dict[str, Any]) -> str:  # as above
    """`chat:topic` for what happens in a chat, `user:0` for what belongs to a person only."""
    for body in update.values():
        if not isinstance(body, dict):
            continue
        event = cast("dict[str, Any]", body)
        message = cast("dict[str, Any]", event.get("message") or event)
        if chat := message.get("chat"):
            # A reply in an ordinary group carries a thread id too; only topics are rooms of their own.
            thread = message.get("message_thread_id") if message.get("is_topic_message") else None
            return f"{chat['id']}:{thread or 0}"
        if person := event.get("from") or event.get("user"):
            return f"{person['id']}:0"
    return "0:0"


def _json(update: dict[str, Any]) -> bytes:  # as above
    text = json.dumps(update, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # JSON may spell half a surrogate pair, which no text has bytes for
