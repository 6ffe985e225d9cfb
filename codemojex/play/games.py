"""Games: opened once per room, read as snapshots that never hold the secret.

Opening is one script: the room gets its one live game, the secret goes into a key of its own, the first event is
written and the deadline is scheduled, all or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from codemojex.game.presets import GameSettings

from .context import Play
from .players import Player
from .rooms import Room

State = Literal["open", "closing", "closed", "settled"]


class Snapshot(msgspec.Struct, frozen=True):
    """What may be known of a game without its stream. Times are Unix ms by the server's clock.

    `rev` grows with every change of state; `cut`, `reason` and `winner` are None before they exist.
    """

    id: str
    room: str
    chat_id: int
    thread_id: int | None
    starter: str
    settings: GameSettings
    commitment: str
    state: State
    opened_ms: int
    deadline_ms: int
    rev: int
    cut: int | None = None
    reason: str | None = None
    winner: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The game is live; `again` tells a repeated request, answered as the first time."""

    game: Snapshot
    again: bool = False


@dataclass(frozen=True, slots=True)
class AlreadyLive:
    """The room has a live game already; nothing was changed."""

    game_id: str


async def open_game(
    play: Play, room: Room, starter: Player, settings: GameSettings, request: str
) -> Opened | AlreadyLive:
    """Open a game in `room` with a fresh secret. `request` names the act: the same one again opens nothing new."""
    raise NotImplementedError


async def snapshot(play: Play, game_id: str) -> Snapshot | None:
    """The game as the near-cache knows it; None when its live keys are gone (see `views.view`)."""
    raise NotImplementedError


async def live_game(play: Play, room_id: str) -> Snapshot | None:
    """The room's live game, or None."""
    raise NotImplementedError


async def last_game(play: Play, room_id: str) -> Snapshot | None:
    """The room's live game or, without one, the game that was closed last; None when its live keys are gone."""
    raise NotImplementedError


async def last_game_id(play: Play, room_id: str) -> str | None:
    """The id of the room's live or last game, archived ones included; pass it to `views.view`."""
    raise NotImplementedError


async def refresh(play: Play, game_id: str) -> Snapshot | None:
    """Read the game past every cache and put what was read into them."""
    raise NotImplementedError
