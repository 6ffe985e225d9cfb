"""A room has one live game, and a request opens at most one."""

from __future__ import annotations

import asyncio

from codemojex.game.presets import settings_for
from codemojex.play import games, keys
from codemojex.play.games import AlreadyLive, Opened
from tests.play.table import GameTable


async def test_second_game_in_a_room_is_refused_while_one_is_live(table: GameTable) -> None:
    game = await table.open()
    answer = await games.open_game(table.play, table.room, table.people["Boris"], game.settings, "open-2")
    assert answer == AlreadyLive(game.id)


async def test_same_request_opens_one_game(table: GameTable) -> None:
    game = await table.open(request="again")
    answer = await games.open_game(table.play, table.room, table.people["Ada"], game.settings, "again")
    assert isinstance(answer, Opened)
    assert answer.again
    assert answer.game.id == game.id
    assert await table.kinds(game) == ["game.opened"]


async def test_same_request_after_the_end_still_names_the_old_game(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"), request="again")
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    answer = await games.open_game(table.play, table.room, table.people["Ada"], game.settings, "again")
    assert isinstance(answer, Opened)
    assert answer.again
    assert answer.game.id == game.id


async def test_many_openings_at_once_give_one_game(table: GameTable) -> None:
    settings = settings_for("quick", "race")
    answers = await asyncio.gather(
        *(games.open_game(table.play, table.room, table.people["Ada"], settings, f"open-{i}") for i in range(20))
    )
    opened = [answer for answer in answers if isinstance(answer, Opened)]
    assert len(opened) == 1
    assert {answer.game_id for answer in answers if isinstance(answer, AlreadyLive)} == {opened[0].game.id}


async def test_room_is_free_as_soon_as_its_game_is_closed(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    assert (await games.live_game(table.play, table.room.id)) == game
    await table.guess(game, "Ada", await table.secret(game))
    await table.settle(await table.claim())
    assert await games.live_game(table.play, table.room.id) is None
    assert await games.last_game_id(table.play, table.room.id) == game.id
    await table.open(request="open-2")


async def test_every_key_of_a_game_expires(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.wrong(game))
    await table.settle((await table.claim())[:1])
    bus = table.play.bus
    deadline_and_a_week = game.deadline_ms + table.play.options.live_keep_ms
    for key in keys.expiring(table.play.options, game.id, game.room):
        if await bus.execute("EXISTS", key):
            assert await bus.execute("PEXPIRETIME", key) == deadline_and_a_week, key
    for key in (keys.room(table.queue, game.room), keys.opened(table.queue, game.room, "open-1")):
        assert await bus.execute("PTTL", key) > 0


async def test_a_game_lies_on_the_partition_of_its_room(table: GameTable) -> None:
    spread = table.with_options(partitions=7)
    for _ in range(20):
        room_id = table.play.mint.mint("ROM")
        game_id = keys.mint_game(spread.play, room_id)
        assert keys.queue(spread.play.options, game_id) == keys.queue(spread.play.options, room_id)


async def test_refused_guess_corrects_an_old_snapshot(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    assert (await games.snapshot(table.play, game.id)) == game
    await table.guess(game, "Ada", await table.secret(game))
    await table.settle(await table.claim())
    await table.submit(game, "Ada", await table.wrong(game))
    found = await games.snapshot(table.play, game.id)
    assert found is not None
    assert found.state == "closed"
