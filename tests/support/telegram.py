"""People of the local Telegram, for tests: they write, press and read through the control API.

`wait_for` and `wait_for_message` wait for events of the server, never sleep, and fail with what the chat shows.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

Json = dict[str, Any]
T = TypeVar("T")


class ControlRefused(Exception):
    """The control API said no; the text is its reason."""


def unmarked(text: str) -> str:
    """A text without the invisible marks that the bot puts around and into names."""
    return re.sub("[\u2060\u2068\u2069]", "", text)


class People:
    """A client of one local Telegram: `async with People(telegram.url) as people`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def post(self, act: str, **body: object) -> Any:
        """POST /control/<act>; fields that are None are left out."""
        sent = {name: value for name, value in body.items() if value is not None}
        async with self._session.post(f"{self._url}/control/{act}", json=sent) as answer:
            return await self._read(answer)

    async def get(self, look: str, **query: object) -> Any:
        """GET /control/<look>; parameters that are None are left out."""
        sent = {name: str(value) for name, value in query.items() if value is not None}
        async with self._session.get(f"{self._url}/control/{look}", params=sent) as answer:
            return await self._read(answer)

    async def add_person(self, name: str, username: str | None = None, language: str | None = None) -> int:
        """A new person; returns the user id, which is also the id of the private chat."""
        return (await self.post("people", name=name, username=username, language=language))["user_id"]

    async def add_group(
        self,
        title: str,
        members: list[int],
        *,
        forum: bool = False,
        privacy: bool | None = None,
        admins: list[int] | None = None,
        bot_admin: bool = False,
        bot: bool = True,
        kind: str | None = None,
    ) -> int:
        """A new group owned by the first member, with the bot in it; returns the chat id."""
        body = {"forum": forum, "privacy": privacy, "admins": admins, "bot_admin": bot_admin, "bot": bot, "kind": kind}
        return (await self.post("groups", title=title, members=members, **body))["chat_id"]

    async def start(self, user_id: int, payload: str = "") -> Json:
        """Press Start in the private chat (with the payload of a t.me link)."""
        return await self.send(user_id, user_id, f"/start {payload}".strip())

    async def send(
        self,
        user_id: int,
        chat_id: int,
        text: str,
        *,
        thread_id: int | None = None,
        reply_to: int | None = None,
        anonymous: bool | None = None,
        forwarded: bool | None = None,
    ) -> Json:
        """Write, or forward; returns the message."""
        where = {"user_id": user_id, "chat_id": chat_id, "thread_id": thread_id, "reply_to": reply_to}
        return await self.post("send", text=text, anonymous=anonymous, forwarded=forwarded, **where)

    async def edit(self, user_id: int, chat_id: int, message_id: int, text: str) -> Json:
        """Edit an own message."""
        return await self.post("edit", user_id=user_id, chat_id=chat_id, message_id=message_id, text=text)

    async def press(
        self, user_id: int, chat_id: int, message_id: int, data: str, *, wait_s: float | None = None
    ) -> Json | None:
        """Press the button with this data; the answer {text, show_alert}, or None when none came in `wait_s` (15)."""
        where = {"user_id": user_id, "chat_id": chat_id, "message_id": message_id}
        return (await self.post("press", data=data, wait_s=wait_s, **where))["answer"]

    async def press_text(self, user_id: int, chat_id: int, message_id: int, label: str) -> Json | None:
        """Press the first button of a message whose label contains `label`."""
        for message in await self.messages(chat_id):
            if message["message_id"] == message_id:
                for button in buttons(message):
                    if label in button["text"] and "callback_data" in button:
                        return await self.press(user_id, chat_id, message_id, button["callback_data"])
                raise AssertionError(f"no button {label!r} among {[b['text'] for b in buttons(message)]}")
        raise AssertionError(f"no message {message_id} in chat {chat_id}")

    async def messages(self, chat_id: int, thread_id: int | None = None, *, raw: bool = False) -> list[Json]:
        """The messages of a chat, oldest first; their texts as a reader sees them, without the marks around names."""
        messages: list[Json] = await self.get("messages", chat_id=chat_id, thread_id=thread_id)
        for message in [] if raw else messages:
            if "text" in message:
                message["text"] = unmarked(message["text"])
        return messages

    async def state(self, user_id: int | None = None) -> Json:
        """Everything, or what one person sees."""
        return await self.get("state", user_id=user_id)

    async def members(self, chat_id: int, user_id: int, action: str) -> None:
        """join, leave, kick, promote, demote; mute and unmute for the bot."""
        await self.post("members", chat_id=chat_id, user_id=user_id, action=action)

    async def topic(self, user_id: int, chat_id: int, name: str) -> int:
        """Open a topic; returns its thread id."""
        return (await self.post("topics", user_id=user_id, chat_id=chat_id, name=name))["thread_id"]

    async def block(self, user_id: int, blocked: bool = True) -> None:
        """Block the bot, or unblock it."""
        await self.post("block", user_id=user_id, blocked=blocked)

    async def fault(self, method: str, kind: str, times: int = 1, **more: object) -> None:
        """Queue a fault: 429, 400, 403, 500, html502, cut, lost, slow, duplicate, reorder."""
        await self.post("faults", method=method, kind=kind, times=times, **more)

    async def log(self, method: str | None = None, after: int | None = None) -> list[Json]:
        """The bot's calls so far, without successful polls."""
        return await self.get("log", method=method, after=after)

    async def wait_for(self, predicate: Callable[[], Awaitable[T | None]], deadline_s: float = 10.0) -> T:
        """Call `predicate` after every change until it returns something true; return that."""
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        version = -1
        while True:
            version = (await self.get("changes", after=version - 1, timeout_ms=0))["version"]
            if found := await predicate():
                return found
            left = end - loop.time()
            if left <= 0:
                raise AssertionError(f"not within {deadline_s} s")
            await self.get("changes", after=version, timeout_ms=int(min(left, 20) * 1000))

    async def wait_for_message(
        self, chat_id: int, predicate: Callable[[Json], object], deadline_s: float = 10.0, *, after: int = 0
    ) -> Json:
        """The first message with an id above `after` that satisfies the predicate, as soon as it is (edited) so."""

        async def look() -> Json | None:
            for message in await self.messages(chat_id):
                if message["message_id"] > after and predicate(message):
                    return message
            return None

        try:
            return await self.wait_for(look, deadline_s)
        except AssertionError as error:
            shown = [
                {name: m.get(name) for name in ("message_id", "text", "reply_markup") if name in m}
                for m in await self.messages(chat_id)
            ]
            raise AssertionError(
                f"{error}; chat {chat_id} shows:\n{json.dumps(shown, ensure_ascii=False, indent=1)}"
            ) from None

    async def _read(self, answer: aiohttp.ClientResponse) -> Any:
        body = await answer.json()
        if answer.status != 200:
            raise ControlRefused(body.get("error", body))
        return body


def buttons(message: Json) -> list[Json]:
    """The buttons of a message, row by row."""
    return [button for row in message.get("reply_markup", {}).get("inline_keyboard", []) for button in row]
