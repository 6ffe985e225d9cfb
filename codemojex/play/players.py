"""Players: the people who play, by their Telegram user id.

The mapping user → player lives in Valkey for 90 days after its last use, with the durable store behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from codemojex.store.history import find_player

from . import keys
from .context import Play
from .mappings import bind, bound, read, read_many, remember


class Player(msgspec.Struct, frozen=True):
    """A person. `name` is as Telegram shows it (unescaped); `lang` is the language to talk to them."""

    id: str
    user_id: int
    name: str
    lang: str
    rev: int = 0


async def player_for(play: Play, user_id: int, name: str, lang: str) -> Player:
    """The player of a user, made on first sight; a changed name is stored, a language only if none was chosen.

    Raises StoreUnavailable when Valkey does not know the user and the durable store cannot be asked.
    """
    place = keys.user(play.options, user_id)
    player_id = await bound(play, place)
    chosen = ""
    if player_id is None:
        archived = await find_player(play.store, user_id)
        player_id = await bind(play, place, archived.id if archived else play.mint.mint("PLR"))
        chosen = archived.lang if archived else ""
    fields: dict[str, str | int] = {"user_id": user_id, "name": name, "hint": lang}
    if chosen and chosen != lang:
        fields["lang"] = chosen
    return _player(player_id, await remember(play, keys.player(play.options, player_id), **fields))


async def get(play: Play, player_id: str) -> Player | None:
    """The player by id, or None when Valkey has forgotten them."""
    fields = await read(play, keys.player(play.options, player_id))
    return _player(player_id, fields) if "user_id" in fields else None


async def get_many(play: Play, player_ids: Iterable[str]) -> dict[str, Player]:
    """Those of the players that Valkey knows, by id, in one round trip."""
    wanted = list(dict.fromkeys(player_ids))
    found = await read_many(play, [keys.player(play.options, player_id) for player_id in wanted])
    return {
        player_id: _player(player_id, fields)
        for player_id, fields in zip(wanted, found, strict=True)
        if "user_id" in fields
    }


async def set_language(play: Play, player_id: str, lang: str) -> Player | None:
    """Choose the language; from now on Telegram's own hint is ignored. None when the player is not known."""
    if await get(play, player_id) is None:
        return None
    return _player(player_id, await remember(play, keys.player(play.options, player_id), lang=lang))


def _player(player_id: str, fields: dict[str, str]) -> Player:
    return Player(
        id=player_id,
        user_id=int(fields["user_id"]),
        name=fields.get("name", ""),
        lang=fields.get("lang") or fields.get("hint", ""),
        rev=int(fields.get("rev", "0")),
    )
