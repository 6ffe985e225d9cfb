"""Where the boards stand: the message that shows a game, as the sender noted it.

Kept in the slot of the outbound queue, so that noting it can be part of the acknowledgement of the job that sent it.
"""

from __future__ import annotations

from dataclasses import dataclass

from codemojex.engine.jobs.effects import Effect
from codemojex.engine.scripts import EffectBody
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play


@dataclass(frozen=True, slots=True)
class Sent:
    """A game's board message as it was sent last; `digest` is the sender's own digest of its text and markup."""

    chat_id: int
    message_id: int
    digest: str
    at_ms: int


async def sent_board(play: Play, game_id: str) -> Sent | None:
    """Where the game's board stands, or None when none was sent (or it was forgotten)."""
    fields: dict[bytes, bytes] = await play.bus.execute("HGETALL", keys.sent(play.options, game_id))
    if not fields:
        return None
    return Sent(int(fields[b"chat_id"]), int(fields[b"message_id"]), fields[b"digest"].decode(), int(fields[b"at_ms"]))


async def board_was_sent(play: Play, game_id: str, sent: Sent) -> bool:
    """Note where the board stands at once; an older message never replaces a newer one of the same chat."""
    return bool(await play.bus.run(LUA.script("board_sent"), [keys.sent(play.options, game_id)], _args(play, sent)))


def board_sent_effect(play: Play, game_id: str, sent: Sent) -> Effect:
    """The same as an effect for the job's `Complete`; the sender's worker must know `effects()`."""
    return Effect("board_sent", [keys.sent(play.options, game_id)], _args(play, sent))


def effects() -> tuple[EffectBody, ...]:
    """The bodies that a worker of the outbound queue must know."""
    return (LUA.body("board_sent"),)


async def forget_board(play: Play, game_id: str, message_id: int) -> bool:
    """The message is gone: the next board is a new one. Another message's note stays, and the answer is False."""
    return bool(await play.bus.run(LUA.script("forget_board"), [keys.sent(play.options, game_id)], [message_id]))


def _args(play: Play, sent: Sent) -> list[str | int]:
    return [sent.chat_id, sent.message_id, sent.digest, sent.at_ms, play.options.live_keep_ms]
