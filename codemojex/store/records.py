"""What goes into the durable store and comes out of it, as plain frozen dataclasses.

Ids are branded text of 14 characters, times are aware datetimes, Telegram's ids are 64-bit integers.
The classes refuse what no database would keep faithfully (naive times, text with NUL); whether the rows agree
with each other is checked by the tables' constraints.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

JsonObject = Mapping[str, Any]  # Any: whatever JSON can say; its meaning belongs to the event's kind and version


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One record of a game's stream: branded id (`EVT…`), kind (`guess.scored`), payload version, game, payload.

    `data` is what JSON gives back: string keys, lists, numbers, text; tuples would come back as lists.
    """

    id: str
    kind: str
    v: int
    game: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class ArchivedPlayer:
    """A person; `created_at` None means unknown: the first game that names the player sets it to its own opening."""

    id: str
    user_id: int
    name: str
    lang: str
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        _check_text(self.id, name=self.name, lang=self.lang)
        _check_times(self.id, created_at=self.created_at)


@dataclass(frozen=True, slots=True)
class ArchivedRoom:
    """A place to play; `thread_id` None means the chat itself and not one of its topics."""

    id: str
    chat_id: int
    thread_id: int | None
    kind: str
    title: str

    def __post_init__(self) -> None:
        _check_text(self.id, kind=self.kind, title=self.title)


@dataclass(frozen=True, slots=True)
class ArchivedGuess:
    """One accepted guess; scores are None where the game did not compute them, `total` only if the guess is void.

    `tiles` is one letter per position, `G`, `Y` or `-`. A void guess came after the cut and counts for nothing.
    """

    id: str
    player: str
    seq: int
    try_no: int
    code: tuple[str, ...]
    total: int | None
    exact: int | None = None
    misplaced: int | None = None
    tiles: str | None = None
    void: bool = False


@dataclass(frozen=True, slots=True)
class ArchivedStanding:
    """One player's place in one game; `best_seq` None means that no guess of the player counted."""

    player: str
    rank: int
    best_total: int
    best_seq: int | None
    tries: int
    points: int
    cracked: bool


@dataclass(frozen=True, slots=True)
class ArchivedGame:
    """A whole game with its room, the players that its rows name, its guesses by seq and its standings by rank.

    `state` is `live`, `closed` or `settled`; `secret`, `nonce`, `reason` and `closed_at` are set exactly when it is not
    live. `cut` is the seq of the winning guess, None when nobody cracked the code.
    """

    id: str
    room: ArchivedRoom
    players: tuple[ArchivedPlayer, ...]
    preset: str
    mode: str
    settings: JsonObject
    commitment: str
    secret: tuple[str, ...] | None
    nonce: str | None
    state: str
    reason: str | None
    winner: str | None
    opened_at: datetime
    closed_at: datetime | None
    cut: int | None
    guesses: tuple[ArchivedGuess, ...] = ()
    standings: tuple[ArchivedStanding, ...] = ()

    def __post_init__(self) -> None:
        _check_times(self.id, opened_at=self.opened_at, closed_at=self.closed_at)


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a stream is archived: every record up to `id` is sealed.

    `epoch` counts the committed changes of the stream's archive, so that a swap expecting an old state always fails.
    """

    id: str
    epoch: int


def _check_text(owner: str, **fields: str) -> None:
    for field, text in fields.items():
        if "\0" in text:
            raise ValueError(f"{owner}: {field} holds a NUL character, which PostgreSQL cannot store; remove it")


def _check_times(owner: str, **fields: datetime | None) -> None:
    for field, moment in fields.items():
        if moment is not None and moment.tzinfo is None:
            raise ValueError(f"{owner}: {field} has no time zone; pass an aware datetime in UTC")
