"""What is finished and not archived does not expire; it is counted, told, and bounded before anything is lost."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from codemojex.game.presets import settings_for
from codemojex.ops.game_metrics import GameMetrics
from codemojex.ops.health import checks_for, examine
from codemojex.play import games, guesses, keys
from codemojex.play.archive import archiver, backlog
from codemojex.play.archive.archiver import Archiver
from codemojex.play.archive.backlog import Backlog, BacklogWatch
from codemojex.play.closing import end
from codemojex.play.games import Full, GameSnapshot, Opened
from codemojex.store import engine
from codemojex.store.history import read_game
from tests.play.table import GameTable
from tests.support.waiting import until


class Time:
    """Monotonic seconds that move only when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def played(table: GameTable, number: int = 1) -> GameSnapshot:
    game = await table.open(request=f"open-{number}")
    await table.guess(game, "Boris", await table.wrong(game))
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    return game


async def alive(table: GameTable, game: GameSnapshot) -> list[int]:
    """The life times of the game's keys that exist: -1 is without end."""
    found = await table.play.bus.all([("PTTL", k) for k in keys.expiring(table.play.options, game.id, game.room)])
    return [ttl for ttl in found if ttl != -2]


async def seen(table: GameTable) -> Backlog:
    return (await backlog.read(table.play.bus, table.play.options))[table.queue]


async def test_finished_game_outlives_its_life_time_while_nobody_archives(table: GameTable) -> None:
    short = table.with_options(live_keep_ms=1)
    game = await short.open(settings_for("quick", "solo", duration_s=1))
    await short.guess(game, "Ada", await short.secret(game))
    await short.work()
    records = await short.records(game)
    await asyncio.sleep(1.2)  # beyond the deadline and the time to live
    assert await short.records(game) == records
    assert (await short.fresh(game)).state == "settled"
    assert set(await alive(short, game)) == {-1}
    assert await archiver.sweep(short.play) == 1
    row = await read_game(short.play.store, game.id)
    assert row is not None
    assert row.winner == short.people["Ada"].id


