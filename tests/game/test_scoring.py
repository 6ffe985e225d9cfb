"""The three kinds of feedback: the published vectors, and what holds for every secret and guess."""

import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game import scoring

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "scoring.json").read_text(encoding="utf-8"))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWX"


@st.composite
def secret_and_guess(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    length = draw(st.integers(3, 8))
    code = st.lists(st.sampled_from(ALPHABET), min_size=length, max_size=length, unique=True)
    return draw(code), draw(code)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_every_published_case_comes_out_exactly(case: dict) -> None:
    score = scoring.score(case["secret"], case["guess"])
    assert list(score.points) == case["points"]
    assert score.total == case["total"]
    assert (score.exact, score.misplaced) == (case["exact"], case["misplaced"])
    assert "".join(score.tiles) == case["tiles"]
    assert score.perfect == (case["secret"] == case["guess"])


@pytest.mark.parametrize("length", VECTORS["tables"])
def test_the_table_of_every_length_comes_out_exactly(length: str) -> None:
    assert list(scoring.linear_table(int(length))) == VECTORS["tables"][length]


def test_orders_of_the_right_six_are_distributed_as_published() -> None:
    counts = Counter(str(scoring.linear("ABCDEF", order)[1]) for order in permutations("ABCDEF"))
    assert counts == VECTORS["permutations_of_six"]


def test_every_multiple_of_20_but_540_and_580_can_be_scored_with_six() -> None:
    # What a position earns depends only on where its emoji belongs, so one stranger stands for all of them.
    totals = {
        scoring.linear("ABCDEF", [token if keep >> place & 1 else "-" for place, token in enumerate(order)])[1]
        for order in permutations("ABCDEF")
        for keep in range(64)
    }
    assert totals == set(range(0, 601, 20)) - {540, 580}


def test_the_mean_of_all_guesses_from_n_emojis_is_2200_over_n() -> None:
    for size in (6, 7, 8):
        totals = [scoring.linear("ABCDEF", guess)[1] for guess in permutations(ALPHABET[:size], 6)]
        assert sum(totals) * size == 2200 * len(totals)


@given(secret_and_guess())
def test_the_total_is_the_sum_and_lies_between_zero_and_perfect(pair: tuple[list[str], list[str]]) -> None:
    secret, guess = pair
    score = scoring.score(secret, guess)
    assert score.total == sum(score.points)
    assert 0 <= score.total <= scoring.perfect_total(len(secret)) == 100 * len(secret)
    assert score.perfect == (secret == guess)


@given(secret_and_guess())
def test_tiles_and_pegs_and_points_tell_the_same_story(pair: tuple[list[str], list[str]]) -> None:
    secret, guess = pair
    score = scoring.score(secret, guess)
    assert score.tiles.count("G") == score.exact == score.points.count(100)
    assert score.tiles.count("Y") == score.misplaced
    assert score.tiles.count("-") == len(set(guess) - set(secret))


@given(secret_and_guess())
def test_scoring_is_symmetric_between_secret_and_guess(pair: tuple[list[str], list[str]]) -> None:
    secret, guess = pair
    there, back = scoring.score(secret, guess), scoring.score(guess, secret)
    assert (there.total, there.exact, there.misplaced) == (back.total, back.exact, back.misplaced)


def test_an_emoji_that_stands_twice_in_a_guess_is_paid_once() -> None:
    assert scoring.tiles("ABC", "BBA") == ("-", "G", "Y")
    assert scoring.pegs("ABC", "BBA") == (1, 1)
    assert scoring.tiles("ABC", "DAA") == ("-", "Y", "-")


def test_a_guess_of_another_length_is_an_error_that_does_not_tell_the_secret() -> None:
    with pytest.raises(ValueError, match="guess of 2 cannot be scored against a code of 3") as error:
        scoring.score("ABC", "AB")
    assert "ABC" not in str(error.value)
