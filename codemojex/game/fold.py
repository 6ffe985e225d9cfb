"""Folds the events of one game into its state: the board, the tries, the winner and the table.

Promise: the same set of events gives an equal state (and an equal `repr`) in whatever order and however often they are
applied, all at once or one by one. The cut-off is part of the reading, not of the arrival: a guess beyond the cut is
void even when it was scored earlier. The fold trusts the stream and re-computes no scores.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from codemojex.game import closing, ranking
from codemojex.game.closing import Row
from codemojex.game.commitment import verify
from codemojex.game.events import (
    Event,
    GameClosed,
    GameCracked,
    GameExhausted,
    GameOpened,
    GameSettled,
    GuessAccepted,
    GuessRefused,
    GuessScored,
    UnknownEvent,
)
from codemojex.game.presets import FEEDBACK_PARTS, FeedbackPart, GameSettings
from codemojex.game.ranking import Standing

Phase = Literal["unopened", "live", "sealing", "closed", "settled"]


class FoldError(ValueError):
    """The events contradict each other or lack the opening; they are not one game's stream."""


@dataclass(frozen=True)
class GameState:
    """A game as its events tell it. `rows` are all known guesses by seq, `cracks` all crack events by seq.

    `exhausted` is the latest event that told that everybody is out of tries; see `ends_ms`.
    """

    opened: GameOpened | None = None
    rows: tuple[Row, ...] = ()
    cracks: tuple[GameCracked, ...] = ()
    exhausted: GameExhausted | None = None
    closed: GameClosed | None = None
    settled: GameSettled | None = None

    def apply(self, event: Event) -> "GameState":
        """Give the state after one more event; an event that is already in changes nothing. Raises `FoldError`."""
        return self.apply_all((event,))

    def apply_all(self, events: Iterable[Event]) -> "GameState":
        """Give the state after more events, in one pass over the rows. Raises `FoldError`."""
        opened, closed, settled, exhausted = self.opened, self.closed, self.settled, self.exhausted
        rows = {row.seq: row for row in self.rows}
        cracks = {crack.seq: crack for crack in self.cracks}
        for event in events:
            match event:
                case GuessAccepted() | GuessScored() | GuessRefused():
                    rows[event.seq] = _merge(rows.get(event.seq), event)
                case GameCracked():
                    cracks.setdefault(event.seq, event)
                case GameExhausted():
                    exhausted = max(exhausted or event, event, key=lambda told: (told.seq, told.until_ms))
                case GameOpened():
                    opened = opened or event
                case GameClosed():
                    closed = closed or event
                case GameSettled():
                    settled = settled or event
                case UnknownEvent():
                    pass
        secret = closed.secret if closed else ()
        return GameState(
            opened=opened,
            rows=tuple(replace(row, codes=secret) if row.perfect else row for _, row in sorted(rows.items())),
            cracks=tuple(crack for _, crack in sorted(cracks.items())),
            exhausted=exhausted,
            closed=closed,
            settled=settled,
        )

    @property
    def settings(self) -> GameSettings:
        """The rules of the game. Raises `FoldError` before `game.opened` is in."""
        if self.opened is None:
            raise FoldError("no game.opened among the events; fold the stream from its first record")
        return self.opened.settings

    @property
    def phase(self) -> Phase:
        """Where the game stands; `sealing` means cracked, with earlier guesses perhaps still to be scored."""
        if self.settled:
            return "settled"
        if self.closed:
            return "closed"
        if self.opened is None:
            return "unopened"
        return "live" if self.cut is None else "sealing"

    @property
    def over(self) -> bool:
        """Whether the game is closed, and so its secret known."""
        return self.closed is not None or self.settled is not None

    @cached_property
    def cut(self) -> int | None:
        """The greatest seq that counts: the smallest perfect one, or the close's own cut; `None` without either."""
        perfect = [row.seq for row in self.rows if row.perfect and row.refused is None]
        closed_at = self.closed.cut if self.closed else None
        return closing.cut_off([*perfect, *(crack.seq for crack in self.cracks)], closed_at)

    @property
    def winner(self) -> str | None:
        """The player of the earliest submitted perfect guess that counts; may still change until the game is closed."""
        found = {crack.seq: crack.player for crack in self.cracks}
        found |= {row.seq: row.player for row in self.rows if row.perfect and row.refused is None}
        first = min(found, default=None)
        return None if first is None or (self.cut is not None and first > self.cut) else found[first]

    @property
    def ends_ms(self) -> int | None:
        """When the game closes unless somebody joins; `None` while a player has a try left, and once it is over."""
        if self.exhausted is None or self.phase != "live":
            return None
        last = self.rows[-1].seq if self.rows else 0
        return self.exhausted.until_ms if last <= self.exhausted.seq else None

    @property
    def due(self) -> Literal["cracked", "out_of_tries"] | None:
        """Why the guesses end the game now, or `None`; also `None` once it is closed."""
        return None if self.over else closing.due(self.rows, self.cut, self.settings)

    @property
    def counted(self) -> tuple[Row, ...]:
        """The scored guesses that count, by seq."""
        return tuple(row for row in self.rows if row.score is not None and not self.is_void(row))

    @property
    def pending(self) -> tuple[Row, ...]:
        """The accepted guesses that wait for their score, by seq; none once the game is closed."""
        return () if self.over else closing.pending(self.rows, self.cut)

    def is_void(self, row: Row) -> bool:
        """Tell whether a guess does not count: refused, beyond the cut, or still without a score at the close."""
        return closing.is_void(row, self.cut) or (self.over and row.score is None)

    def history(self, player: str) -> tuple[Row, ...]:
        """List one player's guesses by seq, void ones included."""
        return tuple(row for row in self.rows if row.player == player)

    def tries_used(self, player: str) -> int:
        """Count the charged tries of a player, or of everybody in team mode."""
        shared = self.settings.mode == "team"
        return sum((shared or row.player == player) and not self.is_void(row) for row in self.rows)

    def tries_left(self, player: str) -> int:
        """Count the tries a player (a team) still has."""
        return max(0, self.settings.tries - self.tries_used(player))

    @property
    def shown(self) -> frozenset[FeedbackPart]:
        """The parts of a score that players may see now: the game's feedback, everything once it is over."""
        return frozenset(FEEDBACK_PARTS) if self.over else self.settings.feedback

    def standings(self) -> tuple[Standing, ...]:
        """Rank the players by the parts of the scores they may see now; after the close this is the final table."""
        attempts = (
            ranking.Attempt(row.player, row.name, row.seq, row.score) for row in self.counted if row.score is not None
        )
        return ranking.standings(attempts, self.settings, self.shown)

    def final_standings(self) -> tuple[Standing, ...]:
        """Rank by everything, whatever players may see: what `game.settled` records."""
        attempts = (
            ranking.Attempt(row.player, row.name, row.seq, row.score) for row in self.counted if row.score is not None
        )
        return ranking.standings(attempts, self.settings, FEEDBACK_PARTS)

    def commitment_holds(self) -> bool | None:
        """Re-compute the commitment from the revealed secret and nonce; `None` before the close."""
        if self.opened is None or self.closed is None:
            return None
        try:
            nonce = bytes.fromhex(self.closed.nonce)
        except ValueError:
            return False
        return verify(self.closed.secret, nonce, self.opened.commitment)


def fold(events: Iterable[Event]) -> GameState:
    """Fold the events of one game into its state. Raises `FoldError` when they contradict each other."""
    return GameState().apply_all(events)


def _merge(row: Row | None, event: GuessAccepted | GuessScored | GuessRefused) -> Row:
    """Add what one event knows to a guess's row; what is known already is never replaced."""
    if row is None:
        row = Row(seq=event.seq, guess=event.guess, player=event.player, name=event.name)
    elif row.guess != event.guess:
        raise FoldError(f"guesses {row.guess} and {event.guess} both have seq {event.seq}; seqs are given out once")
    match event:
        case GuessAccepted():
            return replace(row, name=event.name, try_no=event.try_no)
        case GuessRefused():
            return row if row.refused is not None else replace(row, refused=event.reason)
        case GuessScored():
            if row.score is not None:
                return row
            if row.try_no is None:  # the acceptance is not in yet; it has the last word on these two
                row = replace(row, name=event.name, try_no=event.try_no)
            return replace(row, codes=event.codes, score=event.score)
