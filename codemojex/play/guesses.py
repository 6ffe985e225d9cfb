"""Guesses: taken once, in order, and admitted with their job.

`submit` is one script: the game is open, the try exists, the code is new to whoever pays for it, the pause between
guesses is over, and the request is new; then the try is taken, the guess gets the game's next number, and its score is
ordered. A repeated request gets the first answer, a repeated code is refused, and both cost nothing. Scoring happens
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from codemojex.engine import ids
from codemojex.game.events import VERSION
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play
from codemojex.play.games import GameSnapshot, refresh
from codemojex.play.people.players import Player
from codemojex.play.unlogged import hide

Reason = Literal[
    "closed", "late", "no_tries", "tried", "tried_waiting", "team_tried", "team_tried_waiting", "cooldown", "gone",
    "busy", "not_yours",
]  # fmt: skip
_MAX_REQUEST = 255
_MAX_NAME = 256


@dataclass(frozen=True, slots=True)
class Accepted:
    """The guess counts. `seq` orders the game's guesses; `again` tells a repeated request."""

    guess_id: str
    seq: int
    try_no: int
    tries_left: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """The guess does not count and costs nothing. `wait_ms` is set with `cooldown` only.

    `tried`: the player has tried this code, `team_tried`: somebody else of the team has; `_waiting`: it has no score
    yet.
    """

    reason: Reason
    wait_ms: int = 0


async def submit(
    play: Play, game: GameSnapshot, player: Player, code: Sequence[str], request: str
) -> Accepted | NotAccepted:
    """Hand in `code` (canonical tokens of the palette, right length, no repeats) for `player`.

    Raises ValueError for a code that `emoji.parse_guess` would not have given. `request` names the act, for
    instance the update's id; it is remembered as long as the game. In team mode all players share their tries, and a
    code that one of them has tried; in a race each has their own. A solo game is its starter's alone.
    """
    _check(game, code, request)
    if game.settings.mode == "solo" and game.starter != player.id:
        return NotAccepted("not_yours")
    options = play.options
    job_id = play.mint.mint("JOB")
    guess = {"guess": ids.rebrand(job_id, "GES"), "player": player.id, "name": player.name[:_MAX_NAME]}
    payload = {"kind": "score", "v": 1, "game": game.id, "room": game.room, **guess}
    # The code comes last: behind the ids before it no slow log shows it, and a perfect guess is the secret.
    payload |= {"party": party(game, player.id), "code": list(code)}
    answer = await play.bus.run(
        LUA.script("submit"),
        keys.of_game(options, game.id, game.room),
        [
            player.id,
            party(game, player.id),
            request,
            guess["guess"],
            job_id,
            game.room if options.lane_by == "room" else player.id,
            msgspec.json.encode({"v": VERSION, **guess})[:-1],
            msgspec.json.encode(payload)[:-1],
            options.cooldown_ms,
            options.max_waiting,
            hide(" ".join(code)),
        ],
    )
    verdict = answer[0].decode()
    if verdict in ("accepted", "again"):
        return Accepted(answer[1].decode(), int(answer[2]), int(answer[3]), int(answer[4]), again=verdict == "again")
    if verdict in ("closed", "gone") and game.state == "open":
        await refresh(play, game.id)  # the caller's snapshot was old: the next one shall not be
    return NotAccepted(cast("Reason", verdict), int(answer[1]))


def party(game: GameSnapshot, player_id: str) -> str:
    """Whose tries a guess of `player_id` costs: the team's or the player's own."""
    return "team" if game.settings.mode == "team" else player_id


def _check(game: GameSnapshot, code: Sequence[str], request: str) -> None:
    settings = game.settings
    if len(code) != settings.length or len(set(code)) != len(code) or not set(code) <= set(settings.palette):
        raise ValueError(
            f"a guess in game {game.id} is {settings.length} distinct emojis of its palette; use emoji.parse_guess"
        )
    if not 1 <= len(request) <= _MAX_REQUEST:
        raise ValueError(f"a request's name has 1 to {_MAX_REQUEST} characters, not {len(request)}")
