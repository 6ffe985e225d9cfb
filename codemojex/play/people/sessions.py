"""Sessions: what one player is doing in one conversation. Kept in the near-cache, changed by compare-and-swap.

Valkey is the only home of a session, and it is forgotten a month after its last change: the player then starts the
draft anew, and no game suffers. Needs the table that `caches.with_caches` makes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from codemojex.engine import ids
from codemojex.engine.cache.near_cache import Table
from codemojex.play.context import Play


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """A player's session in a conversation. `draft` holds a token or None per position; `locks` pins positions.

    The draft belongs to the player's guess after `tries` others in `game`, the game that the conversation showed last:
    handing that one in makes it out of date. `joined` is the last game of another room that was played here.
    `state` and `data` belong to the bot's dialogues (its FSM storage).
    """

    draft: tuple[str | None, ...] = ()
    locks: dict[int, str] = {}
    preset: str = ""
    lang: str = ""
    game: str = ""
    joined: str = ""
    tries: int = 0
    state: str = ""
    data: dict[str, object] = {}


def session_id(player_id: str, chat_id: int, thread_id: int | None) -> str:
    """The session's branded id: the same player in the same conversation always has the same."""
    return ids.derive("SES", f"{player_id}:{chat_id}:{thread_id or 0}")


def draft_of(session: Session, game_id: str, tries: int) -> tuple[str | None, ...]:
    """The draft of a player who has made `tries` guesses in the game; one that was handed in meanwhile is gone."""
    return session.draft if (session.game, session.tries) == (game_id, tries) else ()


def for_game(session: Session, game_id: str, joined: bool = False) -> Session:
    """The session as it begins for a game: draft and pins of another game are dropped. `joined`: of another room."""
    if joined:
        session = session.__replace__(joined=game_id)
    return session if session.game == game_id else session.__replace__(game=game_id, draft=(), locks={})


async def get(play: Play, session: str) -> Session:
    """The session, a fresh one when there is none."""
    return (await _table(play).get(session)).value or Session()


async def update(play: Play, session: str, change: Callable[[Session], Session]) -> Session:
    """Apply `change` to the present session and store it; it is applied again when another update came between."""
    read = await _table(play).update(session, lambda old: change(old or Session()))
    return read.value or Session()


async def clear(play: Play, session: str) -> None:
    """Forget the session."""
    await _table(play).update(session, lambda old: None)


def _table(play: Play) -> Table[Session]:
    if play.caches.sessions is None:
        raise RuntimeError("sessions need the near-cache: build the Play with caches.with_caches")
    return play.caches.sessions
