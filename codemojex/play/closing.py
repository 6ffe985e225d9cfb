"""Ending a game before its time: by its starter, an administrator or a vote.

Guesses accepted before the end are still scored, none is accepted after it. Asking again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play
from codemojex.play.games import GameSnapshot, refresh
from codemojex.play.people.players import Player


@dataclass(frozen=True, slots=True)
class Ended:
    """The game takes no more guesses; `again` tells that it had been ended by this request before."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class NotEnded:
    """Nothing changed: `rights` (neither starter nor administrator), `closed` already, or `gone`."""

    reason: Literal["rights", "closed", "gone"]


@dataclass(frozen=True, slots=True)
class Vote:
    """`count` players of `needed` want the end; `closed` when this or an earlier vote reached it.

    `again`: the player's vote had counted already.
    """

    count: int
    needed: int
    closed: bool
    again: bool = False


async def end(play: Play, game: GameSnapshot, player: Player, by_admin: bool, request: str) -> Ended | NotEnded:
    """End the game at once. The starter may, and whoever the caller vouches for with `by_admin`."""
    answer = await play.bus.run(
        LUA.script("end_game"),
        keys.of_game(play.options, game.id, game.room),
        [player.id, "1" if by_admin else "0", request],
    )
    verdict = answer.decode()
    if verdict not in ("ended", "again"):
        return NotEnded(cast("Literal['rights', 'closed', 'gone']", verdict))
    await refresh(play, game.id)
    return Ended(again=verdict == "again")


async def vote_end(play: Play, game: GameSnapshot, player: Player) -> Vote | NotEnded:
    """Vote for the end; votes count for five minutes, one per player, `Options.votes_needed` end the game."""
    needed = play.options.votes_needed
    verdict, count, closed, again = await play.bus.run(
        LUA.script("vote_end"),
        keys.of_game(play.options, game.id, game.room),
        [player.id, needed, play.options.vote_window_ms],
    )
    if verdict != b"vote":
        return NotEnded(cast("Literal['closed', 'gone']", verdict.decode()))
    if closed == b"1":
        await refresh(play, game.id)
    return Vote(int(count), needed, closed == b"1", again == b"1")
