"""Scores a guess against a secret: the linear house score, pegs, and tiles.

Pure arithmetic on canonical tokens. The three kinds of feedback are always computed together; which of them a player
may see is a property of the game, not of the score.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

Tile = Literal["G", "Y", "-"]


@dataclass(frozen=True, slots=True)
class Score:
    """Everything known about one guess: points per position and their total, pegs, tiles."""

    points: tuple[int, ...]
    total: int
    exact: int
    misplaced: int
    tiles: tuple[Tile, ...]

    @property
    def perfect(self) -> bool:
        """Whether the guess is the secret."""
        return self.total == perfect_total(len(self.points))


def perfect_total(length: int) -> int:
    """Give the linear total of the secret itself: 100 for each position."""
    return 100 * length


@cache
def linear_table(length: int) -> tuple[int, ...]:
    """Give the points by distance 0 … length − 1: 100 − ⌊100·d ⁄ (length − 1)⌋. Raises `ValueError` below two."""
    if length < 2:
        raise ValueError(f"a code of {length} has no distances; use a length from 3 to 8")
    return tuple(100 - 100 * distance // (length - 1) for distance in range(length))


def linear(secret: Sequence[str], guess: Sequence[str]) -> tuple[tuple[int, ...], int]:
    """Give the linear points of each position and their sum; an emoji that is not in the secret earns 0.

    Raises `ValueError` when the lengths differ.
    """
    _same_length(secret, guess)
    table = linear_table(len(secret))
    home = {token: place for place, token in enumerate(secret)}
    points = tuple(table[abs(place - home[token])] if token in home else 0 for place, token in enumerate(guess))
    return points, sum(points)


def pegs(secret: Sequence[str], guess: Sequence[str]) -> tuple[int, int]:
    """Count exact and misplaced emojis: exact first, then Σ min(count in secret, count in guess) − exact."""
    _same_length(secret, guess)
    exact = sum(wanted == given for wanted, given in zip(secret, guess, strict=True))
    return exact, (Counter(secret) & Counter(guess)).total() - exact


def tiles(secret: Sequence[str], guess: Sequence[str]) -> tuple[Tile, ...]:
    """Mark each position: G in place, Y elsewhere in the secret, - absent; every emoji of the secret pays once."""
    _same_length(secret, guess)
    spare = Counter(wanted for wanted, given in zip(secret, guess, strict=True) if wanted != given)
    marks: list[Tile] = []
    for wanted, given in zip(secret, guess, strict=True):
        if wanted == given:
            marks.append("G")
        elif spare[given] > 0:
            spare[given] -= 1
            marks.append("Y")
        else:
            marks.append("-")
    return tuple(marks)


def score(secret: Sequence[str], guess: Sequence[str]) -> Score:
    """Score a guess completely. Raises `ValueError` when the lengths differ."""
    points, total = linear(secret, guess)
    exact, misplaced = pegs(secret, guess)
    return Score(points, total, exact, misplaced, tiles(secret, guess))


def _same_length(secret: Sequence[str], guess: Sequence[str]) -> None:
    # The message names lengths only: a secret must never reach an error text.
    if len(secret) != len(guess):
        raise ValueError(f"a guess of {len(guess)} cannot be scored against a code of {len(secret)}")
