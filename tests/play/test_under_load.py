"""Many players, several workers, workers that die: the rules hold all the same."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

import pytest

from codemojex.engine.worker.worker import Worker, WorkerOptions
from codemojex.game.fold import fold
from codemojex.game.presets import settings_for
from codemojex.play import scoring
from codemojex.play.games import GameSnapshot
from codemojex.play.guesses import Accepted, NotAccepted, submit
from codemojex.play.people import players
from codemojex.play.people.players import Player
from codemojex.play.views.folds import Folds
from tests.play.table import GameTable

PEOPLE = 40


def worker(table: GameTable) -> Worker:
    """A worker as another process has it."""
    play = replace(table.play, folds=Folds())
    options = WorkerOptions(concurrency=8, lease_ms=1_000, grace_ms=1_000, beat_ms=300)
    return Worker(
        table.play.bus, table.queue, batch_handler=scoring.handler(play), options=options, effects=scoring.effects()
    )


async def until_settled(table: GameTable, game: GameSnapshot) -> None:
    end = time.monotonic() + 30
    while (await table.fresh(game)).state != "settled":
        assert time.monotonic() < end, await table.fresh(game)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", [1, 2])
async def test_crowd_and_dying_workers_give_the_game_that_the_order_of_submission_says(
    table: GameTable, seed: int
) -> None:
    chance = random.Random(seed)
    game = await table.open(settings_for("quick", "race", tries=4, duration_s=100))
    secret = await table.secret(game)
    crowd = [await players.player_for(table.play, 5_000 + i, f"P{i}", "en") for i in range(PEOPLE)]
    accepted: dict[int, tuple[Player, tuple[str, ...]]] = {}
    charged: dict[str, int] = {}

    async def person(player: Player) -> None:
        sent: set[tuple[str, ...]] = set()
        for turn in range(4):
            await asyncio.sleep(chance.random() * 0.05)
            code = secret if chance.random() < 0.03 else tuple(chance.sample(game.settings.palette, 4))
            if code in sent:
                assert isinstance(
                    await submit(table.play, game, player, code, f"{player.id}-{turn}-repeat"), NotAccepted
                )
                continue
            sent.add(code)
            request = f"{player.id}-{turn}"
            answers = [await submit(table.play, game, player, code, request) for _ in range(chance.choice((1, 1, 2)))]
            for answer in answers:
                if isinstance(answer, NotAccepted):
                    assert answer.reason == "closed"
                    return
            [first, *more] = [answer for answer in answers if isinstance(answer, Accepted)]
            assert all(other == replace(first, again=True) for other in more)
            assert first.seq not in accepted
            accepted[first.seq] = (player, code)
            charged[player.id] = charged.get(player.id, 0) + 1
            assert first.try_no == charged[player.id]

    async def fragile() -> None:
        """Workers that are cut off in the middle of their work, one after the other, then one that lasts."""
        for _ in range(4):
            task = asyncio.create_task(worker(table).run())
            await asyncio.sleep(0.03 + chance.random() * 0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    steady = worker(table)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fragile())
        tasks.create_task(steady.run())
        async with asyncio.TaskGroup() as crowding:
            for player in crowd:
                crowding.create_task(person(player))
        await until_settled(table, game)
        steady.stop()

    state = await table.state(game)
    assert sorted(accepted) == list(range(1, len(accepted) + 1))
    perfect = [seq for seq, (_, code) in sorted(accepted.items()) if code == secret]
    if perfect:
        assert state.cut == perfect[0]
        assert state.winner == accepted[perfect[0]][0].id
    else:
        assert state.closed is not None
        assert state.closed.reason == "out_of_tries"
    counted = [seq for seq in sorted(accepted) if not perfect or seq <= perfect[0]]
    assert [row.seq for row in state.counted] == counted
    assert all(row.player == accepted[row.seq][0].id for row in state.rows)
    kinds = await table.kinds(game)
    assert kinds.count("guess.scored") == len({row.seq for row in state.rows if row.score is not None})
    assert (kinds.count("game.closed"), kinds.count("game.settled")) == (1, 1)
    assert repr(fold(await table.events(game))) == repr(await forgetful(table).state(game))


def forgetful(table: GameTable) -> GameTable:
    return replace(table, play=replace(table.play, folds=Folds()))
