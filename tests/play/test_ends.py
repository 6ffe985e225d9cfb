"""A game ends at its deadline, by its starter or an admin, or by a vote; after that nothing scores."""

from __future__ import annotations

import asyncio
import time

import pytest

from codemojex.game.presets import settings_for
from codemojex.play import closing, keys
from codemojex.play.closing import Ended, NotEnded, Vote
from codemojex.play.games import GameSnapshot
from codemojex.play.guesses import NotAccepted
from tests.play.table import GameTable


async def let_the_deadline_come(table: GameTable, game: GameSnapshot) -> None:
    """As if the time were over: the game's deadline and its scheduled job are due now."""
    bus = table.play.bus
    await bus.execute("HSET", keys.game(table.queue, game.id), "deadline_ms", 1)
    schedule = f"emq:{{{table.queue}}}:schedule"
    for job in await bus.execute("ZRANGE", schedule, 0, -1):
        await bus.execute("ZADD", schedule, 1, job)


async def test_game_closes_at_its_deadline(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", duration_s=1))
    await table.guess(game, "Ada", await table.wrong(game))
    end = time.monotonic() + 5
    while (await table.fresh(game)).state != "settled":
        assert time.monotonic() < end
        await table.work()
        await asyncio.sleep(0.05)
    state = await table.state(game)
    assert state.closed is not None
    assert (state.closed.reason, state.closed.cut) == ("deadline", None)
    assert [row.seq for row in state.counted] == [1]


async def test_guess_after_the_deadline_is_late_although_nobody_closed_the_game_yet(table: GameTable) -> None:
    game = await table.open()
    await let_the_deadline_come(table, game)
    assert await table.submit(game, "Ada", await table.wrong(game)) == NotAccepted("late")


async def test_crack_accepted_before_the_deadline_wins_although_it_is_scored_later(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.secret(game))
    guesses = await table.claim()
    await let_the_deadline_come(table, game)
    await table.settle(await table.claim())
    assert (await table.fresh(game)).state == "closing"
    assert await table.submit(game, "Chen", await table.wrong(game)) == NotAccepted("closed")
    await table.settle(guesses)
    await table.work()
    state = await table.state(game)
    assert state.closed is not None
    assert (state.closed.reason, state.winner) == ("cracked", table.people["Boris"].id)


async def test_early_deadline_job_changes_nothing(table: GameTable) -> None:
    game = await table.open()
    schedule = f"emq:{{{table.queue}}}:schedule"
    [job] = await table.play.bus.execute("ZRANGE", schedule, 0, -1)
    await table.play.bus.execute("ZADD", schedule, 1, job)
    assert await table.work() == [b"early"]
    assert (await table.fresh(game)).state == "open"


async def test_game_that_waits_for_a_dead_guess_is_closed_by_the_next_look(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    [job] = await table.claim()
    await closing.end(table.play, game, table.people["Ada"], by_admin=False, request="e1")
    assert (await table.fresh(game)).state == "closing"
    await let_the_deadline_come(table, game)
    assert set(await table.work()) == {b"waiting"}
    row = f"emq:{{{table.queue}}}:job:{job.id}"
    await table.play.bus.execute("HSET", row, "state", "dead")
    await let_the_deadline_come(table, game)
    await table.work()
    state = await table.state(game)
    assert state.phase == "settled"
    assert state.rows[0].refused == "unscored"


async def test_starter_ends_the_game_and_others_do_not(table: GameTable) -> None:
    game = await table.open(by="Ada")
    boris, ada = table.people["Boris"], table.people["Ada"]
    assert await closing.end(table.play, game, boris, by_admin=False, request="e0") == NotEnded("rights")
    assert await closing.end(table.play, game, ada, by_admin=False, request="e1") == Ended()
    assert await closing.end(table.play, game, ada, by_admin=False, request="e1") == Ended(again=True)
    assert await closing.end(table.play, game, ada, by_admin=False, request="e2") == NotEnded("closed")
    assert await table.submit(game, "Chen", await table.wrong(game)) == NotAccepted("closed")
    await table.work()
    assert (await table.state(game)).phase == "settled"
    assert (await table.kinds(game)).count("game.closed") == 1


async def test_admin_ends_the_game(table: GameTable) -> None:
    game = await table.open(by="Ada")
    assert await closing.end(table.play, game, table.people["Boris"], by_admin=True, request="e1") == Ended()


async def test_guesses_before_the_end_are_still_scored(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Boris", await table.wrong(game))
    await closing.end(table.play, game, table.people["Ada"], by_admin=False, request="e1")
    await table.work()
    state = await table.state(game)
    assert [row.seq for row in state.counted] == [1]
    assert state.closed is not None
    assert state.closed.reason == "ended"


@pytest.mark.parametrize("mode", ["race", "team"])
async def test_three_votes_end_the_game_and_two_do_not(table: GameTable, mode: str) -> None:
    game = await table.open(settings_for("quick", "team" if mode == "team" else "race"))
    vote = [await closing.vote_end(table.play, game, table.people[name]) for name in ("Ada", "Ada", "Boris")]
    assert vote == [Vote(1, 3, False), Vote(1, 3, False, again=True), Vote(2, 3, False)]
    assert await closing.vote_end(table.play, game, table.people["Chen"]) == Vote(3, 3, True)
    assert await closing.vote_end(table.play, game, table.people["Chen"]) == Vote(3, 3, True)
    await table.work()
    state = await table.state(game)
    assert state.closed is not None
    assert state.closed.reason == "voted"


async def test_votes_that_are_too_old_do_not_count(table: GameTable) -> None:
    game = await table.open()
    await closing.vote_end(table.play, game, table.people["Ada"])
    await closing.vote_end(table.play, game, table.people["Boris"])
    votes = keys.of_game(table.play.options, game.id, game.room)[8]
    await table.play.bus.execute("ZINCRBY", votes, -table.play.options.vote_window_ms - 1_000, table.people["Ada"].id)
    assert await closing.vote_end(table.play, game, table.people["Chen"]) == Vote(2, 3, False)


async def test_end_after_the_close_says_so(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    assert await closing.vote_end(table.play, game, table.people["Ada"]) == NotEnded("closed")
    assert await closing.end(table.play, game, table.people["Ada"], by_admin=False, request="e1") == NotEnded("closed")
