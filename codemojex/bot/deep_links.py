"""Links that open the private chat at the right place: `t.me/<bot>?start=g_<GAM>` composes for that game."""

from __future__ import annotations

import re

_GAME = re.compile(r"g_(GAM[0-9A-Za-z]{11})")


def game_link(bot_username: str, game_id: str) -> str:
    """The address that opens the composer of a game."""
    return f"https://t.me/{bot_username}?start=g_{game_id}"


def read_payload(payload: str | None) -> str | None:
    """The game of a `/start` payload; None when it names none."""
    match = _GAME.fullmatch((payload or "").strip())
    return match[1] if match else None
