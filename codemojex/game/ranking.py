"""Ranks players: best score, then the earliest submission of that best, then fewer tries; and season points.

Works on the counted guesses of one game only. When the game hides feedback, the ranking uses just the parts that
players can see, so a live table never tells more than the guesses on it do.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from codemojex.game import fields
from codemojex.game.presets import FeedbackPart, GameSettings
from codemojex.game.scoring import Score, perfect_total

SEASON_CAP = 200


@dataclass(frozen=True, slots=True)
class Attempt:
    """One scored guess that counts."""

    player: str
    name: str
    seq: int
    score: Score


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the table.

    `player` and `name` are `None` and "" for the one shared line of a team; `members` are the players behind the line,
    by their first guess. `best` is `None` and `points` 0 while the total is hidden. `best_seq`: the guess that counts
    as best. `tries`: scored guesses that count; `tries_left`: the rest. `cracked_by`: who found the code on this line.
    """

    rank: int
    player: str | None
    name: str
    members: tuple[str, ...]
    best: int | None
    best_seq: int
    tries: int
    tries_left: int
    points: int
    cracked_by: str | None

    def to_data(self) -> dict[str, object]:
        """Give the line as a JSON object."""
        return {
            "rank": self.rank,
            "player": self.player,
            "name": self.name,
            "members": list(self.members),
            "best": self.best,
            "best_seq": self.best_seq,
            "tries": self.tries,
            "tries_left": self.tries_left,
            "points": self.points,
            "cracked_by": self.cracked_by,
        }

    @classmethod
    def from_data(cls, data: fields.Data) -> "Standing":
        """Read a line back; fields of a newer version are ignored. Raises `DataError`."""
        return cls(
            rank=fields.whole(data, "rank"),
            player=fields.text_or_none(data, "player"),
            name=fields.text(data, "name"),
            members=fields.texts(data, "members"),
            best=fields.whole_or_none(data, "best"),
            best_seq=fields.whole(data, "best_seq"),
            tries=fields.whole(data, "tries"),
            tries_left=fields.whole(data, "tries_left"),
            points=fields.whole(data, "points"),
            cracked_by=fields.text_or_none(data, "cracked_by"),
        )


def season_points(best: int, length: int, tries_left: int) -> int:
    """Give a game's season points: a crack is 100 + 10 × tries left (at most 200), else ⌊best·100 ⁄ perfect ⁄ 2⌋."""
    perfect = perfect_total(length)
    if best >= perfect:
        return min(SEASON_CAP, 100 + 10 * tries_left)
    return best * 100 // (perfect * 2)


def strength(score: Score, parts: Collection[FeedbackPart]) -> tuple[int, ...]:
    """Give what a guess is compared by when only `parts` are visible: total, else exact and misplaced, else nothing."""
    if "total" in parts:
        return (score.total,)
    return (score.exact, score.misplaced) if parts else ()


def standings(
    attempts: Iterable[Attempt], settings: GameSettings, parts: Collection[FeedbackPart]
) -> tuple[Standing, ...]:
    """Rank the counted guesses of a game by the visible `parts`; in team mode there is one shared line.

    The order of `attempts` does not matter.
    """
    lines: dict[str | None, list[Attempt]] = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.seq):
        lines.setdefault(None if settings.mode == "team" else attempt.player, []).append(attempt)

    def best_of(line: list[Attempt]) -> Attempt:
        return max(line, key=lambda attempt: (strength(attempt.score, parts), -attempt.seq))

    def order(item: tuple[str | None, list[Attempt]]) -> tuple[tuple[int, ...], int, int]:
        best = best_of(item[1])
        return tuple(-value for value in strength(best.score, parts)), best.seq, len(item[1])

    table: list[Standing] = []
    for rank, (player, line) in enumerate(sorted(lines.items(), key=order), start=1):
        best = best_of(line)
        left = max(0, settings.tries - len(line))
        table.append(
            Standing(
                rank=rank,
                player=player,
                name="" if player is None else line[-1].name,
                members=tuple(dict.fromkeys(attempt.player for attempt in line)),
                best=best.score.total if "total" in parts else None,
                best_seq=best.seq,
                tries=len(line),
                tries_left=left,
                points=season_points(best.score.total, settings.length, left) if "total" in parts else 0,
                cracked_by=best.player if best.score.perfect else None,
            )
        )
    return tuple(table)
