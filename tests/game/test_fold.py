"""The fold: the same events give the same board, in whatever order they are scored and however often they arrive."""

import json
import random as random_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game.events import (
    Event,
    GameExhausted,
    GameSettled,
    GuessAccepted,
    GuessScored,
    UnknownEvent,
    event_from,
)
from codemojex.game.fold import FoldError, GameState, fold
from codemojex.game.presets import MODES, settings_for
from tests.game.games import ADA, BORIS, CHEN, NAMES, Game

DIGITS = st.one_of(st.just("0123"), st.permutations("01234567").map(lambda order: "".join(order[:4])))
GUESSES = st.lists(st.tuples(st.sampled_from(list(NAMES)), DIGITS), min_size=1, max_size=15)


def played(mode: str, guesses: list[tuple[str, str]]) -> tuple[Game, list[Event]]:
    """A whole game as a correct server records it when it scores in the order of submission."""
    game = Game(settings_for("quick", mode, tries=20))
    events: list[Event] = [game.opened()]
    for player, digits in guesses:
        accepted = game.accepted(player)
        events += [accepted, game.scored(accepted, digits)]
        if digits == game.hidden:
            events.append(game.cracked(accepted))
        if accepted.seq % 2:
            events.append(GameExhausted(accepted.seq, 1_000 * accepted.seq))
    state = fold(events)
    events.append(game.closed("cracked" if state.winner else "ended", state.cut, state.winner))
    return game, [*events, GameSettled(fold(events).final_standings())]


@given(st.sampled_from(MODES), GUESSES, st.randoms(use_true_random=False))
def test_order_and_repetition_of_events_do_not_matter(
    mode: str, guesses: list[tuple[str, str]], random: random_module.Random
) -> None:
    _, events = played(mode, guesses)
    state = fold(events)
    shuffled = [*random.sample(events, len(events)), *random.choices(events, k=5)]
    one_by_one = GameState()
    for event in shuffled:
        one_by_one = one_by_one.apply(event)
    cut = random.randrange(len(shuffled))
    in_two = fold(shuffled[:cut]).apply_all(shuffled[cut:])
    assert state == fold(shuffled) == one_by_one == in_two
    assert repr(state) == repr(one_by_one)
    assert state.standings() == one_by_one.standings() == events[-1].standings


@given(st.sampled_from(MODES), GUESSES)
def test_the_earliest_submitted_perfect_guess_wins_and_later_ones_are_void(
    mode: str, guesses: list[tuple[str, str]]
) -> None:
    game, events = played(mode, guesses)
    state = fold(events)
    perfect = [seq for seq, (_, digits) in enumerate(guesses, start=1) if digits == game.hidden]
    cut = min(perfect, default=None)
    assert state.cut == cut
    assert state.winner == (None if cut is None else guesses[cut - 1][0])
    assert [row.seq for row in state.counted] == list(range(1, (cut or len(guesses)) + 1))
    for player in NAMES:
        mine = [seq for seq, (who, _) in enumerate(guesses, start=1) if who == player and seq <= (cut or seq)]
        used = len(state.counted) if mode == "team" else len(mine)
        assert (state.tries_used(player), state.tries_left(player)) == (used, 20 - used)


@given(GUESSES)
def test_replay_from_json_gives_the_same_state(guesses: list[tuple[str, str]]) -> None:
    _, events = played("race", guesses)
    records = [(event.kind, json.dumps(event.to_data())) for event in events if not isinstance(event, UnknownEvent)]
    assert repr(fold(event_from(kind, json.loads(data)) for kind, data in records)) == repr(fold(events))


def test_a_crack_that_is_scored_last_voids_what_was_scored_before_it() -> None:
    game = Game()
    first, second, third = game.accepted(ADA), game.accepted(BORIS), game.accepted(CHEN)
    events = [game.opened(), first, second, third, game.scored(third, "0123"), game.cracked(third)]
    state = fold([*events, game.scored(second, "0132")])
    assert (state.winner, state.cut) == (CHEN, 3)
    state = state.apply(game.scored(first, "0123"))
    assert (state.winner, state.cut) == (ADA, 1)
    assert [state.is_void(row) for row in state.rows] == [False, True, True]
    assert [line.player for line in state.final_standings()] == [ADA]
    assert state.tries_left(BORIS) == state.tries_left(CHEN) == game.settings.tries


def test_a_crack_event_alone_already_cuts() -> None:
    game = Game()
    first, second = game.accepted(ADA), game.accepted(BORIS)
    state = fold([game.opened(), first, second, game.scored(second, "4567"), game.cracked(first)])
    assert (state.cut, state.winner, state.phase) == (1, ADA, "sealing")
    assert state.is_void(state.rows[1])


