"""Guesses: taken once, in order, and admitted with their job.

`submit` is one script: the game is open, the try exists, the pause between guesses is over, and the request is new;
then the try is taken, the guess gets the game's next number, and its score is ordered. A repeated request gets the
first answer and costs nothing. Scoring happens elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .context import Play
from .games import Snapshot
from .players import Player


@dataclass(frozen=True, slots=True)
class Accepted:
    """The guess counts. `seq` orders the game's guesses; `again` tells a repeated request."""

    guess_id: str
    seq: int
    try_no: int
    tries_left: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The guess does not count and costs nothing. `wait_ms` is set with `cooldown` only."""

    reason: Literal["closed", "late", "no_tries", "cooldown", "gone", "busy"]
    wait_ms: int = 0


async def submit(play: Play, game: Snapshot, player: Player, code: Sequence[str], request: str) -> Accepted | Refused:
    """Hand in `code` (canonical tokens of the palette, right length, no repeats) for `player`.

    Raises ValueError for a code that `emoji.parse_guess` would not have given. `request` names the act, for
    instance the update's id; it is remembered as long as the game.
    """
    raise NotImplementedError
