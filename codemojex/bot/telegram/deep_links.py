"""Links that open the private chat at the right place: `t.me/<bot>?start=g_<GAM>` composes for that game."""

from __future__ import annotations

from codemojex.play.people import input_checks

_GAME = "g_"


def game_link(bot_username: str, game_id: str) -> str:
    """The address that opens the composer of a game."""
    return f"https://t.me/{bot_username}?start=g_{game_id}"


def read_payload(payload: str | None) -> str | None:
    """The game of a `/start` payload; None when it names none."""
    text = (payload or "").strip()
    return input_checks.game_id(text.removeprefix(_GAME)) if text.startswith(_GAME) else None
