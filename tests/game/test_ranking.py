"""Ranking and season points."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game.presets import FEEDBACK_PARTS, settings_for
from codemojex.game.ranking import Attempt, Standing, season_points, standings
from codemojex.game.scoring import score
from tests.game.games import ADA, BORIS, CHEN, NAMES

RACE = settings_for("quick", tries=4)
TEAM = settings_for("quick", "team", tries=4)


def attempt(player: str, seq: int, guess: str) -> Attempt:
    return Attempt(player, NAMES[player], seq, score("ABCD", guess))


@pytest.mark.parametrize(
    ("best", "length", "tries_left", "points"),
    [
        (600, 6, 0, 100),
        (600, 6, 3, 130),
        (600, 6, 10, 200),
        (600, 6, 14, 200),
        (400, 4, 5, 150),
        (560, 6, 9, 46),
        (300, 6, 0, 25),
        (0, 6, 12, 0),
        (333, 4, 1, 41),
    ],
)
def test_season_points_of_a_crack_and_of_others(best: int, length: int, tries_left: int, points: int) -> None:
    assert season_points(best, length, tries_left) == points


def test_best_score_wins_then_the_earliest_of_that_best() -> None:
    table = standings(
        [attempt(ADA, 1, "EFGH"), attempt(BORIS, 2, "ABCE"), attempt(CHEN, 3, "ABEF"), attempt(ADA, 4, "ABCF")],
        RACE,
        FEEDBACK_PARTS,
    )
    assert [(line.rank, line.player, line.best, line.best_seq) for line in table] == [
        (1, BORIS, 300, 2),
        (2, ADA, 300, 4),
        (3, CHEN, 200, 3),
    ]


def test_a_repeated_best_counts_from_its_first_submission() -> None:
    table = standings(
        [attempt(ADA, 1, "ABCE"), attempt(BORIS, 2, "ABCF"), attempt(ADA, 3, "ABCG")], RACE, FEEDBACK_PARTS
    )
    assert [(line.player, line.best_seq, line.tries, line.tries_left) for line in table] == [
        (ADA, 1, 2, 2),
        (BORIS, 2, 1, 3),
    ]


def test_a_crack_is_named_and_paid_by_the_tries_left() -> None:
    (first, second) = standings(
        [attempt(ADA, 1, "ABDC"), attempt(BORIS, 2, "ABCE"), attempt(BORIS, 3, "ABCD")], RACE, FEEDBACK_PARTS
    )
    assert (first.player, first.cracked_by, first.points, first.tries_left) == (BORIS, BORIS, 120, 2)
    assert (second.player, second.cracked_by, second.points) == (ADA, None, 41)


def test_a_team_has_one_line_with_its_members_and_who_cracked() -> None:
    (line,) = standings(
        [attempt(BORIS, 1, "EFGH"), attempt(ADA, 2, "ABCE"), attempt(CHEN, 3, "ABCD")], TEAM, FEEDBACK_PARTS
    )
    assert (line.rank, line.player, line.name) == (1, None, "")
    assert line.members == (BORIS, ADA, CHEN)
    assert (line.best, line.tries, line.tries_left, line.points, line.cracked_by) == (400, 3, 1, 110, CHEN)


def test_a_table_under_hidden_totals_uses_only_what_players_see() -> None:
    attempts = [attempt(ADA, 1, "BCDA"), attempt(BORIS, 2, "AEFG"), attempt(CHEN, 3, "ACEF")]
    assert [line.player for line in standings(attempts, RACE, {"total"})] == [ADA, CHEN, BORIS]
    assert [line.player for line in standings(attempts, RACE, {"tiles"})] == [CHEN, BORIS, ADA]
    assert [line.player for line in standings(attempts, RACE, set())] == [ADA, BORIS, CHEN]
    assert {(line.best, line.points) for line in standings(attempts, RACE, {"tiles"})} == {(None, 0)}


GUESSES = st.lists(
    st.tuples(st.sampled_from(list(NAMES)), st.permutations("ABCDEF").map(lambda order: "".join(order[:4]))),
    max_size=12,
)


@given(GUESSES, st.randoms())
def test_the_order_of_the_attempts_does_not_matter(guesses: list[tuple[str, str]], random) -> None:
    attempts = [attempt(player, seq, guess) for seq, (player, guess) in enumerate(guesses, start=1)]
    shuffled = random.sample(attempts, len(attempts))
    for settings in (RACE, TEAM):
        table = standings(attempts, settings, FEEDBACK_PARTS)
        assert standings(shuffled, settings, FEEDBACK_PARTS) == table
        assert [line.best for line in table] == sorted((line.best for line in table), reverse=True)
        assert sum(line.tries for line in table) == len(attempts)


def test_a_line_survives_json_and_newer_fields() -> None:
    for line in standings([attempt(ADA, 1, "ABCD")], TEAM, FEEDBACK_PARTS):
        data = json.loads(json.dumps(line.to_data()))
        assert Standing.from_data({**data, "badge": "gold"}) == line
