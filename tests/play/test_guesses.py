"""A guess is taken once, in order, and costs exactly one try."""

from __future__ import annotations

import asyncio

import pytest

from codemojex.game.presets import settings_for
from codemojex.play import keys
from codemojex.play.guesses import Accepted, NotAccepted
from tests.play.table import GameTable


async def test_repeated_request_gets_the_first_answer_and_costs_nothing(table: GameTable) -> None:
    game = await table.open()
    first = await table.guess(game, "Ada", await table.wrong(game, 1), "u1")
    again = await table.guess(game, "Ada", await table.wrong(game, 2), "u1")
    assert again == Accepted(first.guess_id, first.seq, first.try_no, first.tries_left, again=True)
    assert len(await table.claim()) == 1
    second = await table.guess(game, "Ada", await table.wrong(game, 2), "u2")
    assert (second.seq, second.try_no, second.tries_left) == (2, 2, 6)


async def test_repeated_request_gets_its_answer_after_the_close_too(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    first = await table.guess(game, "Ada", await table.secret(game), "u1")
    await table.work()
    again = await table.submit(game, "Ada", await table.secret(game), "u1")
    assert isinstance(again, Accepted)
    assert again.guess_id == first.guess_id


async def test_no_try_is_lost_or_charged_twice_under_concurrency(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=5))
    codes = [await table.wrong(game, 1 + i) for i in range(10)]
    answers = await asyncio.gather(*(table.submit(game, "Ada", codes[i % 10], f"u{i % 10}") for i in range(40)))
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    fresh = [answer for answer in accepted if not answer.again]
    assert sorted(answer.try_no for answer in fresh) == [1, 2, 3, 4, 5]
    assert sorted(answer.seq for answer in fresh) == [1, 2, 3, 4, 5]
    assert {answer.reason for answer in answers if isinstance(answer, NotAccepted)} == {"no_tries"}
    await table.work()
    state = await table.state(game)
    assert state.tries_used(table.people["Ada"].id) == 5
    assert len(state.counted) == 5


async def test_guess_beyond_the_tries_is_refused(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=1))
    await table.guess(game, "Boris", await table.wrong(game))
    await table.guess(game, "Ada", await table.wrong(game))
    assert await table.submit(game, "Ada", await table.wrong(game)) == NotAccepted("no_tries")


async def test_a_solo_game_takes_guesses_of_its_starter_only(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"), by="Ada")
    assert await table.submit(game, "Boris", await table.secret(game)) == NotAccepted("not_yours")
    await table.guess(game, "Ada", await table.wrong(game))


async def test_guess_within_the_cool_down_is_refused_with_the_rest_of_it(table: GameTable) -> None:
    slow = table.with_options(cooldown_ms=60_000)
    game = await slow.open()
    await slow.guess(game, "Ada", await slow.wrong(game))
    answer = await slow.submit(game, "Ada", await slow.wrong(game, 2))
    assert isinstance(answer, NotAccepted)
    assert answer.reason == "cooldown"
    assert 0 < answer.wait_ms <= 60_000
    await slow.guess(game, "Boris", await slow.wrong(game))


async def test_guesses_that_wait_are_bounded(table: GameTable) -> None:
    small = table.with_options(max_waiting=2)
    game = await small.open()
    await small.guess(game, "Ada", await small.wrong(game))
    await small.guess(game, "Boris", await small.wrong(game))
    assert await small.submit(game, "Chen", await small.wrong(game)) == NotAccepted("busy")
    await small.work()
    await small.guess(game, "Chen", await small.wrong(game))


async def test_guess_for_an_expired_game_is_gone(table: GameTable) -> None:
    game = await table.open()
    code = await table.wrong(game)
    await table.play.bus.execute("DEL", keys.game(table.queue, game.id))
    assert await table.submit(game, "Ada", code) == NotAccepted("gone")


async def test_guess_outside_the_rules_is_an_error(table: GameTable) -> None:
    game = await table.open()
    code = await table.wrong(game)
    for bad in (code[:3], (*code[:3], code[0]), (*code[:3], "🦖")):
        with pytest.raises(ValueError, match="distinct emojis of its palette"):
            await table.submit(game, "Ada", bad)


async def test_lane_by_player_gives_each_player_a_lane(table: GameTable) -> None:
    by_player = table.with_options(lane_by="player")
    game = await by_player.open()
    await by_player.guess(game, "Ada", await by_player.wrong(game))
    [job] = await by_player.claim()
    assert job.lane == table.people["Ada"].id


async def test_second_identical_guess_is_refused_before_the_first_is_scored(table: GameTable) -> None:
    game = await table.open()
    code = await table.wrong(game)
    first = await table.guess(game, "Ada", code)
    assert await table.submit(game, "Ada", code) == NotAccepted("tried_waiting")
    await table.work()
    assert await table.submit(game, "Ada", code) == NotAccepted("tried")
    second = await table.guess(game, "Ada", await table.wrong(game, 2))
    assert (second.seq, second.tries_left) == (2, first.tries_left - 1), "a refused repeat costs nothing"
    assert len(await table.kinds(game)) == 4, "and tells nobody anything"


async def test_race_forgives_ones_own_repeat_only(table: GameTable) -> None:
    game = await table.open()
    code = await table.wrong(game)
    await table.guess(game, "Ada", code)
    await table.guess(game, "Boris", code)


async def test_team_forgives_the_repeats_of_all(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "team"))
    code = await table.wrong(game)
    first = await table.guess(game, "Ada", code)
    assert await table.submit(game, "Boris", code) == NotAccepted("team_tried_waiting")
    assert await table.submit(game, "Ada", code) == NotAccepted("tried_waiting")
    await table.work()
    assert await table.submit(game, "Boris", code) == NotAccepted("team_tried")
    other = await table.guess(game, "Boris", await table.wrong(game, 2))
    assert other.tries_left == first.tries_left - 1


async def test_of_identical_guesses_at_once_one_is_taken(table: GameTable) -> None:
    game = await table.open()
    code = await table.wrong(game)
    answers = await asyncio.gather(*(table.submit(game, "Ada", code, f"u{i}") for i in range(20)))
    assert sum(isinstance(answer, Accepted) for answer in answers) == 1
    assert {answer.reason for answer in answers if isinstance(answer, NotAccepted)} == {"tried_waiting"}


async def test_same_request_is_answered_again_and_not_refused_as_a_repeat(table: GameTable) -> None:
    game = await table.open()
    code = await table.wrong(game)
    await table.guess(game, "Ada", code, "u1")
    assert (await table.guess(game, "Ada", code, "u1")).again


async def test_repeat_is_told_of_the_tries_that_are_gone(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "race", tries=1))
    await table.guess(game, "Boris", await table.wrong(game))
    await table.guess(game, "Ada", await table.wrong(game))
    assert await table.submit(game, "Ada", await table.wrong(game)) == NotAccepted("no_tries"), (
        "nothing is left to save"
    )


async def test_repeat_within_the_cool_down_is_told_as_a_repeat(table: GameTable) -> None:
    slow = table.with_options(cooldown_ms=60_000)
    game = await slow.open()
    await slow.guess(game, "Ada", await slow.wrong(game))
    assert await slow.submit(game, "Ada", await slow.wrong(game)) == NotAccepted("tried_waiting")