async def test_closed_game_does_not_expire_before_it_is_settled(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await end(table.play, game, table.people["Ada"], by_admin=False, request="e1")
    await table.settle(await table.claim())
    assert (await table.fresh(game)).state == "closed"
    assert set(await alive(table, game)) == {-1}
    assert (await seen(table)).games == 1


async def test_life_time_begins_when_the_store_holds_the_game(table: GameTable) -> None:
    game = await played(table)
    assert (await seen(table)).games == 1
    await archiver.archive(table.play, game.id)
    assert all(0 < ttl <= table.play.options.archived_keep_ms for ttl in await alive(table, game))
    assert (await seen(table)).games == 0


async def test_game_waits_while_the_database_is_away_and_is_archived_after(table: GameTable) -> None:
    short = table.with_options(live_keep_ms=1)
    url = short.play.store.engine.url
    away = engine.Store(engine.connect(url.set(database="/nowhere/at/all.db")))
    work = Archiver(replace(short.play, store=away), sweep_s=0.05)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(work.run())
        game = await short.open(settings_for("quick", "solo", duration_s=1))
        await short.guess(game, "Ada", await short.secret(game))
        await short.work()
        work.wake()
        await asyncio.sleep(1.2)
        work.stop()
    assert (await seen(short)).games == 1
    assert set(await alive(short, game)) == {-1}
    assert await archiver.sweep(short.play) == 1
    await engine.close(away)


async def test_game_that_the_store_refuses_stays_and_is_tried_again_at_the_next_start(table: GameTable) -> None:
    game = await played(table)
    ada = keys.player(table.play.options, table.people["Ada"].id)
    await table.play.bus.execute("HSET", ada, "user_id", table.people["Boris"].user_id)
    assert await archiver.archive(table.play, game.id) == "refused"
    assert set(await alive(table, game)) == {-1}
    assert await table.play.bus.execute("PTTL", keys.refused(table.queue)) == -1
    assert ((await seen(table)).games, (await seen(table)).aside) == (1, 1)
    await table.play.bus.execute("HSET", ada, "user_id", table.people["Ada"].user_id)
    work = Archiver(table.play)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(work.run())

        async def archived() -> bool:
            return (await seen(table)).games == 0

        await until(archived, "the game is archived")
        work.stop()
    assert await read_game(table.play.store, game.id) is not None
    assert (await seen(table)).aside == 0


async def test_new_games_are_refused_at_the_bound_and_live_ones_go_on(table: GameTable) -> None:
    small = table.with_options(max_unarchived=2)
    await played(small, 1)
    first = await small.open(request="open-2")
    again = await games.open_game(small.play, small.room, small.people["Ada"], first.settings, "open-2")
    await small.guess(first, "Ada", await small.secret(first))
    await small.work()
    assert isinstance(again, Opened)
    assert (await seen(small)).full
    answer = await games.open_game(small.play, small.room, small.people["Ada"], first.settings, "open-3")
    assert answer == Full(2)
    assert await games.live_game(small.play, small.room.id) is None
    assert await archiver.sweep(small.play) == 2
    assert isinstance(
        await games.open_game(small.play, small.room, small.people["Ada"], first.settings, "open-3"), Opened
    ), "a refused request is not remembered"


async def test_live_game_is_played_to_its_end_beyond_the_bound(table: GameTable) -> None:
    live = await table.open()
    full = table.with_options(max_unarchived=1)
    await table.play.bus.execute("ZADD", keys.unarchived(table.queue), 1, table.play.mint.mint("GAM"))
    assert isinstance(
        await games.open_game(full.play, full.room, full.people["Ada"], live.settings, "x"), games.AlreadyLive
    )
    assert isinstance(await full.guess(live, "Ada", await full.secret(live)), guesses.Accepted)
    await full.work()
    assert (await full.fresh(live)).state == "settled"


@pytest.mark.parametrize("index", ["complete", "refused"])
async def test_game_of_an_older_release_is_kept_and_counted(table: GameTable, index: str) -> None:
    game = await played(table)
    live = keys.expiring(table.play.options, game.id, game.room)
    place = keys.complete(table.queue) if index == "complete" else keys.refused(table.queue)
    await table.play.bus.execute("ZADD", place, 5, game.id)
    if index == "refused":
        await table.play.bus.execute("ZREM", keys.complete(table.queue), game.id)
    await table.play.bus.all([("PEXPIRE", key, 60_000) for key in [*live, place]])  # as the older release left it
    await table.play.bus.execute("DEL", keys.unarchived(table.queue))
    assert await backlog.keep(table.play) == 1
    assert set(await alive(table, game)) == {-1}
    assert await table.play.bus.execute("PTTL", place) == -1
    assert (await seen(table)).games == 1
    assert await backlog.keep(table.play) == 0


async def test_game_that_is_gone_is_told_and_counted_no_more(
    table: GameTable, caplog: pytest.LogCaptureFixture
) -> None:
    game = await played(table)
    await table.play.bus.execute("ZREM", keys.complete(table.queue), game.id)
    for key in keys.expiring(table.play.options, game.id, game.room):
        await table.play.bus.execute("DEL", key)
    await backlog.keep(table.play)
    assert (await seen(table)).games == 0
    assert "were never archived" in caplog.text


async def test_old_backlog_is_told_once_then_once_a_minute_and_when_it_ends(
    table: GameTable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "codemojex.play.archive.backlog")
    clock = Time()
    watch = BacklogWatch(table.play, monotonic=clock)
    game = await played(table)
    await watch.look()
    assert not caplog.records, "a fresh one is no news"
    await table.play.bus.execute("ZINCRBY", keys.unarchived(table.queue), -61_000, game.id)
    for _ in range(3):
        await watch.look()
        clock.now += 19
    assert len(caplog.records) == 1
    assert "1 finished game waits for the archive, the oldest for 61 s" in caplog.text
    clock.now += 10
    await watch.look()
    assert len(caplog.records) == 2
    await archiver.sweep(table.play)
    await watch.look()
    await watch.look()
    assert len(caplog.records) == 3
    assert "caught up: 1 finished games waited" in caplog.text


async def test_backlog_is_in_the_metrics(table: GameTable) -> None:
    game = await played(table)
    await table.play.bus.execute("ZINCRBY", keys.unarchived(table.queue), -90_000, game.id)
    registry = CollectorRegistry()
    metrics = GameMetrics(registry)
    await metrics.refresh(table.play.bus, table.play.options)

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"codemojex_{name}", {"queue": table.queue})

    assert (value("unarchived_games"), value("unarchived_games_aside")) == (1, 0)
    assert value("unarchived_games_limit") == 10_000
    assert 90 <= (value("oldest_unarchived_game_age_seconds") or 0) < 900


async def test_backlog_is_in_the_health(table: GameTable, valkey_url: str, tmp_path: Path) -> None:
    await played(table)

    async def found(limit: int) -> tuple[bool, str]:
        options = replace(table.play.options, max_unarchived=limit)
        findings = await examine(checks_for(valkey_url=valkey_url, directory=tmp_path, options=options))
        return findings[-1].well, findings[-1].detail

    well, detail = await found(10)
    assert well
    assert detail.startswith("1 finished game waits for the archive, the oldest for ")
    well, detail = await found(1)
    assert not well
    assert detail.endswith("1 may; no new game begins")


async def test_bound_is_shared_by_the_partitions(table: GameTable) -> None:
    spread = table.with_options(partitions=4, max_unarchived=10)
    limits = [one.limit for one in (await backlog.read(spread.play.bus, spread.play.options)).values()]
    assert limits == [2, 2, 2, 2]
    assert table.with_options(partitions=4, max_unarchived=1).play.options.share(1) == 1
