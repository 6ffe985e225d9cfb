"""Where the private composers of a game stand: one message for each player who plays a group's game with buttons.

Kept in the slot of the outbound queue, next to the note of the board. Composers follow the board: whoever brings the
board to its chat orders them. At most `LIMIT` players of a game are noted; the message of somebody beyond that is
redrawn by their own presses only.
"""

from __future__ import annotations

from typing import cast

import msgspec

from codemojex.engine.jobs.jobs import Dedup
from codemojex.play import games, keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play
from codemojex.play.outbound import orders as outbound
from codemojex.play.outbound.messages import Message

LIMIT = 1_000  # composers of one game
FOLLOWED = 100  # of these, how many one change of the board redraws while the game is on: each is a message to Telegram


class Composing(msgspec.Struct, frozen=True, array_like=True):
    """A player's composer as it was sent last; `digest` is the sender's own digest of its text and markup."""

    chat_id: int
    thread_id: int | None
    message_id: int
    digest: str


async def of(play: Play, game_id: str, player_id: str) -> Composing | None:
    """Where the player's composer of the game stands, or None when none was sent (or it was forgotten)."""
    found = await play.bus.execute("HGET", keys.composers(play.options, game_id), player_id)
    return None if found is None else msgspec.json.decode(found, type=Composing)


async def was_sent(play: Play, game_id: str, player_id: str, here: Composing) -> bool:
    """Note where the player's composer stands; False when the game has too many."""
    args = [player_id, msgspec.json.encode(here), LIMIT, play.options.live_keep_ms]
    return bool(await play.bus.run(LUA.script("composer_sent"), [keys.composers(play.options, game_id)], args))


async def forget(play: Play, game_id: str, player_id: str) -> None:
    """The player's composer of the game is no longer kept up."""
    await play.bus.execute("HDEL", keys.composers(play.options, game_id), player_id)


async def redraw(play: Play, game_id: str, player_id: str) -> bool:
    """Order the player's composer of the game where it stands; False when there is none."""
    here = await of(play, game_id, player_id)
    if here is None:
        return False
    await outbound.composer(play, player_id, game_id, here.chat_id, here.thread_id)
    return True


async def follow(play: Play, game_id: str) -> int:
    """Order the game's composers anew and return how many; one that waits already is enough.

    Of more than `FOLLOWED` a random choice follows while the game is open, so that all follow in the end; once it is
    over, all of them do.
    """
    key = keys.composers(play.options, game_id)
    found = cast("list[list[bytes]]", await play.bus.execute("HRANDFIELD", key, FOLLOWED, "WITHVALUES"))
    if len(found) == FOLLOWED:
        game = await games.snapshot(play, game_id)
        if game is None or game.state != "open":
            everybody = cast("dict[bytes, bytes]", await play.bus.execute("HGETALL", key))
            found = [[player, value] for player, value in everybody.items()]
    orders: list[tuple[Message, Dedup]] = []
    for player, value in found:
        here = msgspec.json.decode(value, type=Composing)
        orders.append(outbound.composer_order(player.decode(), game_id, here.chat_id, here.thread_id))
    if orders:
        await outbound.order_many(play, orders)
    return len(orders)
