"""Outside names and what they are known as: chat → room, user → player, and the hashes behind those ids.

Every key lives for `Options.mapping_keep_ms` after its last use. What is lost is found again in the durable store or
made anew; nothing of a game hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from codemojex.play.commands import LUA
from codemojex.play.context import Play


async def bound(play: Play, place: str) -> str | None:
    """The id bound to a place, which counts as its use."""
    found = await play.bus.run(LUA.script("bind"), [place], ["", play.options.mapping_keep_ms])
    return None if found is None else found.decode()


async def bind(play: Play, place: str, branded_id: str) -> str:
    """Bind a place to `branded_id` unless it is bound already; the id that it is bound to in the end."""
    found = await play.bus.run(LUA.script("bind"), [place], [branded_id, play.options.mapping_keep_ms])
    return found.decode()


async def remember(play: Play, key: str, **fields: str | int) -> dict[str, str]:
    """Write the fields that differ, in one step; the whole hash afterwards."""
    pairs = [part for pair in fields.items() for part in pair]
    return _text(await play.bus.run(LUA.script("remember"), [key], [play.options.mapping_keep_ms, *pairs]))


async def read(play: Play, key: str) -> dict[str, str]:
    """The whole hash, which counts as its use; empty when it is not known."""
    return await remember(play, key)


async def read_many(play: Play, keys: Sequence[str]) -> list[dict[str, str]]:
    """Many hashes in one round trip."""
    return [_text(reply) for reply in await play.bus.all([("HGETALL", key) for key in keys])]


def entry(play: Play, name: str) -> str:
    """The near-cache entry of an outside name or an id; deployments that share a server do not share entries."""
    return f"{play.options.guesses}:{name}"


def _text(reply: object) -> dict[str, str]:
    # A script's reply is a flat list, a command's a map.
    if isinstance(reply, list):
        flat = cast("list[bytes]", reply)
        reply = dict(zip(flat[::2], flat[1::2], strict=True))
    return {name.decode(): value.decode() for name, value in cast("Mapping[bytes, bytes]", reply).items()}
