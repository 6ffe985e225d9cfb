"""The Bot API over HTTP: `/bot<token>/<method>`.

One door for every call: token, method, fields, faults, limits of the schema, the call itself, the log. The answer is
always Telegram's JSON, except where a fault asked for something worse. The token never reaches the log.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiogram import methods as api
from aiohttp import web

from codemojex.local_telegram.api import delivery, reading, writing
from codemojex.local_telegram.api.parameters import Method, check, model_of, read_fields
from codemojex.local_telegram.errors import ApiError, Json, not_simulated
from codemojex.local_telegram.state.faults import InjectedFault
from codemojex.local_telegram.state.world import World

Handler = Callable[[World, Any], Awaitable[Any]]  # each takes its own method model and returns its own JSON


@dataclass(frozen=True)
class Simulated:
    """A method that this server honours, with the fields that it honours."""

    answer: Handler
    fields: frozenset[str] = frozenset()


def _simulated(answer: Handler, *fields: str) -> Simulated:
    return Simulated(answer, frozenset(fields))


MENU = ("scope", "language_code")
TEXT = ("chat_id", "text", "parse_mode", "entities", "reply_markup")
SIMULATED: dict[type[Method], Simulated] = {
    api.GetMe: _simulated(reading.get_me),
    api.GetUpdates: _simulated(delivery.get_updates, "offset", "limit", "timeout", "allowed_updates"),
    api.SetWebhook: _simulated(
        delivery.set_webhook, "url", "secret_token", "max_connections", "allowed_updates", "drop_pending_updates"
    ),
    api.DeleteWebhook: _simulated(delivery.delete_webhook, "drop_pending_updates"),
    api.GetWebhookInfo: _simulated(delivery.get_webhook_info),
    api.SendMessage: _simulated(
        writing.send_message, *TEXT, "message_thread_id", "reply_parameters", "ephemeral_message_parameters"
    ),
    api.EditMessageText: _simulated(writing.edit_message_text, *TEXT, "message_id"),
    api.EditMessageReplyMarkup: _simulated(writing.edit_message_reply_markup, "chat_id", "message_id", "reply_markup"),
    api.DeleteMessage: _simulated(writing.delete_message, "chat_id", "message_id"),
    api.AnswerCallbackQuery: _simulated(
        writing.answer_callback_query, "callback_query_id", "text", "show_alert", "url", "cache_time"
    ),
    api.PinChatMessage: _simulated(writing.pin_chat_message, "chat_id", "message_id"),
    api.UnpinChatMessage: _simulated(writing.unpin_chat_message, "chat_id", "message_id"),
    api.UnpinAllChatMessages: _simulated(writing.unpin_all_chat_messages, "chat_id"),
    api.SendChatAction: _simulated(writing.send_chat_action, "chat_id", "message_thread_id", "action"),
    api.GetChat: _simulated(reading.get_chat, "chat_id"),
    api.GetChatMember: _simulated(reading.get_chat_member, "chat_id", "user_id"),
    api.GetChatAdministrators: _simulated(reading.get_chat_administrators, "chat_id"),
    api.GetChatMemberCount: _simulated(reading.get_chat_member_count, "chat_id"),
    api.SetMyCommands: _simulated(reading.set_my_commands, "commands", *MENU),
    api.GetMyCommands: _simulated(reading.get_my_commands, *MENU),
    api.DeleteMyCommands: _simulated(reading.delete_my_commands, *MENU),
    api.SetMyName: _simulated(reading.set_my_text, "name", "language_code"),
    api.GetMyName: _simulated(reading.get_my_text, "language_code"),
    api.SetMyDescription: _simulated(reading.set_my_text, "description", "language_code"),
    api.GetMyDescription: _simulated(reading.get_my_text, "language_code"),
    api.SetMyShortDescription: _simulated(reading.set_my_text, "short_description", "language_code"),
    api.GetMyShortDescription: _simulated(reading.get_my_text, "language_code"),
}


class BotApi:
    """The handler of all bot calls."""

    def __init__(self, world: World, token: str) -> None:
        self._world = world
        self._token = token

    def routes(self) -> list[web.RouteDef]:
        """The routes of the Bot API."""
        return [
            web.route("*", r"/bot{token:[^/]+}/{method}", self.handle),
            web.route("*", r"/file/bot{token:[^/]+}/{path:.+}", self._file),
        ]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        name = request.match_info["method"]
        fields: Json = {}
        fault: InjectedFault | None = None
        try:
            if not hmac.compare_digest(request.match_info["token"].encode(), self._token.encode()):
                raise ApiError(401, "Unauthorized")
            model = model_of(name)
            name = model.__api_method__
            fields = await read_fields(request)
            simulated = SIMULATED.get(model)
            if simulated is None:
                raise not_simulated(name)
            call = check(model, fields, set(simulated.fields))
            fault = self._world.faults.take(name, _chat_id(fields))
            if fault is not None and (early := await self._before(request, fault, name, fields)) is not None:
                return early
            result = await simulated.answer(self._world, call)
        except ApiError as error:
            outcome: Json = {"ok": False, "error_code": error.code, "description": error.description}
            self._note(name, fields, {**outcome, **({"fault": fault.kind} if fault else {})})
            return web.json_response(error.body(), status=error.code)
        self._note(name, fields, {"ok": True, **({"fault": fault.kind} if fault else {})})
        if fault is not None and fault.kind == "lost":
            return _cut(request)
        if fault is not None and fault.kind == "duplicate":
            result = [update for update in result for _ in range(2)]
        if fault is not None and fault.kind == "reorder":
            result = list(reversed(result))
        return web.json_response({"ok": True, "result": result})

    async def _before(
        self, request: web.Request, fault: InjectedFault, name: str, fields: Json
    ) -> web.StreamResponse | None:
        """What a fault does instead of the call; `None` when the call goes on."""
        if (error := fault.error()) is not None:
            raise error
        if fault.kind == "slow":
            await asyncio.sleep(fault.delay_s)
            return None
        if fault.kind in ("cut", "html502"):
            self._note(name, fields, {"ok": False, "fault": fault.kind})
            if fault.kind == "cut":
                return _cut(request)
            page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
            return web.Response(text=page, status=502, content_type="text/html")
        return None

    def _note(self, name: str, fields: Json, outcome: Json) -> None:
        if "secret_token" in fields:
            fields = {**fields, "secret_token": "hidden"}
        if name != "getUpdates" or not outcome["ok"]:
            self._world.note(name, fields, outcome)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        error = ApiError(404, "Not Found")
        return web.json_response(error.body(), status=error.code)


def _chat_id(fields: Json) -> int | None:
    try:
        return int(fields["chat_id"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _cut(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
