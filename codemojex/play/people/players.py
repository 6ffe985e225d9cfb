"""Players: the people who play, by their Telegram user id.

The mapping user → player lives in Valkey for 90 days after its last use, with the durable store behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from codemojex.play import keys, mappings
from codemojex.play.context import Play
from codemojex.play.people import input_checks
from codemojex.store.history import find_player


class Player(msgspec.Struct, frozen=True):
    """A person. `name` is as Telegram shows it (unescaped); `lang` is the language to talk to them.

    `chosen` tells whether they chose it themselves; `rev` grows with every change.
    """

    id: str
    user_id: int
    name: str
    lang: str
    chosen: bool = False
    rev: int = 0


async def player_for(play: Play, user_id: int, name: str, lang: str) -> Player:
    """The player of a user, made on first sight; a changed name is stored, a language only if none was chosen.

    Raises StoreUnavailable when Valkey does not know the user and the durable store cannot be asked, and InvalidValue
    for an id that no person has. A name and a language that cannot be kept are made fit.
    """
    name, lang = input_checks.name(name), input_checks.language(lang)
    player = await find(play, user_id)
    if player is not None and player.name == name and (player.chosen or player.lang == lang):
        return player
    place = keys.user(play.options, user_id)
    player_id = player.id if player else await mappings.bind(play, place, play.mint.mint("PLR"))
    return await _remember(play, player_id, user_id=user_id, name=name, hint=lang)


async def find(play: Play, user_id: int) -> Player | None:
    """The player of a user if there is one. Raises StoreUnavailable as `player_for` does."""
    table, user_id = play.caches.players, input_checks.user_id(user_id)
    if table is None:
        return await load_user(play, user_id)
    return (await table.get(mappings.entry(play, str(user_id)))).value


async def get(play: Play, player_id: str) -> Player | None:
    """The player by id, or None when Valkey has forgotten them."""
    table = play.caches.players
    if table is None:
        return await load(play, player_id)
    return (await table.get(mappings.entry(play, player_id))).value


async def get_many(play: Play, player_ids: Iterable[str]) -> dict[str, Player]:
    """Those of the players that Valkey knows, by id, in one round trip past every cache."""
    wanted = list(dict.fromkeys(player_ids))
    found = await mappings.read_many(play, [keys.player(play.options, player_id) for player_id in wanted])
    return {
        player_id: _player(player_id, fields)
        for player_id, fields in zip(wanted, found, strict=True)
        if "user_id" in fields
    }


async def set_language(play: Play, player_id: str, lang: str) -> Player | None:
    """Choose the language; from now on Telegram's own hint is ignored. None when the player is not known."""
    if await get(play, player_id) is None:
        return None
    return await _remember(play, player_id, lang=input_checks.language(lang))


async def load_user(play: Play, user_id: int) -> Player | None:
    """Find the player of a user past every cache, in Valkey, then in the durable store, and keep them alive."""
    place = keys.user(play.options, user_id)
    player_id = await mappings.bound(play, place)
    if player_id is not None and (player := await load(play, player_id)) is not None:
        return player
    archived = await find_player(play.store, user_id)
    if archived is None:
        return None
    player_id = await mappings.bind(play, place, archived.id)
    fields = {"user_id": user_id, "name": archived.name, "hint": archived.lang}
    return _player(player_id, await mappings.remember(play, keys.player(play.options, player_id), **fields))


async def load(play: Play, player_id: str) -> Player | None:
    """Read the player past every cache, which counts as their use."""
    fields = await mappings.read(play, keys.player(play.options, player_id))
    return _player(player_id, fields) if "user_id" in fields else None


async def _remember(play: Play, player_id: str, **fields: str | int) -> Player:
    player = _player(player_id, await mappings.remember(play, keys.player(play.options, player_id), **fields))
    if (table := play.caches.players) is not None:
        await table.put(mappings.entry(play, player_id), player, player.rev)
        await table.put(mappings.entry(play, str(player.user_id)), player, player.rev)
    return player


def _player(player_id: str, fields: dict[str, str]) -> Player:
    return Player(
        id=player_id,
        user_id=int(fields["user_id"]),
        name=fields.get("name", ""),
        lang=fields.get("lang") or fields.get("hint", ""),
        chosen="lang" in fields,
        rev=int(fields.get("rev", "1")),
    )
