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


async def test_game_ends_when_everybody_is_out_of_tries(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=2))
    for number in (1, 2):
        for by in ("Ada", "Boris"):
            await table.guess(game, by, await table.wrong(game, number))
            await table.work()
    events = await table.events(game)
    [closed] = [event for event in events if isinstance(event, GameClosed)]
    assert (closed.reason, closed.winner, closed.cut) == ("out_of_tries", None, None)
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
