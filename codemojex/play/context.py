"""What every verb of this package is given first: the connections, the clock and the options of one process.

`app.py` builds one `Play`; tests build another. Nothing here does anything by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from codemojex.engine.clock import Clock
from codemojex.engine.connector import Connector
from codemojex.engine.ids import Minter
from codemojex.play.folds import Folds
from codemojex.store.engine import Store

if TYPE_CHECKING:
    from codemojex.engine.near_cache import Table

    from .games import Snapshot
    from .players import Player
    from .rooms import Room
    from .sessions import Session


@dataclass(frozen=True, slots=True)
class Options:
    """How games are run; every default is what the program uses.

    `guesses` and `outbound` are queue names. `partitions` spreads rooms over the queues `cm`, `cm.1`, …; it may only
    change while no game is live. `max_waiting` bounds the guesses of one game that wait for their score.
    `game_duration_s` is how long every new game lasts; None leaves it to the game's settings.
    """

    guesses: str = "cm"
    outbound: str = "cm.out"
    partitions: int = 1
    lane_by: Literal["room", "player"] = "room"
    max_waiting: int = 25_000
    cooldown_ms: int = 0
    game_duration_s: int | None = None
    votes_needed: int = 3
    vote_window_ms: int = 300_000
    live_keep_ms: int = 7 * 86_400_000
    archived_keep_ms: int = 3_600_000
    mapping_keep_ms: int = 90 * 86_400_000
    said_window_ms: int = 86_400_000
    result_window_ms: int = 7 * 86_400_000

    def __post_init__(self) -> None:
        if len(self.guesses) > 32:
            raise ValueError(f"the queue name {self.guesses!r} is too long: use up to 32 characters")
        if not 1 <= self.partitions <= 256:
            raise ValueError(f"partitions is {self.partitions}: use 1 to 256")
        if self.votes_needed < 1 or self.max_waiting < 1:
            raise ValueError("votes_needed and max_waiting must be at least 1")
        for name in ("vote_window_ms", "live_keep_ms", "archived_keep_ms", "mapping_keep_ms", "said_window_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1 millisecond")


@dataclass(frozen=True, slots=True)
class Caches:
    """The near-cache tables of this package, made by `caches.with_caches`. Without one, reads go to the source."""

    games: Table[Snapshot] | None = None
    rooms: Table[Room] | None = None
    players: Table[Player] | None = None
    sessions: Table[Session] | None = None


@dataclass(frozen=True, slots=True)
class Play:
    """One process's access to the game: pass it first, everywhere."""

    bus: Connector
    mint: Minter
    clock: Clock
    store: Store
    caches: Caches = field(default_factory=Caches)
    options: Options = field(default_factory=Options)
    folds: Folds = field(default_factory=Folds)
