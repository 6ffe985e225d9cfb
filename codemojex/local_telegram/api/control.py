"""The control API: what tests and the page do as people, as JSON under `/control`.

Bodies are objects; a missing or mistyped field is a 400 that names it. A refusal is `{"error": "…"}`. Only JSON
bodies are taken, so that no foreign web page can act through a visitor's browser.
"""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from codemojex.local_telegram.api.bodies import UNREADABLE, json_object, number, trouble
from codemojex.local_telegram.api.views import full_state, state_of
from codemojex.local_telegram.errors import ControlError, Json
from codemojex.local_telegram.state import membership, people
from codemojex.local_telegram.state.faults import Chaos, InjectedFault
from codemojex.local_telegram.state.world import World

WAIT_LIMIT_S = 60
Act = Callable[[Json], Awaitable[Any]]  # each returns its own JSON


def want(body: Json, name: str, kind: type, default: object = ...) -> Any:  # the caller names the type
    """A field of a body with its type checked; without a default it is required."""
    value = body.get(name)
    if value is None:
        if default is ...:
            raise ControlError(f"{name} is missing")
        return default
    if isinstance(value, int | float) and not number(value):
        raise ControlError(f"{name} must be a finite number of at most 64 bits")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ControlError(f"{name} must be {'a list of ids' if kind is list else kind.__name__}")
    return value


class Control:
    """The handlers of the control API."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        """The routes of the control API, except the event stream."""
        acts: dict[str, Act] = {
            "people": self.people,
            "groups": self.groups,
            "send": self.send,
            "edit": self.edit,
            "press": self.press,
            "members": self.members,
            "topics": self.topics,
            "migrate": self.migrate,
            "block": self.block,
            "faults": self.faults,
            "chaos": self.chaos,
            "clear_faults": self.clear_faults,
            "bot": self.bot,
            "clock": self.clock,
        }
        looks: dict[str, Act] = {
            "state": self.state,
            "messages": self.messages,
            "log": self.log,
            "updates": self.updates,
            "faults": self.waiting_faults,
            "changes": self.changes,
        }
        posts = [web.post(f"/control/{name}", _door(act)) for name, act in acts.items()]
        return [*posts, *(web.get(f"/control/{name}", _window(look)) for name, look in looks.items())]

    async def people(self, body: Json) -> Json:
        """Add a person."""
        name, username, language = (want(body, key, str, None) for key in ("name", "username", "language"))
        return {"user_id": people.add_person(self._world, name or "", username, language).user_id}

    async def groups(self, body: Json) -> Json:
        """Add a group."""
        chat = membership.create_group(
            self._world,
            want(body, "title", str),
            _ids(body, "members"),
            kind=want(body, "kind", str, "supergroup"),
            forum=want(body, "forum", bool, False),
            privacy=want(body, "privacy", bool, None),
            admins=_ids(body, "admins"),
            bot_admin=want(body, "bot_admin", bool, False),
            bot=want(body, "bot", bool, True),
        )
        return {"chat_id": chat.chat_id}

    async def send(self, body: Json) -> Json:
        """A person writes."""
        return people.send(
            self._world,
            want(body, "user_id", int),
            want(body, "chat_id", int),
            want(body, "text", str),
            thread_id=want(body, "thread_id", int, None),
            reply_to=want(body, "reply_to", int, None),
            anonymous=want(body, "anonymous", bool, False),
            forwarded=want(body, "forwarded", bool, False),
        )

    async def edit(self, body: Json) -> Json:
        """A person edits."""
        user_id, chat_id, message_id = (want(body, key, int) for key in ("user_id", "chat_id", "message_id"))
        return people.edit(self._world, user_id, chat_id, message_id, want(body, "text", str))

    async def press(self, body: Json) -> Json:
        """A person presses a button and waits for the answer."""
        user_id, chat_id, message_id = (want(body, key, int) for key in ("user_id", "chat_id", "message_id"))
        wait_s = want(body, "wait_s", float, people.ANSWER_WAIT_S)
        if not 0 <= wait_s <= WAIT_LIMIT_S:
            raise ControlError(f"wait_s must be 0 to {WAIT_LIMIT_S}")
        answer = await people.press(
            self._world,
            user_id,
            chat_id,
            message_id,
            want(body, "data", str),
            wait_s=wait_s,
            inaccessible=want(body, "inaccessible", bool, False),
        )
        return {"answer": answer}

    async def members(self, body: Json) -> Json:
        """Change who is in a group; the bot's own id works too."""
        chat = membership.group_of(self._world, want(body, "chat_id", int))
        membership.change_member(self._world, chat, want(body, "user_id", int), want(body, "action", str))
        return {"ok": True}

    async def topics(self, body: Json) -> Json:
        """Open a topic, or close / reopen one."""
        user_id, chat_id = want(body, "user_id", int), want(body, "chat_id", int)
        chat = membership.chat_of(self._world, user_id, chat_id)
        thread_id = want(body, "thread_id", int, None)
        if thread_id is None:
            return {"thread_id": membership.open_topic(self._world, chat, user_id, want(body, "name", str)).thread_id}
        membership.close_topic(self._world, chat, user_id, thread_id, want(body, "closed", bool))
        return {"thread_id": thread_id}

    async def migrate(self, body: Json) -> Json:
        """A basic group becomes a supergroup."""
        chat = membership.group_of(self._world, want(body, "chat_id", int))
        return {"chat_id": membership.migrate(self._world, chat).chat_id}

    async def block(self, body: Json) -> Json:
        """A person blocks or unblocks the bot."""
        membership.set_blocked(self._world, want(body, "user_id", int), want(body, "blocked", bool, True))
        return {"ok": True}

    async def faults(self, body: Json) -> Json:
        """Queue a fault."""
        self._world.faults.add(
            InjectedFault(
                want(body, "method", str, "*"),
                want(body, "kind", str),
                want(body, "times", int, 1),
                want(body, "retry_after", int, 1),
                want(body, "description", str, None),
                want(body, "chat_id", int, None),
                want(body, "delay_s", float, 1.0),
            )
        )
        return {"ok": True}

    async def chaos(self, body: Json) -> Json:
        """Start random faults; probability 0 stops them."""
        probability = want(body, "probability", float)
        kinds = tuple(map(str, want(body, "kinds", list, ["429", "500", "html502", "cut", "lost"])))
        chaos = Chaos(want(body, "seed", int, 0), probability, kinds, want(body, "method", str, "*"))
        self._world.faults.shake(chaos if probability else None)
        return {"ok": True}

    async def clear_faults(self, body: Json) -> Json:
        """Forget all faults."""
        self._world.faults.clear()
        return {"ok": True}

    async def bot(self, body: Json) -> Json:
        """Change the bot's privacy mode; as on Telegram it holds for groups that the bot joins later."""
        self._world.state.bot.privacy = want(body, "privacy", bool)
        self._world.changed("bot")
        return {"ok": True}

    async def clock(self, body: Json) -> Json:
        """Jump in time."""
        try:
            self._world.clock.shift(want(body, "shift_s", float))
        except ValueError as error:
            raise ControlError(f"shift_s: {error}") from error
        return {"date": self._world.clock.date()}

    async def state(self, query: Json) -> Json:
        """Everything, or what one person sees."""
        if "user_id" in query:
            return state_of(self._world, _number(query, "user_id"))
        return full_state(self._world)

    async def messages(self, query: Json) -> list[Json]:
        """The messages of a chat, oldest first; `thread_id` narrows."""
        chat = self._world.state.chats.get(_number(query, "chat_id"))
        if chat is None:
            return []
        thread_id = _number(query, "thread_id") if "thread_id" in query else None
        return [m for m in chat.messages.values() if thread_id is None or m.get("message_thread_id") == thread_id]

    async def log(self, query: Json) -> list[Json]:
        """The bot's calls, oldest first; `method` and `after` (an entry's n) narrow. Successful polls are left out."""
        method, after = str(query.get("method", "")).lower(), _number(query, "after", 0)
        return [e for e in self._world.log if e["n"] > after and method in ("", e["method"].lower())]

    async def updates(self, query: Json) -> list[Json]:
        """The updates that the bot has not confirmed."""
        return [{"update_id": u.update_id, "kind": u.kind} for u in self._world.updates.waiting()]

    async def waiting_faults(self, query: Json) -> list[Json]:
        """The faults that have not met their calls."""
        return [dataclasses.asdict(fault) for fault in self._world.faults.waiting()]

    async def changes(self, query: Json) -> Json:
        """Wait until something newer than version `after` happened, at most `timeout_s`."""
        timeout_s = min(50, max(0, _number(query, "timeout_ms", 10_000) / 1000))
        return {"version": await self._world.events.changed_since(_number(query, "after", -1), timeout_s)}


