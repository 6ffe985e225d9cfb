"""Chats are rooms and users are players, found again after everything but the durable store is lost."""

from __future__ import annotations

import asyncio

from codemojex.game.presets import settings_for
from codemojex.play import keys, rooms
from codemojex.play.archive import archiver
from codemojex.play.people import players
from tests.play.table import GameTable


async def test_chat_is_one_room_and_its_topics_are_others(table: GameTable) -> None:
    chat = table.room.chat_id
    again = await rooms.room_for(table.play, chat, None, "group", "The Den")
    topic = await rooms.room_for(table.play, chat, 5, "supergroup", "The Den")
    assert again == table.room
    assert (topic.id != table.room.id, topic.thread_id) == (True, 5)
    assert await rooms.get(table.play, topic.id) == topic


async def test_first_sight_from_many_sides_makes_one_room(table: GameTable) -> None:
    found = await asyncio.gather(*(rooms.room_for(table.play, -55, None, "group", "x") for _ in range(10)))
    assert len({room.id for room in found}) == 1


async def test_changed_title_is_stored_and_choices_stay(table: GameTable) -> None:
    await rooms.configure(table.play, table.room.id, lang="ru", preset="expert")
    room = await rooms.room_for(table.play, table.room.chat_id, None, "group", "The New Den")
    assert (room.title, room.lang, room.preset) == ("The New Den", "ru", "expert")
    assert room.rev > table.room.rev
    assert await rooms.configure(table.play, table.play.mint.mint("ROM"), lang="ru") is None


async def test_migration_keeps_the_room_and_happens_once(table: GameTable) -> None:
    old, new = table.room.chat_id, -1_000_000_100_200
    game = await table.open()
    topic = await rooms.room_for(table.play, old, 5, "group", "x")
    assert await rooms.find(table.play, old, None) == table.room
    assert await rooms.migrate(table.play, old, new) == 2
    assert await rooms.migrate(table.play, old, new) == 0
    assert await rooms.find(table.play, old, None) is None, "the old chat is nobody's room any more"
    moved = await rooms.room_for(table.play, new, None, "supergroup", "The Den")
    assert (moved.id, moved.chat_id) == (table.room.id, new)
    assert (await rooms.room_for(table.play, new, 5, "supergroup", "x")).id == topic.id
    assert game.room == moved.id


async def test_user_is_one_player_whose_choice_of_language_stays(table: GameTable) -> None:
    ada = table.people["Ada"]
    renamed = await players.player_for(table.play, ada.user_id, "Ada L.", "de")
    assert (renamed.id, renamed.name, renamed.lang) == (ada.id, "Ada L.", "de")
    await players.set_language(table.play, ada.id, "ru")
    assert (await players.player_for(table.play, ada.user_id, "Ada L.", "de")).lang == "ru"
    assert set(await players.get_many(table.play, [ada.id, table.play.mint.mint("PLR")])) == {ada.id}


async def test_room_and_player_are_found_in_the_store_when_valkey_forgot_them(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    await archiver.archive(table.play, game.id)
    ada, options = table.people["Ada"], table.play.options
    for key in (
        keys.chat(options, table.room.chat_id, None),
        keys.room(table.queue, table.room.id),
        keys.user(options, ada.user_id),
        keys.player(options, ada.id),
    ):
        await table.play.bus.execute("DEL", key)
    assert (await rooms.room_for(table.play, table.room.chat_id, None, "group", "x")).id == table.room.id
    assert (await players.player_for(table.play, ada.user_id, "Ada", "en")).id == ada.id


async def test_every_mapping_expires_and_use_renews_it(table: GameTable) -> None:
    options, bus = table.play.options, table.play.bus
    place = keys.chat(options, table.room.chat_id, None)
    await bus.execute("PEXPIRE", place, 10_000)
    await rooms.room_for(table.play, table.room.chat_id, None, "group", "The Den")
    assert await bus.execute("PTTL", place) > 10_000
    for key in (keys.chat_rooms(options, table.room.chat_id), keys.room(table.queue, table.room.id)):
        assert await bus.execute("PTTL", key) > 0
