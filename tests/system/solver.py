"""Cracks a code by playing: reads the rows of a board as people do, and thinks about what is left.

Everything is worked out anew from the rules of the game, so that a wrong score of the product shows up here. No secret
is known to it: a code is a candidate when it would have given every sign that stands on the board.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

HIT, NEAR, MISS = "🟩", "🟨", "⬜"
_ROW = re.compile(r"^(?:(?P<name>\S.*?) )?(?P<try_no>\d+):? (?P<code>[^\x00-\x7f⏳🔓]+) (?P<signs>\S.*)$")


@dataclass(frozen=True)
class Row:
    """One scored guess as a board, a toast or a history shows it; `name` is empty where one speaks to oneself."""

    name: str
    try_no: int
    code: str
    signs: str


def rows(text: str) -> list[Row]:
    """The scored guesses in a text of the bot, in its order; other lines, waiting and void guesses are passed over."""
    found = (_ROW.match(line) for line in text.splitlines())
    return [Row(row["name"] or "", int(row["try_no"]), row["code"], row["signs"]) for row in found if row]


def tiles(secret: str, guess: str) -> str:
    """What a board with tiles shows for a guess."""
    return "".join(HIT if a == b else NEAR if b in secret else MISS for a, b in zip(secret, guess, strict=True))


def total(secret: str, guess: str) -> int:
    """The linear score: 100 for an emoji in its place, less the further away it stands, 0 when it is not there."""
    last = len(secret) - 1
    return sum(100 - 100 * abs(at - secret.index(token)) // last for at, token in enumerate(guess) if token in secret)


def exact(secret: str, guess: str) -> int:
    """How many emojis stand in their place."""
    return sum(a == b for a, b in zip(secret, guess, strict=True))


def misplaced(secret: str, guess: str) -> int:
    """How many emojis are in the code, but elsewhere."""
    return len(set(secret) & set(guess)) - exact(secret, guess)


def everything(secret: str, guess: str) -> str:
    """All the signs of a guess, as a board shows them when a game is over."""
    counts = f"●{exact(secret, guess)} ○{misplaced(secret, guess)}"
    return f"{tiles(secret, guess)} {total(secret, guess)} {counts}"


def candidates(palette: str, length: int, known: Iterable[Row]) -> list[str]:
    """The codes that agree with the tiles of every row."""
    left = ["".join(code) for code in permutations(palette, length)]
    for row in known:
        left = [code for code in left if tiles(code, row.code) == row.signs]
    return left


def spread(palette: str, length: int, count: int) -> list[str]:
    """First guesses that together touch as much of the palette as they can, all different."""
    doubled = palette + palette
    step = max(1, len(palette) // count)
    return [doubled[at * step : at * step + length] for at in range(count)]


def best(left: Sequence[str], seed: int = 0) -> str:
    """The candidate that splits the candidates into the smallest parts, among some that are picked by the seed."""
    tried = random.Random(seed).sample(left, min(40, len(left)))
    return min(tried, key=lambda guess: sum(n * n for n in Counter(tiles(code, guess) for code in left).values()))
