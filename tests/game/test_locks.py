"""Locks: pinned emojis complete a shorter guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game.locks import fill, pin, slots, unpin


def test_pinned_emojis_are_filled_in_where_they_are_pinned() -> None:
    assert fill({1: "B", 3: "D"}, ["A", "C"], 4) == ("A", "B", "C", "D")
    assert fill({0: "A", 1: "B"}, [], 2) == ("A", "B")


def test_a_guess_of_full_length_is_taken_as_typed() -> None:
    assert fill({0: "A"}, ["D", "C", "B"], 3) == ("D", "C", "B")


def test_pinned_and_typed_that_do_not_make_one_code_are_no_guess() -> None:
    assert fill({0: "A"}, ["B"], 3) is None
    assert fill({0: "A", 1: "B"}, ["C", "D"], 3) is None
    assert fill({7: "A"}, ["B", "C"], 3) is None


def test_slots_show_what_is_still_free() -> None:
    assert slots({2: "C"}, ["A"], 4) == ("A", None, "C", None)
    assert slots({}, [], 3) == (None, None, None)


def test_pinning_replaces_moves_and_leaves_the_old_locks_alone() -> None:
    locks = {0: "A"}
    assert pin(locks, 0, "B", 4) == {0: "B"}
    assert pin(locks, 3, "A", 4) == {3: "A"}
    assert list(pin({3: "D"}, 1, "B", 4)) == [1, 3]
    assert locks == {0: "A"}


@pytest.mark.parametrize("position", [-1, 4])
def test_a_pin_outside_the_code_is_refused(position: int) -> None:
    with pytest.raises(ValueError, match="choose 1 to 4"):
        pin({}, position, "A", 4)


def test_unlocking_takes_one_pin_or_all() -> None:
    assert unpin({0: "A", 1: "B"}, 0) == {1: "B"}
    assert unpin({0: "A"}, 2) == {0: "A"}
    assert unpin({0: "A", 1: "B"}) == {}


@given(st.permutations("ABCDEFGH"), st.sets(st.integers(0, 7)))
def test_typing_the_free_positions_gives_the_whole_code(code: list[str], places: set[int]) -> None:
    locks = {place: code[place] for place in places}
    typed = [token for place, token in enumerate(code) if place not in places]
    assert fill(locks, typed, 8) == tuple(code)
