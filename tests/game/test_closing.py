"""When a game ends by its guesses, and which guesses count."""

import pytest

from codemojex.game.closing import cut_off, joining_ms, vote_passes
from codemojex.game.events import Event
from codemojex.game.fold import GameState, fold
from codemojex.game.presets import Mode, settings_for
from tests.game.games import ADA, BORIS, CHEN, Game


def state_of(game: Game, *events: Event) -> GameState:
    return fold([game.opened(), *events])


def test_the_cut_is_the_smallest_perfect_seq_or_the_close_itself() -> None:
    assert cut_off([]) is None
    assert cut_off([9, 4, 7]) == 4
    assert cut_off([9], 6) == 6
    assert cut_off([4], 6) == 4
    assert cut_off([], 6) == 6


def test_a_crack_closes_only_when_every_earlier_guess_is_scored() -> None:
    game = Game()
    first, second = game.accepted(ADA), game.accepted(BORIS)
    cracked = state_of(game, first, second, game.scored(second, "0123"))
    assert (cracked.due, cracked.phase) == (None, "sealing")
    assert [row.seq for row in cracked.pending] == [1]
    assert cracked.apply(game.scored(first, "4567")).due == "cracked"
    assert cracked.apply(game.refused(first)).due == "cracked"


def test_a_crack_waits_for_an_earlier_guess_that_is_not_even_known() -> None:
    game = Game()
    unknown, second = game.accepted(ADA), game.accepted(BORIS)
    cracked = state_of(game, second, game.scored(second, "0123"))
    assert cracked.due is None
    assert cracked.apply_all([unknown, game.scored(unknown, "4567")]).due == "cracked"


def test_a_crack_does_not_wait_for_later_guesses() -> None:
    game = Game()
    events = game.guess(ADA, "0123")
    assert state_of(game, *events, game.accepted(BORIS)).due == "cracked"


def test_a_solo_game_ends_with_the_last_try_when_it_is_scored() -> None:
    game = Game(settings_for("quick", "solo", tries=2))
    events = game.guess(ADA, "4567")
    last = game.accepted(ADA)
    assert state_of(game, *events, last).due is None
    assert state_of(game, *events, last, game.scored(last, "7654")).due == "out_of_tries"


def test_a_race_does_not_end_by_its_guesses_alone_for_others_may_join() -> None:
    game = Game(settings_for("quick", tries=1))
    assert state_of(game, *game.guess(ADA, "4567"), *game.guess(BORIS, "4567")).due is None


@pytest.mark.parametrize(
    ("preset", "mode", "minutes"),
    [("quick", "race", 1), ("classic", "race", 6), ("expert", "race", 10), ("expert", "team", 0), ("quick", "solo", 0)],
)
def test_the_time_to_join_is_a_tenth_of_the_games_and_ten_minutes_at_most(
    preset: str, mode: Mode, minutes: int
) -> None:
    assert joining_ms(settings_for(preset, mode)) == minutes * 60_000


def test_a_team_ends_when_the_shared_tries_are_used() -> None:
    game = Game(settings_for("quick", "team", tries=3))
    events = [*game.guess(ADA, "4567"), *game.guess(BORIS, "4567")]
    state = state_of(game, *events)
    assert (state.due, state.tries_left(CHEN)) == (None, 1)
    assert state.apply_all(game.guess(CHEN, "4567")).due == "out_of_tries"


def test_the_last_try_can_still_crack() -> None:
    game = Game(settings_for("quick", "solo", tries=1))
    assert state_of(game, *game.guess(ADA, "0123")).due == "cracked"


def test_a_void_guess_gives_its_try_back() -> None:
    game = Game(settings_for("quick", tries=2))
    first, second = game.accepted(ADA), game.accepted(ADA)
    state = state_of(game, first, game.scored(first, "4567"), second, game.refused(second, "broken"))
    assert (state.tries_left(ADA), state.due) == (1, None)


def test_nothing_is_due_in_a_game_without_guesses_or_after_the_close() -> None:
    game = Game()
    assert state_of(game).due is None
    assert state_of(game, *game.guess(ADA, "0123"), game.closed("cracked", 1, ADA)).due is None


@pytest.mark.parametrize(
    ("votes_ms", "passes"),
    [
        ({ADA: 700_000, BORIS: 700_000, CHEN: 700_000}, True),
        ({ADA: 400_000, BORIS: 500_000, CHEN: 700_000}, True),
        ({ADA: 399_999, BORIS: 500_000, CHEN: 700_000}, False),
        ({ADA: 700_000, BORIS: 700_000}, False),
        ({}, False),
    ],
)
def test_three_votes_within_five_minutes_end_a_game(votes_ms: dict[str, int], passes: bool) -> None:
    assert vote_passes(votes_ms, now_ms=700_000) is passes
