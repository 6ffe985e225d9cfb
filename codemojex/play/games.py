"""Games: opened once per room, read as snapshots that never hold the secret.

Opening is one script: the room gets its one live game, the secret goes into a key of its own, the first event is
written and the deadline is scheduled, all or nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, cast

import msgspec

from codemojex.game.closing import joining_ms
from codemojex.game.commitment import NONCE_BYTES, commit
from codemojex.game.events import VERSION
from codemojex.game.presets import GameSettings
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play
from codemojex.play.people.players import Player
from codemojex.play.rooms import Room
from codemojex.play.unlogged import hide

State = Literal["open", "closing", "closed", "settled"]


class GameSnapshot(msgspec.Struct, frozen=True):
    """What may be known of a game without its stream. Times are Unix ms by the server's clock.

    `rev` grows with every change of state; `cut` (the last seq that counts), `reason` and `winner` (a player's id) are
    None before they exist. Where the room is at present is told by `rooms.get`, for chats migrate.
    """

    id: str
    room: str
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

    game: GameSnapshot
    again: bool = False


@dataclass(frozen=True, slots=True)
class AlreadyLive:
    """The room has a live game already; nothing was changed."""

    game_id: str


@dataclass(frozen=True, slots=True)
class Full:
    """No game begins while `waiting` finished ones are not archived: they live in the server's memory until then."""

    waiting: int


async def open_game(
    play: Play, room: Room, starter: Player, settings: GameSettings, request: str
) -> Opened | AlreadyLive | Full:
    """Open a game in `room` with a fresh secret. `request` names the act: the same one again opens nothing new.

    Requests are remembered for a day. The deadline counts from the server's present instant.
    """
    options = play.options
    if options.game_duration_s is not None:
        settings = replace(settings, duration_s=options.game_duration_s)
    game_id = keys.mint_game(play, room.id)
    tokens = secrets.SystemRandom().sample(settings.palette, settings.length)
    nonce = secrets.token_bytes(NONCE_BYTES)
    digest = commit(tokens, nonce)
    event = {
        "v": VERSION,
        "settings": settings.to_data(),
        "commitment": digest,
        "room": room.id,
        "starter": starter.id,
    }
    home = keys.queue(options, room.id)
    verdict, found = await play.bus.run(
        LUA.script("open"),
        [*keys.of_game(options, game_id, room.id), keys.opened(home, room.id, request)],
        [
            game_id,
            room.id,
            starter.id,
            msgspec.json.encode(settings.to_data()),
            settings.tries,
            settings.duration_s * 1000,
            digest,
            msgspec.json.encode(event)[:-1],
            keys.script_node(options, room.id),
            play.mint.mint("JOB"),
            play.mint.mint("JOB"),
            play.mint.mint("JOB"),
            joining_ms(settings),
            options.live_keep_ms,
            options.said_window_ms,
            options.mapping_keep_ms,
            options.share(options.max_unarchived),
            hide(nonce.hex()),
            hide(msgspec.json.encode(tokens).decode()),
        ],
    )
    if verdict == b"full":
        return Full(int(found))
    if verdict == b"live":
        return AlreadyLive(found.decode())
    game = await refresh(play, found.decode())
    if game is None:
        # A repeated request for a game that has been archived and forgotten meanwhile.
        return AlreadyLive(found.decode())
    return Opened(game, again=verdict == b"again")


async def live_game(play: Play, room_id: str) -> GameSnapshot | None:
    """The room's live game, or None."""
    live, _ = await _of_room(play, room_id)
    return None if live is None else await snapshot(play, live)


async def last_game_id(play: Play, room_id: str) -> str | None:
    """The id of the room's live or last game, archived ones included; pass it to `views.view`."""
    return (await _of_room(play, room_id))[1]


async def _of_room(play: Play, room_id: str) -> tuple[str | None, str | None]:
    """The ids of the room's live and last game."""
    place = keys.room(keys.queue(play.options, room_id), room_id)
    live, last = await play.bus.execute("HMGET", place, "live", "last")
    return live and live.decode(), last and last.decode()


async def snapshot(play: Play, game_id: str) -> GameSnapshot | None:
    """The game as the near-cache knows it; None when its live keys are gone (see `views.view`)."""
    table = play.caches.games
    return await read(play, game_id) if table is None else (await table.get(game_id)).value


async def refresh(play: Play, game_id: str) -> GameSnapshot | None:
    """Read the game past every cache, and tell the caches of all processes what was read."""
    found = await read(play, game_id)
    if found is not None and play.caches.games is not None:
        await play.caches.games.put(game_id, found, found.rev)
    return found


async def read(play: Play, game_id: str) -> GameSnapshot | None:
    """Read the game from its hash."""
    fields: dict[bytes, bytes] = await play.bus.execute(
        "HGETALL", keys.game(keys.queue(play.options, game_id), game_id)
    )
    # Without an id something wrote to a game that had just expired.
    return _snapshot({name.decode(): value.decode() for name, value in fields.items()}) if b"id" in fields else None


def _snapshot(fields: Mapping[str, str]) -> GameSnapshot:
    return GameSnapshot(
        id=fields["id"],
        room=fields["room"],
        starter=fields["starter"],
        settings=_settings(fields["settings"]),
        commitment=fields["commitment"],
        state=cast("State", fields["state"]),
        opened_ms=int(fields["opened_ms"]),
        deadline_ms=int(fields["deadline_ms"]),
        rev=int(fields["rev"]),
        cut=int(fields["cut"]) if "cut" in fields else None,
        reason=fields.get("reason"),
        winner=fields.get("winner"),
    )


@lru_cache(maxsize=1024)
def _settings(text: str) -> GameSettings:
    """Settings are checked emoji by emoji when they are made; the same text is checked once."""
    return GameSettings.from_data(msgspec.json.decode(text))
