"""Rooms: the places to play. A room is a chat or one topic of it, and keeps its id when the chat migrates.

The mapping chat → room lives in Valkey for 90 days after its last use; when it is gone, the durable store still
knows every room in which a game was finished. Nothing here opens or closes games.
"""

from __future__ import annotations

import msgspec

from .context import Play


class Room(msgspec.Struct, frozen=True):
    """A place to play. `kind` is Telegram's chat type; `thread_id` None is the chat itself (or its General topic).

    `lang` and `preset` are the room's own choices, empty until somebody makes them.
    """

    id: str
    chat_id: int
    thread_id: int | None
    kind: str
    title: str
    lang: str = ""
    preset: str = ""
    rev: int = 0


async def room_for(play: Play, chat_id: int, thread_id: int | None, kind: str, title: str) -> Room:
    """The room of a chat or topic, made on first sight; a changed title or kind is stored."""
    raise NotImplementedError


async def get(play: Play, room_id: str) -> Room | None:
    """The room by id, or None when neither Valkey nor the durable store knows it."""
    raise NotImplementedError


async def configure(play: Play, room_id: str, *, lang: str | None = None, preset: str | None = None) -> Room | None:
    """Set the room's own language or preset; None leaves one as it is."""
    raise NotImplementedError


async def migrate(play: Play, old_chat_id: int, new_chat_id: int) -> int:
    """Give the rooms of a group to the supergroup it became; a second call changes nothing. Returns rooms moved."""
    raise NotImplementedError
