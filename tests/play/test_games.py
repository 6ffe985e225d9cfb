"""Whole games from the opening to the final table."""

from __future__ import annotations

from codemojex.game.events import GameClosed, GameSettled
from codemojex.game.fold import fold
from codemojex.game.presets import settings_for
from codemojex.play import keys
from tests.play.table import GameTable


async def test_race_is_won_by_the_first_crack(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game, 1))
    await table.guess(game, "Boris", await table.secret(game))
    await table.work()
    state = await table.state(game)
    assert state.phase == "settled"
    assert state.winner == table.people["Boris"].id
    assert state.commitment_holds()
    assert (await table.fresh(game)).state == "settled"
    assert await table.kinds(game) == [
        "game.opened",
        "guess.accepted",
        "guess.accepted",
        "guess.scored",
        "guess.scored",
        "game.cracked",
        "game.closed",
        "game.settled",
    ]


async def test_race_whose_players_are_out_of_tries_waits_for_others_to_join(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=2))
    for number in (1, 2):
        for by in ("Ada", "Boris"):
            await table.guess(game, by, await table.wrong(game, number))
            await table.work()
    state = await table.state(game)
    assert state.exhausted is not None
    assert (state.phase, state.exhausted.seq) == ("live", 4)
    assert state.ends_ms is not None
    assert state.ends_ms - game.opened_ms >= 60_000, "a tenth of ten minutes"
    await table.look_again(game)
    assert await table.work() == [b"early"], "the time to join is not over"
    await table.let_the_joining_end(game)
    await table.work()
    [closed] = [event for event in await table.events(game) if isinstance(event, GameClosed)]
    assert (closed.reason, closed.winner, closed.cut) == ("out_of_tries", None, None)
    assert (await table.state(game)).phase == "settled"


async def test_newcomer_keeps_the_race_open_and_begins_the_time_to_join_anew(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=2))
    for number in (1, 2):
        await table.guess(game, "Ada", await table.wrong(game, number))
    await table.work()
    await table.let_the_joining_end(game)
    await table.guess(game, "Chen", await table.wrong(game))
    assert (await table.state(game)).ends_ms is None
    await table.look_again(game)
    await table.work()
    assert (await table.state(game)).phase == "live", "the look that was ordered before closes nothing"
    await table.guess(game, "Chen", await table.wrong(game, 3))
    await table.work()
    state = await table.state(game)
    assert state.exhausted is not None
    assert (state.exhausted.seq, state.phase) == (4, "live")
    await table.let_the_joining_end(game)
    await table.work()
    state = await table.state(game)
    assert state.closed is not None
    assert state.closed.reason == "out_of_tries"
    assert repr(fold(await table.events(game))) == repr(state)


async def test_look_that_comes_while_a_second_time_to_join_runs_is_ordered_again(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=1))
    for by in ("Ada", "Boris"):  # the second ordered nothing: the look of the first is still scheduled
        await table.guess(game, by, await table.wrong(game))
        await table.work()
    await table.look_again(game)
    assert await table.work() == [b"early"]
    await table.let_the_joining_end(game)
    await table.work()
    assert (await table.state(game)).phase == "settled"


async def test_team_shares_its_tries(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "team", tries=2))
    first = await table.guess(game, "Ada", await table.wrong(game, 1))
    second = await table.guess(game, "Boris", await table.wrong(game, 2))
    assert (first.try_no, second.try_no, second.tries_left) == (1, 2, 0)
    one, other = await table.claim()
    await table.settle([one])
    assert await table.play.bus.execute("ZRANGE", keys.board(table.queue, game.id), 0, -1) == [b"team"]
    await table.settle([other])
    await table.work()
    state = await table.state(game)
    assert state.closed is not None
    assert state.closed.reason == "out_of_tries"
    [line] = state.final_standings()
    assert set(line.members) == {table.people["Ada"].id, table.people["Boris"].id}


async def test_solo_crack_settles_the_table(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    [settled] = [event for event in await table.events(game) if isinstance(event, GameSettled)]
    [line] = settled.standings
    assert line.cracked_by == table.people["Ada"].id
    assert line.points == 170


async def test_replay_of_the_stream_equals_the_live_view(table: GameTable) -> None:
    game = await table.open()
    await table.state(game)
    for number in (1, 2, 3):
        await table.guess(game, "Ada", await table.wrong(game, number))
        await table.state(game)
        await table.work()
    await table.guess(game, "Chen", await table.secret(game))
    await table.work()
    live = await table.state(game)
    assert repr(fold(await table.events(game))) == repr(live)
