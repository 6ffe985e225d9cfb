"""Sessions: what one player is doing in one conversation. Kept in the near-cache, changed by compare-and-swap.

A session is a convenience: when it is lost, the player starts the draft anew and no game suffers.
"""

from __future__ import annotations

import msgspec

from codemojex.engine import ids

_ATTEMPTS = 8


class Session(msgspec.Struct, frozen=True):
    """A player's session in a conversation. `draft` holds a token or None per position; `locks` pins positions.

    `state` and `data` belong to the bot's dialogues (its FSM storage). `rev` is the near-cache's version.
    """

    draft: tuple[str | None, ...] = ()
    locks: dict[int, str] = {}
    preset: str = ""
    lang: str = ""
    game: str = ""
    composer_chat_id: int = 0
    composer_message_id: int = 0
    state: str = ""
    data: dict[str, object] = {}
    rev: int = 0


def session_id(player_id: str, chat_id: int, thread_id: int | None) -> str:
    """The session's branded id: the same player in the same conversation always has the same."""
    return ids.derive("SES", f"{player_id}:{chat_id}:{thread_id or 0}")
