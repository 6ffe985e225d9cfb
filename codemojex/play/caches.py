"""The near-cache tables of the game: what they hold, for how long, and where it comes from when they do not have it.

Games, rooms and players are read through: their truth is a hash in Valkey, with the store behind rooms and players,
and their version is that hash's revision. Sessions have no other home. No table ever holds a secret.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Protocol, TypeVar

from codemojex.engine.cache.near_cache import CacheOptions, Loaded, NearCache, struct_codec
from codemojex.play import games, rooms
from codemojex.play.context import Caches, Play, namespaced
from codemojex.play.games import GameSnapshot
from codemojex.play.people import players
from codemojex.play.people.players import Player
from codemojex.play.people.sessions import Session
from codemojex.play.rooms import Room

GAME_TTL_S = 300.0
PLACE_TTL_S = 3_600.0  # the hashes behind live 90 days after their last use, and a load is a use
SESSION_TTL_S = 30 * 86_400.0


class _Versioned(Protocol):
    @property
    def rev(self) -> int: ...


T = TypeVar("T", bound=_Versioned)


def with_caches(play: Play, near: NearCache, *, max_entries: int = 10_000) -> Play:
    """The same `play` with its tables in `near`, which must be entered before the first read. Call it once."""

    async def game(entry: str) -> Loaded[GameSnapshot] | None:
        return await _loaded(games.read(play, entry))

    async def room(entry: str) -> Loaded[Room] | None:
        name = entry.removeprefix(f"{play.options.guesses}:")
        if name.startswith("ROM"):
            return await _loaded(rooms.load(play, name))
        chat_id, _, thread_id = name.partition(":")
        return await _loaded(rooms.load_place(play, int(chat_id), int(thread_id) or None))

    async def player(entry: str) -> Loaded[Player] | None:
        name = entry.removeprefix(f"{play.options.guesses}:")
        if name.startswith("PLR"):
            return await _loaded(players.load(play, name))
        return await _loaded(players.load_user(play, int(name)))

    def options(ttl_s: float, l2_timeout_ms: int = 500) -> CacheOptions:
        return CacheOptions(ttl_s=ttl_s, max_entries=max_entries, l2_timeout_ms=l2_timeout_ms)

    def named(table: str) -> str:
        return namespaced(play.options.namespace, table)

    lasting = options(SESSION_TTL_S, 5_000)  # there is nowhere else to look, so wait for Valkey
    tables = Caches(
        games=near.table(
            named("games"), codec=struct_codec(GameSnapshot), loader=game, kinds={"GAM"}, options=options(GAME_TTL_S)
        ),
        rooms=near.table(named("rooms"), codec=struct_codec(Room), loader=room, options=options(PLACE_TTL_S)),
        players=near.table(named("players"), codec=struct_codec(Player), loader=player, options=options(PLACE_TTL_S)),
        sessions=near.table(named("sessions"), codec=struct_codec(Session), kinds={"SES"}, options=lasting),
    )
    return replace(play, caches=tables)


async def _loaded(reading: Awaitable[T | None]) -> Loaded[T] | None:
    found = await reading
    return None if found is None else Loaded(found, found.rev)
