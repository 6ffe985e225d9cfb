"""Rooms spread over partitions; a game lives wholly on its room's partition."""

from __future__ import annotations

from dataclasses import replace

from codemojex.engine.cache.near_cache import NearCache
from codemojex.game.presets import settings_for
from codemojex.play import keys, rooms
from codemojex.play.archive import archiver
from codemojex.play.caches import with_caches
from codemojex.play.context import Caches
from codemojex.play.outbound import feed
from codemojex.store.history import read_game
from tests.play.table import GameTable


async def test_game_on_another_partition_is_played_told_and_archived(table: GameTable) -> None:
    options = replace(table.play.options, partitions=3)
    async with NearCache(table.play.bus) as near:
        play = with_caches(replace(table.play, options=options, caches=Caches()), near)
        await near.connected()
        seats = [await rooms.room_for(play, -7_000 - i, None, "group", f"Room {i}") for i in range(40)]
        assert {keys.partition(options, room.id) for room in seats} == {0, 1, 2}, "forty rooms reach every partition"
        for number in (1, 2):
            room = next(room for room in seats if keys.partition(options, room.id) == number)
            spread = replace(table, play=play, room=room)
            game = await spread.open(settings_for("quick", "solo"))
            await spread.guess(game, "Ada", await spread.secret(game))
            await spread.work()
            assert (await spread.state(game)).phase == "settled"
            assert await table.play.bus.execute("XLEN", f"emq:{{{table.queue}.{number}}}:stream:{game.id}") == 6
            assert feed.outbound_reader(play, spread.queue, "c1") is not None
        assert await archiver.sweep(play) == 2
        assert await read_game(play.store, game.id) is not None
