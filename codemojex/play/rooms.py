"""Rooms: the places to play. A room is a chat or one topic of it, and keeps its id when the chat migrates.

The mapping chat → room lives in Valkey for 90 days after its last use; when it is gone, the durable store still
knows every room in which a game was finished. Nothing here opens or closes games.
"""

from __future__ import annotations

import msgspec

from codemojex.play import keys, mappings
from codemojex.play.context import Play
from codemojex.play.people import input_checks
from codemojex.store.history import find_room


class Room(msgspec.Struct, frozen=True):
    """A place to play. `kind` is Telegram's chat type; `thread_id` None is the chat itself (or its General topic).

    `lang` and `preset` are the room's own choices, empty until somebody makes them; `rev` grows with every change.
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
    """The room of a chat or topic, made on first sight; a changed title or kind is stored.

    Raises StoreUnavailable when Valkey does not know the chat and the durable store cannot be asked, and InvalidValue
    for a chat, topic or kind that cannot be. A title that cannot be kept is made fit.
    """
    kind, title = input_checks.kind(kind), input_checks.name(title)
    room = await find(play, chat_id, thread_id)
    if room is not None and (room.kind, room.title) == (kind, title):
        return room
    room_id = room.id if room else await _bind(play, chat_id, thread_id, play.mint.mint("ROM"))
    return await _remember(play, room_id, chat_id=chat_id, thread_id=thread_id or "", kind=kind, title=title)


async def find(play: Play, chat_id: int, thread_id: int | None) -> Room | None:
    """The room of a chat or topic if there is one. Raises StoreUnavailable as `room_for` does."""
    table, chat_id, thread_id = play.caches.rooms, input_checks.chat_id(chat_id), input_checks.thread_id(thread_id)
    if table is None:
        return await load_place(play, chat_id, thread_id)
    return (await table.get(_entry(play, chat_id, thread_id))).value


async def get(play: Play, room_id: str) -> Room | None:
    """The room by id, or None when Valkey has forgotten it."""
    table = play.caches.rooms
    if table is None:
        return await load(play, room_id)
    return (await table.get(mappings.entry(play, room_id))).value


async def configure(play: Play, room_id: str, *, lang: str | None = None, preset: str | None = None) -> Room | None:
    """Set the room's own language or preset; None leaves one as it is. None when the room is not known."""
    if await get(play, room_id) is None:
        return None
    choices = {name: value for name, value in (("lang", lang), ("preset", preset)) if value is not None}
    return await _remember(play, room_id, **choices)


async def migrate(play: Play, old_chat_id: int, new_chat_id: int) -> int:
    """Give the rooms of a group to the supergroup it became; a second call changes nothing. Returns rooms moved."""
    moved = 0
    old_chat_id, new_chat_id = input_checks.chat_id(old_chat_id), input_checks.chat_id(new_chat_id)
    topics = keys.chat_rooms(play.options, old_chat_id)
    for raw in sorted(await play.bus.execute("SMEMBERS", topics)):
        thread_id = int(raw) or None
        old_place = keys.chat(play.options, old_chat_id, thread_id)
        room_id = await mappings.bound(play, old_place)
        if room_id is None:
            continue
        # The group's room wins over one that the supergroup may have got from an early message.
        new_place = keys.chat(play.options, new_chat_id, thread_id)
        await play.bus.execute("SET", new_place, room_id, "PX", play.options.mapping_keep_ms)
        await _note_topic(play, new_chat_id, thread_id)
        room = await _remember(play, room_id, chat_id=new_chat_id, thread_id=thread_id or "", kind="supergroup")
        await play.bus.execute("DEL", old_place)
        if play.caches.rooms is not None:
            await play.caches.rooms.invalidate(_entry(play, old_chat_id, thread_id), room.rev)
        moved += 1
    await play.bus.execute("DEL", topics)
    return moved


async def load_place(play: Play, chat_id: int, thread_id: int | None) -> Room | None:
    """Find the room of a chat past every cache, in Valkey, then in the durable store, and keep it alive."""
    room_id = await mappings.bound(play, keys.chat(play.options, chat_id, thread_id))
    if room_id is not None and (room := await load(play, room_id)) is not None:
        return room
    archived = await find_room(play.store, chat_id, thread_id)
    if archived is None:
        return None
    room_id = await _bind(play, chat_id, thread_id, archived.id)
    fields = {"chat_id": chat_id, "thread_id": thread_id or "", "kind": archived.kind, "title": archived.title}
    return _room(room_id, await mappings.remember(play, _key(play, room_id), **fields))


async def load(play: Play, room_id: str) -> Room | None:
    """Read the room past every cache, which counts as its use."""
    fields = await mappings.read(play, _key(play, room_id))
    return _room(room_id, fields) if "chat_id" in fields else None


async def _bind(play: Play, chat_id: int, thread_id: int | None, room_id: str) -> str:
    bound = await mappings.bind(play, keys.chat(play.options, chat_id, thread_id), room_id)
    await _note_topic(play, chat_id, thread_id)
    return bound


async def _note_topic(play: Play, chat_id: int, thread_id: int | None) -> None:
    """A chat knows its topics, for its migration."""
    topics = keys.chat_rooms(play.options, chat_id)
    await play.bus.execute("SADD", topics, thread_id or 0)
    await play.bus.execute("PEXPIRE", topics, play.options.mapping_keep_ms)


async def _remember(play: Play, room_id: str, **fields: str | int) -> Room:
    room = _room(room_id, await mappings.remember(play, _key(play, room_id), **fields))
    if (table := play.caches.rooms) is not None:
        await table.put(mappings.entry(play, room_id), room, room.rev)
        await table.put(_entry(play, room.chat_id, room.thread_id), room, room.rev)
    return room


def _entry(play: Play, chat_id: int, thread_id: int | None) -> str:
    return mappings.entry(play, f"{chat_id}:{thread_id or 0}")


def _key(play: Play, room_id: str) -> str:
    return keys.room(keys.queue(play.options, room_id), room_id)


def _room(room_id: str, fields: dict[str, str]) -> Room:
    thread_id = fields.get("thread_id", "")
    return Room(
        id=room_id,
        chat_id=int(fields["chat_id"]),
        thread_id=int(thread_id) if thread_id else None,
        kind=fields.get("kind", ""),
        title=fields.get("title", ""),
        lang=fields.get("lang", ""),
        preset=fields.get("preset", ""),
        rev=int(fields.get("rev", "1")),
    )
