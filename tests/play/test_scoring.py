"""Scores are recorded once; the earliest submitted crack wins; what came after it is void."""

from __future__ import annotations

import pytest

from codemojex.engine.jobs import settlement
from codemojex.engine.jobs.jobs import NewJob, admit
from codemojex.engine.jobs.settlement import Settled, Settlement, Stale
from codemojex.game.events import GameClosed, GameCracked, GuessRefused
from codemojex.game.presets import settings_for
from codemojex.play import keys, scoring
from tests.play.table import GameTable


async def test_earlier_crack_wins_although_it_is_scored_last(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.secret(game))
    await table.guess(game, "Chen", await table.secret(game))
    ada, boris, chen = await table.claim()
    await table.settle([chen])
    assert (await table.fresh(game)).state == "closing"
    assert (await table.fresh(game)).cut == 3
    await table.settle([boris])
    snapshot = await table.fresh(game)
    assert (snapshot.state, snapshot.cut, snapshot.winner) == ("closing", 2, table.people["Boris"].id)
    await table.settle([ada])
    await table.work()
    state = await table.state(game)
    assert state.closed is not None
    assert (state.closed.cut, state.winner) == (2, table.people["Boris"].id)
    assert [event.seq for event in await table.events(game) if isinstance(event, GameCracked)] == [3, 2]
    assert [row.seq for row in state.counted] == [1, 2]


async def test_guess_after_the_cut_is_void_and_told(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.secret(game))
    late = await table.guess(game, "Chen", await table.wrong(game))
    ada, boris, chen = await table.claim()
    await table.settle([boris])
    [verdict] = await table.settle([chen])
    assert isinstance(verdict, Settled)
    assert verdict.reply == b"void"
    await table.settle([ada])
    await table.work()
    [refused] = [event for event in await table.events(game) if isinstance(event, GuessRefused)]
    assert (refused.guess, refused.reason) == (late.guess_id, "late")
    state = await table.state(game)
    assert state.tries_used(table.people["Chen"].id) == 0
    assert {line.player for line in state.final_standings()} == {table.people["Ada"].id, table.people["Boris"].id}


async def test_guess_scored_after_the_close_goes_to_the_feed_alone(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Boris", await table.secret(game))
    await table.guess(game, "Chen", await table.wrong(game))
    boris, chen = await table.claim()
    await table.settle([boris])
    await table.work()
    kinds = await table.kinds(game)
    assert kinds[-1] == "game.settled"
    await table.settle([chen])
    assert await table.kinds(game) == kinds
    [last] = await table.play.bus.execute("XREVRANGE", f"emq:{{{table.queue}}}:stream:feed", "+", "-", "COUNT", 1)
    assert b"guess.refused" in last[1]


async def test_redelivered_guess_changes_nothing(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.wrong(game))
    [ada, boris] = await table.claim()
    await table.settle([ada])
    before = await table.records(game)
    # The same guess under another job, as after a lost row.
    copy = table.play.mint.mint("JOB")
    await admit(table.play.bus, table.queue, NewJob(copy, ada.payload, lane=table.room.id))
    [job] = await table.claim()
    [verdict] = await table.settle([job])
    assert isinstance(verdict, Settled)
    assert verdict.reply == b"again"
    assert await table.records(game) == before
    assert boris.payload


async def test_second_settlement_changes_nothing(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    await table.guess(game, "Ada", await table.secret(game))
    await table.settle(await table.claim())
    [settle] = await table.claim()
    await table.settle([settle])
    before = await table.records(game)
    await admit(table.play.bus, table.queue, NewJob(table.play.mint.mint("JOB"), settle.payload, lane=table.room.id))
    assert await table.work() == [b"again"]
    assert await table.records(game) == before


async def test_stale_token_changes_nothing(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.secret(game))
    [job] = await table.claim()
    outcome = (await scoring.work(table.play, [job]))[0]
    assert outcome is not None
    item = Settlement(job.id, "999", outcome)
    [verdict] = await settlement.settle_many(table.play.bus, table.queue, [item], effects=scoring.effects())
    assert verdict == Stale()
    assert await table.kinds(game) == ["game.opened", "guess.accepted"]
    assert (await table.fresh(game)).state == "open"


async def test_lost_lease_is_scored_once_by_whoever_claims_next(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    [late] = await table.claim()
    await table.play.bus.execute("ZADD", f"emq:{{{table.queue}}}:active", 1, late.id)
    from codemojex.engine.maintenance import recovery

    await recovery.recover(table.play.bus, table.queue)
    await table.work()
    [verdict] = await table.settle([late])
    assert not isinstance(verdict, Settled)
    assert (await table.kinds(game)).count("guess.scored") == 1


async def test_guess_of_an_expired_game_just_ends(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    for key in keys.of_game(table.play.options, game.id, game.room)[2:10]:
        await table.play.bus.execute("DEL", key)
    assert await table.work() == [b"gone"]


async def test_guess_without_a_secret_is_void_and_does_not_block_the_close(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo", tries=1))
    await table.guess(game, "Ada", await table.wrong(game))
    await table.play.bus.execute("DEL", keys.secret(table.queue, game.id))
    await table.work()
    assert (await table.state(game)).phase == "settled"


async def test_foreign_payload_is_discarded_and_spoils_no_other(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    bad = NewJob(table.play.mint.mint("JOB"), b'{"kind":"unheard of"}', lane=table.room.id)
    await admit(table.play.bus, table.queue, bad)
    await table.work()
    assert (await table.kinds(game))[-1] == "guess.scored"
    assert await table.play.bus.execute("ZCARD", f"emq:{{{table.queue}}}:dead") == 1


@pytest.mark.parametrize("ceiling", [1, 2])
async def test_game_under_a_lane_ceiling_reaches_its_settlement(table: GameTable, ceiling: int) -> None:
    from codemojex.engine.lanes import lanes

    await lanes.limit(table.play.bus, table.queue, table.room.id, ceiling)
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.secret(game))
    await table.work()
    assert (await table.state(game)).phase == "settled"
    assert isinstance((await table.events(game))[-2], GameClosed)


async def test_board_holds_the_best_total_and_the_earlier_guess_first(table: GameTable) -> None:
    game = await table.open()
    secret = await table.secret(game)
    swapped = (secret[1], secret[0], *secret[2:])
    await table.guess(game, "Ada", await table.wrong(game, 2))
    await table.guess(game, "Boris", swapped)
    await table.guess(game, "Ada", swapped)
    await table.guess(game, "Ada", await table.wrong(game, 1))
    await table.work()
    board = await table.play.bus.execute("ZRANGE", keys.board(table.queue, game.id), 0, -1, "REV", "WITHSCORES")
    # Two neighbours changed places in a code of four: 100 + 100 + 67 + 67.
    assert [(member.decode(), score) for member, score in board] == [
        (table.people["Boris"].id, 334_000_000_000 - 2),
        (table.people["Ada"].id, 334_000_000_000 - 3),
    ]
