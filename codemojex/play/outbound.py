"""Orders to tell somebody something: jobs on the outbound queue, one lane per chat.

Every order is named, so that a repeated handler tells nothing twice. Boards and composers that wait are coalesced:
at most one waits per game or player. Sending is the bot's work.
"""

from __future__ import annotations

from dataclasses import dataclass

from .context import Play
from .games import Snapshot
from .messages import Markup


@dataclass(frozen=True, slots=True)
class Sent:
    """The game's board message as it was sent last; `digest` is the sender's own digest of its text and markup."""

    chat_id: int
    message_id: int
    digest: str
    at_ms: int


async def say(
    play: Play,
    chat_id: int,
    thread_id: int | None,
    text: str,
    *,
    key: str,
    reply_to: int | None = None,
    markup: Markup | None = None,
) -> bool:
    """Order `text` (HTML) for a chat. `key` names it; the same key within a day is ignored and answers False."""
    raise NotImplementedError


async def edit(play: Play, chat_id: int, message_id: int, text: str, *, key: str, markup: Markup | None = None) -> bool:
    """Order the replacement of one of the bot's messages; named like `say`."""
    raise NotImplementedError


async def board(play: Play, game: Snapshot, *, fresh: bool = False) -> bool:
    """Order the game's board; False when one waits already. `fresh` wants a new message below the talk."""
    raise NotImplementedError


async def result(play: Play, game: Snapshot, event_id: str) -> bool:
    """Order the announcement of the game's end, once per event."""
    raise NotImplementedError


async def composer(
    play: Play, player_id: str, game_id: str, chat_id: int, thread_id: int | None, *, message_id: int | None = None
) -> bool:
    """Order the player's guess builder in a chat; False when one waits already."""
    raise NotImplementedError


async def sent_board(play: Play, game_id: str) -> Sent | None:
    """Where the game's board stands, or None when none was sent (or it was forgotten)."""
    raise NotImplementedError


async def board_was_sent(play: Play, game_id: str, sent: Sent) -> bool:
    """Remember where the board stands; an older message never replaces a newer one of the same chat."""
    raise NotImplementedError


async def forget_board(play: Play, game_id: str, message_id: int) -> None:
    """The message is gone: the next board is a new one. Another message's record stays."""
    raise NotImplementedError
