"""Players: the people who play, by their Telegram user id.

The mapping user → player lives in Valkey for 90 days after its last use, with the durable store behind it.
"""

from __future__ import annotations

import msgspec

from .context import Play


class Player(msgspec.Struct, frozen=True):
    """A person. `name` is as Telegram shows it (unescaped); `lang` is the language to talk to them."""

    id: str
    user_id: int
    name: str
    lang: str
    rev: int = 0


async def player_for(play: Play, user_id: int, name: str, lang: str) -> Player:
    """The player of a user, made on first sight; a changed name is stored, a language only if none was chosen."""
    raise NotImplementedError


async def get(play: Play, player_id: str) -> Player | None:
    """The player by id, or None when neither Valkey nor the durable store knows them."""
    raise NotImplementedError


async def set_language(play: Play, player_id: str, lang: str) -> Player | None:
    """Choose the language; from now on Telegram's own hint is ignored."""
    raise NotImplementedError
