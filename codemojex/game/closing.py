"""Decides when a game is over and which guesses count.

The earliest submitted perfect guess wins, also when it is scored last: its seq is the cut. Guesses up to the cut are
still scored, guesses above it are void and give their try back. A guess's seq is its place in the order of submission;
no clock takes part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from codemojex.game.presets import GameSettings
from codemojex.game.scoring import Score

VOTES_TO_END = 3
VOTE_WINDOW_MS = 5 * 60 * 1000
JOINING_SHARE = 10  # a race whose players are out of tries stays open for others: a tenth of its whole time,
JOINING_MOST_MS = 10 * 60 * 1000  # and ten minutes at most


@dataclass(frozen=True, slots=True)
class Row:
    """One guess of a game as far as it is known; rows are built from events in any order.

    `codes` is empty until the guess is scored, and for a perfect guess until the game is closed. `try_no` is `None`
    while only a refusal is known. `refused` is the reason of a refusal.
    """

    seq: int
    guess: str
    player: str
    name: str
    try_no: int | None = None
    codes: tuple[str, ...] = ()
    score: Score | None = None
    refused: str | None = None

    @property
    def perfect(self) -> bool:
        """Whether the guess is scored and found the secret, void or not."""
        return self.score is not None and self.score.perfect


def cut_off(perfect_seqs: Iterable[int], closed_at: int | None = None) -> int | None:
    """Give the greatest seq that still counts: the smallest perfect one, or a close's own cut if that is smaller."""
    return min([*perfect_seqs, *([] if closed_at is None else [closed_at])], default=None)


def is_void(row: Row, cut: int | None) -> bool:
    """Tell whether a guess does not count: refused, or submitted after the cut – even when it has a score."""
    return row.refused is not None or (cut is not None and row.seq > cut)


def pending(rows: Iterable[Row], cut: int | None) -> tuple[Row, ...]:
    """List the guesses that still have to be scored before the game can close."""
    return tuple(row for row in rows if row.score is None and not is_void(row, cut))


def due(rows: Iterable[Row], cut: int | None, settings: GameSettings) -> Literal["cracked", "out_of_tries"] | None:
    """Tell whether the guesses themselves end the game, and why; `None` while it goes on.

    Cracked: a perfect guess counts, and every guess with a smaller seq is known and scored or refused. Out of tries:
    nothing is pending and the team, or the only player, has no try left. A race never ends so by its guesses alone: see
    `joining_ms`.
    """
    known = tuple(rows)
    if pending(known, cut):
        return None
    if cut is not None:
        found = any(row.perfect and row.seq == cut for row in known)
        complete = len({row.seq for row in known if row.seq <= cut}) == cut
        return "cracked" if found and complete else None
    if settings.mode == "race":
        return None
    spent = sum(tries_charged(known, cut).values()) >= settings.tries
    return "out_of_tries" if spent else None


def joining_ms(settings: GameSettings) -> int:
    """Tell how long a game stays open for others once everybody who plays is out of tries; 0 where nobody can join."""
    if settings.mode != "race":
        return 0
    return min(settings.duration_s * 1000 // JOINING_SHARE, JOINING_MOST_MS)


def tries_charged(rows: Iterable[Row], cut: int | None) -> dict[str, int]:
    """Count the tries of each player who made a guess; void guesses are not charged."""
    charged: dict[str, int] = {}
    for row in rows:
        charged[row.player] = charged.get(row.player, 0) + (not is_void(row, cut))
    return charged


def vote_passes(votes_ms: Mapping[str, int], now_ms: int) -> bool:
    """Tell whether enough different players voted to end the game within the last five minutes."""
    return sum(0 <= now_ms - voted_ms <= VOTE_WINDOW_MS for voted_ms in votes_ms.values()) >= VOTES_TO_END