def _door(act: Act) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            if request.content_type != "application/json":
                raise ControlError("send a JSON object with the content type application/json", 415)
            try:
                body = await json_object(request)
            except UNREADABLE as error:
                raise ControlError(f"the body is not a JSON object: {error}") from error
            for name, value in body.items():
                if wrong := trouble([name, value]):
                    raise ControlError(f"{_shown(name)} cannot be taken: {wrong}")
            return web.json_response(await act(body))
        except ControlError as error:
            return web.json_response({"error": error.reason}, status=error.status)

    return handle


def _window(look: Act) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return web.json_response(await look(dict(request.query)))
        except ControlError as error:
            return web.json_response({"error": error.reason}, status=error.status)

    return handle


def _number(query: Json, name: str, default: int | None = None) -> int:
    try:
        value = int(query.get(name, default))
    except (TypeError, ValueError):
        raise ControlError(f"{name} must be a whole number") from None
    if not number(value):
        raise ControlError(f"{name} must be a number of at most 64 bits")
    return value


def _shown(name: str) -> str:
    """The name of a field, as an answer can hold it."""
    return name[:64].encode(errors="replace").decode()


def _ids(body: Json, name: str) -> list[int]:
    ids: list[object] = want(body, name, list, [])
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in ids):
        raise ControlError(f"{name} must be a list of ids")
    return [item for item in ids if isinstance(item, int)]
