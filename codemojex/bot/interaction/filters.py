"""What a handler waits for. All filters are async classes: a synchronous one would cost a hop to a thread each time."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from aiogram.filters import Filter
from aiogram.types import CallbackQuery, Message

from codemojex.bot.interaction.callbacks import Press, read_press
from codemojex.bot.interaction.scene import Desk
from codemojex.game.emoji import clusters, is_picture

ORDERS = ("play", "guess", "board", "history", "lock", "unlock", "end", "vote_end", "verify", "rules", "help")
LONGEST_GUESS = 200  # characters; eight emojis of any spelling and the spaces between fit easily


class Order(Filter):
    """A command such as `/play`, also as `/play@this_bot`; the handler gets `args`, the text after it."""

    def __init__(self, *names: str) -> None:
        self._names = names

    async def __call__(self, message: Message, desk: Desk) -> bool | dict[str, Any]:
        found = read_order(message.text, desk.me.username)
        if found is None or found[0] not in self._names or is_copy(message):
            return False
        return {"args": found[1]}


class StrangeOrder(Filter):
    """A command of a group that none of ours is; the handler gets `near`, the one that it resembles.

    Without our name it may be for another bot, and is left alone unless it resembles one of ours.
    """

    async def __call__(self, message: Message, desk: Desk) -> bool | dict[str, Any]:
        found = read_order(message.text, desk.me.username)
        if found is None or is_copy(message) or message.chat.type not in ("group", "supergroup"):
            return False
        near = get_close_matches(found[0][:32], ORDERS, n=1, cutoff=0.75)
        addressed = "@" in (message.text or "").split(maxsplit=1)[0]
        return {"near": near[0] if near else ""} if near or addressed else False


class OnlyEmojis(Filter):
    """A message of emojis and spaces, written by a person here and now."""

    async def __call__(self, message: Message) -> bool:
        return not is_copy(message) and only_emojis(message.text)


class InPrivate(Filter):
    """A text in a private chat."""

    async def __call__(self, message: Message) -> bool:
        return message.chat.type == "private" and message.text is not None


class Pressed(Filter):
    """A button of one kind; the handler gets `press`."""

    def __init__(self, kind: type[Press]) -> None:
        self._kind = kind

    async def __call__(self, query: CallbackQuery) -> bool | dict[str, Any]:
        press = read_press(query.data)
        return {"press": press} if isinstance(press, self._kind) and query.message is not None else False


class Migrated(Filter):
    """The two service messages of a group that becomes a supergroup; the handler gets `old` and `new`."""

    async def __call__(self, message: Message) -> bool | dict[str, Any]:
        if message.migrate_to_chat_id is not None:
            return {"old": message.chat.id, "new": message.migrate_to_chat_id}
        if message.migrate_from_chat_id is not None:
            return {"old": message.migrate_from_chat_id, "new": message.chat.id}
        return False


class Arrived(Filter):
    """The service messages of people who come or go; the handler gets `came` and `left`."""

    async def __call__(self, message: Message) -> bool | dict[str, Any]:
        if message.new_chat_members or message.left_chat_member is not None:
            return {"came": message.new_chat_members or [], "left": message.left_chat_member}
        return False


class Reopened(Filter):
    """The service message of a topic that is open again."""

    async def __call__(self, message: Message) -> bool:
        return message.forum_topic_reopened is not None


def read_order(text: str | None, username: str) -> tuple[str, str] | None:
    """Command (lower case) and the rest of `/command@bot rest`; None for other text or another bot's command."""
    if not text or not text.startswith("/"):
        return None
    head, _, rest = text[1:].replace("\n", " ", 1).partition(" ")
    name, at, bot = head.partition("@")
    if not name or (at and bot.lower() != username.lower()):
        return None
    return name.lower(), rest.strip()


def only_emojis(text: str | None) -> bool:
    """Whether a text is emojis and white space only, and short enough to be a guess."""
    if not text or len(text) > LONGEST_GUESS or text[0].isascii():
        return False
    return all(cluster.isspace() or is_picture(cluster) for cluster in clusters(text))


def is_copy(message: Message) -> bool:
    """Whether somebody else's words are repeated here: a forward, or a message through another bot."""
    return message.forward_origin is not None or message.via_bot is not None or bool(message.is_automatic_forward)
