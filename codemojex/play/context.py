"""What every verb of this package is given first: the connections, the clock and the options of one process.

`app.py` builds one `Play`; tests build another. Nothing here does anything by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from codemojex.engine import keyspace, validation
from codemojex.engine.clock import Clock
from codemojex.engine.ids import Minter
from codemojex.engine.transport.connector import Connector
from codemojex.play.views.folds import Folds
from codemojex.store.engine import Store

if TYPE_CHECKING:
    from codemojex.engine.cache.near_cache import Table
    from codemojex.play.games import GameSnapshot
    from codemojex.play.people.players import Player
    from codemojex.play.people.sessions import Session
    from codemojex.play.rooms import Room

_YEAR_MS = 366 * 86_400_000
_RANGES = {
    "partitions": (1, 256),
    "max_waiting": (1, 1_000_000),
    "cooldown_ms": (0, _YEAR_MS),
    "votes_needed": (1, 1_000_000),
    "vote_window_ms": (1, _YEAR_MS),
    "live_keep_ms": (1, _YEAR_MS),
    "archived_keep_ms": (1, _YEAR_MS),
    "mapping_keep_ms": (1, _YEAR_MS),
    "max_unarchived": (1, 1_000_000),
    "said_window_ms": (1, _YEAR_MS),
    "result_window_ms": (1, _YEAR_MS),
}


@dataclass(frozen=True, slots=True)
class Options:
    """How games are run; every default is what the program uses.

    `guesses`, `inbox` and `outbound` are queue names; in a namespace `namespaced` makes them. `partitions` spreads
    rooms over the queues `cm`, `cm.1`, …; it may only change while no game is live. `max_waiting` bounds the guesses of
    one game that wait for their score, `max_unarchived` the finished games of all partitions that wait for the archive:
    beyond it no new game begins. `game_duration_s` is how long every new game lasts; None leaves it to the game's
    settings.
    """

    namespace: str = ""
    guesses: str = "cm"
    inbox: str = "cm.in"
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
    max_unarchived: int = 10_000

    def __post_init__(self) -> None:
        keyspace.of(self.inbox)
        keyspace.of(self.outbound)
        validation.text("the queue name", keyspace.of(self.guesses).queue, 1, 32)
        validation.choice("lane_by", self.lane_by, "room", "player")
        for name, (low, high) in _RANGES.items():
            validation.integer(name, getattr(self, name), low, high)
        if self.game_duration_s is not None:
            validation.integer("game_duration_s", self.game_duration_s, 1, _YEAR_MS // 1000)

    def share(self, whole: int) -> int:
        """One partition's part of a bound over all of them."""
        return max(1, whole // self.partitions)


def namespaced(namespace: str, name: str) -> str:
    """The name of a queue or a table in a namespace; without one, the name itself."""
    return f"{namespace}.{name}" if namespace else name


@dataclass(frozen=True, slots=True)
class Caches:
    """The near-cache tables of this package, made by `caches.with_caches`. Without one, reads go to the source."""

    games: Table[GameSnapshot] | None = None
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
