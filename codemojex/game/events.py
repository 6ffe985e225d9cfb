"""The events of a game's stream: one frozen dataclass each, with a versioned JSON form.

Promise: data written by a newer version with additional fields is readable, and a kind that this version does not know
becomes an `UnknownEvent` that the fold passes over. No event before `game.closed` contains the secret: a perfect guess
is stored without its code, which the closing event makes known. Ids and order of events belong to the stream.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, cast, get_args

from codemojex.game import fields
from codemojex.game.fields import Data
from codemojex.game.presets import GameSettings
from codemojex.game.ranking import Standing
from codemojex.game.scoring import Score, Tile

VERSION = 1

CloseReason = Literal["cracked", "out_of_tries", "deadline", "ended", "voted"]
CLOSE_REASONS: tuple[CloseReason, ...] = get_args(CloseReason)


class EventVersionError(ValueError):
    """An event has a version that this program cannot read; upgrade before folding its stream."""


@dataclass(frozen=True, slots=True)
class GameOpened:
    """A game starts. `commitment` fixes the secret; `deadline_ms` is Unix time; `starter` may end the game."""

    kind: ClassVar[str] = "game.opened"
    settings: GameSettings
    commitment: str
    room: str
    starter: str
    deadline_ms: int

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {
            "v": VERSION,
            "settings": self.settings.to_data(),
            "commitment": self.commitment,
            "room": self.room,
            "starter": self.starter,
            "deadline_ms": self.deadline_ms,
        }

    @classmethod
    def from_data(cls, data: Data) -> "GameOpened":
        """Read the event back."""
        return cls(
            settings=GameSettings.from_data(fields.nested(data, "settings")),
            commitment=fields.text(data, "commitment"),
            room=fields.text(data, "room"),
            starter=fields.text(data, "starter"),
            deadline_ms=fields.whole(data, "deadline_ms"),
        )


@dataclass(frozen=True, slots=True)
class GuessAccepted:
    """A try is taken and the guess waits for its score. `try_no` counts the player's (a team's) tries from 1."""

    kind: ClassVar[str] = "guess.accepted"
    guess: str
    player: str
    name: str
    seq: int
    try_no: int

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {
            "v": VERSION,
            "guess": self.guess,
            "player": self.player,
            "name": self.name,
            "seq": self.seq,
            "try": self.try_no,
        }

    @classmethod
    def from_data(cls, data: Data) -> "GuessAccepted":
        """Read the event back."""
        return cls(
            guess=fields.text(data, "guess"),
            player=fields.text(data, "player"),
            name=fields.text(data, "name"),
            seq=fields.whole(data, "seq"),
            try_no=fields.whole(data, "try"),
        )


@dataclass(frozen=True, slots=True)
class GuessScored:
    """A guess has its score. Make it with `of`; `codes` is empty for a perfect guess, whose code is the secret."""

    kind: ClassVar[str] = "guess.scored"
    guess: str
    player: str
    name: str
    seq: int
    try_no: int
    codes: tuple[str, ...]
    score: Score

    @classmethod
    def of(cls, accepted: GuessAccepted, codes: tuple[str, ...], score: Score) -> "GuessScored":
        """Make the event of an accepted guess, keeping the code to itself when it is the secret."""
        shown = () if score.perfect else codes
        return cls(accepted.guess, accepted.player, accepted.name, accepted.seq, accepted.try_no, shown, score)

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {
            "v": VERSION,
            "guess": self.guess,
            "player": self.player,
            "name": self.name,
            "seq": self.seq,
            "try": self.try_no,
            "codes": [] if self.score.perfect else list(self.codes),
            "points": list(self.score.points),
            "total": self.score.total,
            "pegs": [self.score.exact, self.score.misplaced],
            "tiles": "".join(self.score.tiles),
        }

    @classmethod
    def from_data(cls, data: Data) -> "GuessScored":
        """Read the event back."""
        pegs = fields.wholes(data, "pegs")
        marks = fields.text(data, "tiles")
        if len(pegs) != 2:
            raise fields.DataError("pegs", "two integers", pegs)
        if not set(marks) <= set(get_args(Tile)):
            raise fields.DataError("tiles", "made of G, Y and -", marks)
        score = Score(
            points=fields.wholes(data, "points"),
            total=fields.whole(data, "total"),
            exact=pegs[0],
            misplaced=pegs[1],
            tiles=cast("tuple[Tile, ...]", tuple(marks)),
        )
        return cls(
            guess=fields.text(data, "guess"),
            player=fields.text(data, "player"),
            name=fields.text(data, "name"),
            seq=fields.whole(data, "seq"),
            try_no=fields.whole(data, "try"),
            codes=fields.texts(data, "codes"),
            score=score,
        )


@dataclass(frozen=True, slots=True)
class GuessRefused:
    """An accepted guess is voided and its try given back, for example because it came after the crack."""

    kind: ClassVar[str] = "guess.refused"
    guess: str
    player: str
    name: str
    seq: int
    reason: str

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {
            "v": VERSION,
            "guess": self.guess,
            "player": self.player,
            "name": self.name,
            "seq": self.seq,
            "reason": self.reason,
        }

    @classmethod
    def from_data(cls, data: Data) -> "GuessRefused":
        """Read the event back."""
        return cls(
            guess=fields.text(data, "guess"),
            player=fields.text(data, "player"),
            name=fields.text(data, "name"),
            seq=fields.whole(data, "seq"),
            reason=fields.text(data, "reason"),
        )


@dataclass(frozen=True, slots=True)
class GameCracked:
    """A perfect guess was scored. A later event with a smaller `seq` takes the win: submission counts, not scoring."""

    kind: ClassVar[str] = "game.cracked"
    player: str
    seq: int
    guess: str

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {"v": VERSION, "player": self.player, "seq": self.seq, "guess": self.guess}

    @classmethod
    def from_data(cls, data: Data) -> "GameCracked":
        """Read the event back."""
        return cls(fields.text(data, "player"), fields.whole(data, "seq"), fields.text(data, "guess"))


@dataclass(frozen=True, slots=True)
class GameExhausted:
    """Everybody who plays is out of tries: the game closes at `until_ms` (Unix time) unless somebody joins before.

    `seq` is the last guess so far; a guess with a greater one is a newcomer's, and the game goes on.
    """

    kind: ClassVar[str] = "game.exhausted"
    seq: int
    until_ms: int

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {"v": VERSION, "seq": self.seq, "until_ms": self.until_ms}

    @classmethod
    def from_data(cls, data: Data) -> "GameExhausted":
        """Read the event back."""
        return cls(fields.whole(data, "seq"), fields.whole(data, "until_ms"))


@dataclass(frozen=True, slots=True)
class GameClosed:
    """The game is over and the secret known. Guesses with a seq above `cut` are void; `nonce` is hex."""

    kind: ClassVar[str] = "game.closed"
    reason: CloseReason
    secret: tuple[str, ...]
    nonce: str
    cut: int | None
    winner: str | None

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {
            "v": VERSION,
            "reason": self.reason,
            "secret": list(self.secret),
            "nonce": self.nonce,
            "cut": self.cut,
            "winner": self.winner,
        }

    @classmethod
    def from_data(cls, data: Data) -> "GameClosed":
        """Read the event back."""
        reason = fields.text(data, "reason")
        if reason not in CLOSE_REASONS:
            raise fields.DataError("reason", f"one of {', '.join(CLOSE_REASONS)}", reason)
        return cls(
            reason=reason,
            secret=fields.texts(data, "secret"),
            nonce=fields.text(data, "nonce"),
            cut=fields.whole_or_none(data, "cut"),
            winner=fields.text_or_none(data, "winner"),
        )


@dataclass(frozen=True, slots=True)
class GameSettled:
    """The final table; nothing follows."""

    kind: ClassVar[str] = "game.settled"
    standings: tuple[Standing, ...]

    def to_data(self) -> dict[str, object]:
        """Give the event as a JSON object."""
        return {"v": VERSION, "standings": [standing.to_data() for standing in self.standings]}

    @classmethod
    def from_data(cls, data: Data) -> "GameSettled":
        """Read the event back."""
        lines = (fields.as_data(line, "standings") for line in fields.items(data, "standings"))
        return cls(tuple(Standing.from_data(line) for line in lines))


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a kind that this version does not know; it changes nothing."""

    kind: str


Event = (
    GameOpened
    | GuessAccepted
    | GuessScored
    | GuessRefused
    | GameCracked
    | GameExhausted
    | GameClosed
    | GameSettled
    | UnknownEvent
)

_READERS: Mapping[str, Callable[[Data], Event]] = MappingProxyType(
    {
        GameOpened.kind: GameOpened.from_data,
        GuessAccepted.kind: GuessAccepted.from_data,
        GuessScored.kind: GuessScored.from_data,
        GuessRefused.kind: GuessRefused.from_data,
        GameCracked.kind: GameCracked.from_data,
        GameExhausted.kind: GameExhausted.from_data,
        GameClosed.kind: GameClosed.from_data,
        GameSettled.kind: GameSettled.from_data,
    }
)


def event_from(kind: str, data: Data) -> Event:
    """Read an event of any kind; an unknown kind gives an `UnknownEvent`.

    Raises `DataError` for a malformed field and `EventVersionError` for a version above ours.
    """
    reader = _READERS.get(kind)
    if reader is None:
        return UnknownEvent(kind)
    version = fields.whole(data, "v") if "v" in data else VERSION
    if version > VERSION:
        raise EventVersionError(f"{kind} has version {version}, this program reads {VERSION}; upgrade it first")
    return reader(data)