def test_a_close_with_its_own_cut_voids_later_and_unscored_guesses() -> None:
    game = Game()
    first, second, third = game.accepted(ADA), game.accepted(BORIS), game.accepted(CHEN)
    live = fold([game.opened(), first, second, third, game.scored(first, "4567"), game.scored(third, "0123")])
    state = live.apply(game.closed("deadline", cut=2))
    assert (state.winner, state.cut, state.pending) == (None, 2, ())
    assert [state.is_void(row) for row in state.rows] == [False, True, True]
    assert state.tries_used(BORIS) == 0


def test_a_second_event_about_a_guess_changes_nothing() -> None:
    game = Game()
    accepted = game.accepted(ADA)
    scored = game.scored(accepted, "0132")
    state = fold([game.opened(), accepted, scored])
    assert state.apply(game.scored(accepted, "4567")) == state
    assert state.apply(accepted) == state
    refused = state.apply(game.refused(accepted, "cut"))
    assert refused.apply(game.refused(accepted, "again")) == refused


def test_two_guesses_with_one_seq_are_a_fault_that_names_both() -> None:
    game = Game()
    accepted = game.accepted(ADA)
    with pytest.raises(FoldError, match="GES1 and GES9 both have seq 1"):
        fold([accepted, GuessAccepted("GES9", BORIS, "Boris", 1, 1)])


def test_a_perfect_code_is_in_no_row_before_the_close_even_from_a_careless_event() -> None:
    game = Game()
    accepted = game.accepted(ADA)
    careless = GuessScored(accepted.guess, ADA, "Ada", 1, 1, game.secret, game.scored(accepted, "0123").score)
    live = fold([game.opened(), accepted, careless])
    assert live.rows[0].codes == ()
    assert not any(token in repr((live.rows, live.cracks)) for token in game.secret)
    assert live.apply(game.closed()).rows[0].codes == game.secret


def test_phases_follow_each_other() -> None:
    game = Game()
    state = GameState()
    phases = [state.phase]
    accepted = game.accepted(ADA)
    for event in (game.opened(), game.scored(accepted, "0123"), game.closed(), GameSettled(())):
        state = state.apply(event)
        phases.append(state.phase)
    assert phases == ["unopened", "live", "sealing", "closed", "settled"]


def test_hidden_feedback_shows_everything_once_the_game_is_over() -> None:
    game = Game(settings_for("blind", length=4))
    live = fold([game.opened(), *game.guess(ADA, "4567"), *game.guess(BORIS, "0132")])
    assert live.shown == frozenset()
    assert [(line.player, line.best) for line in live.standings()] == [(ADA, None), (BORIS, None)]
    over = live.apply(game.closed("deadline"))
    assert over.shown == {"total", "pegs", "tiles"}
    assert [line.player for line in over.standings()] == [BORIS, ADA]
    assert over.standings() == over.final_standings() == live.final_standings()


def test_the_commitment_is_checked_against_the_revealed_secret() -> None:
    game = Game()
    assert fold([game.opened()]).commitment_holds() is None
    assert fold([game.opened(), game.closed()]).commitment_holds() is True
    assert fold([game.opened(), Game(hidden="3210").closed()]).commitment_holds() is False


def test_an_event_of_an_unknown_kind_changes_nothing() -> None:
    state = fold([Game().opened()])
    assert state.apply(UnknownEvent("hint.given")) == state


def test_questions_about_a_game_that_is_not_opened_say_so() -> None:
    with pytest.raises(FoldError, match=r"no game\.opened"):
        _ = GameState().settings


def test_a_game_whose_players_are_out_of_tries_tells_when_it_ends_until_somebody_joins() -> None:
    game = Game(settings_for("quick", tries=1))
    events = [game.opened(), *game.guess(ADA, "4567"), GameExhausted(1, 9_000)]
    assert fold(events[:-1]).ends_ms is None
    assert fold(events).ends_ms == 9_000
    joined = fold(events).apply(game.accepted(BORIS))
    assert joined.ends_ms is None
    again = joined.apply(GameExhausted(2, 20_000))
    assert again.ends_ms == 20_000
    assert again.apply(GameExhausted(1, 9_000)) == again
    assert again.apply(game.closed("out_of_tries")).ends_ms is None


def test_history_lists_a_players_guesses_in_order() -> None:
    game = Game()
    state = fold([game.opened(), *game.guess(ADA, "4567"), *game.guess(BORIS, "4567"), *game.guess(ADA, "0132")])
    assert [row.seq for row in state.history(ADA)] == [1, 3]
    assert [row.try_no for row in state.history(ADA)] == [1, 2]


def test_ten_thousand_guesses_fold_in_one_pass() -> None:
    game = Game(settings_for("quick", tries=100))
    events = [event for _ in range(10_000) for event in game.guess(ADA, "4567")]
    state = fold([game.opened(), *events])
    assert len(state.counted) == 10_000
