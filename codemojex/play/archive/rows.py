"""A finished game as the durable store's rows, computed from its stream alone.

Pure: the caller brings the records, the room and the players. A player or room that nobody remembers any more gets a
stand-in made of its id, so that a game is never lost for the want of a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codemojex.engine import ids
from codemojex.engine.clock import utc
from codemojex.game.closing import Row
from codemojex.game.fold import GameState
from codemojex.game.ranking import Standing
from codemojex.play.people.players import Player
from codemojex.play.rooms import Room
from codemojex.store.records import (
    ArchivedGame,
    ArchivedGuess,
    ArchivedPlayer,
    ArchivedRoom,
    ArchivedStanding,
    StreamRecord,
)


def players_of(state: GameState) -> set[str]:
    """Everybody whom the game's rows name."""
    named = {row.player for row in state.rows} | {state.winner}
    return {player for player in named if player}


def archived_game(
    game_id: str, records: Sequence[StreamRecord], state: GameState, room: Room | None, players: Mapping[str, Player]
) -> ArchivedGame | None:
    """The rows of a game; None when its stream lacks the opening or the close, and so makes no rows."""
    opened, closed = state.opened, state.closed
    if opened is None or closed is None:
        return None
    at = {record.kind: utc(ids.parse(record.id).unix_ms) for record in records}
    return ArchivedGame(
        id=game_id,
        room=_room(opened.room, room),
        players=tuple(_player(state, player_id, players.get(player_id)) for player_id in sorted(players_of(state))),
        preset=opened.settings.preset,
        mode=opened.settings.mode,
        settings=opened.settings.to_data(),
        commitment=opened.commitment,
        secret=closed.secret,
        nonce=closed.nonce,
        state="settled" if state.settled else "closed",
        reason=closed.reason,
        winner=closed.winner,
        opened_at=at[opened.kind],
        closed_at=at[closed.kind],
        cut=closed.cut,
        guesses=tuple(_guess(state, row) for row in state.rows),
        standings=tuple(place for line in state.final_standings() for place in _places(line)),
    )


def _room(room_id: str, room: Room | None) -> ArchivedRoom:
    if room is None:
        return ArchivedRoom(room_id, -ids.parse(room_id).snowflake, None, "unknown", "")
    return ArchivedRoom(room_id, room.chat_id, room.thread_id, room.kind, _clean(room.title))


def _player(state: GameState, player_id: str, player: Player | None) -> ArchivedPlayer:
    if player is None:
        name = next((row.name for row in state.rows if row.player == player_id), "")
        return ArchivedPlayer(player_id, ids.parse(player_id).snowflake, _clean(name), "")
    return ArchivedPlayer(player_id, player.user_id, _clean(player.name), player.lang)


def _guess(state: GameState, row: Row) -> ArchivedGuess:
    score = row.score
    return ArchivedGuess(
        id=row.guess,
        player=row.player,
        seq=row.seq,
        try_no=row.try_no or 1,
        code=row.codes,
        total=score.total if score else None,
        exact=score.exact if score else None,
        misplaced=score.misplaced if score else None,
        tiles="".join(score.tiles) if score else None,
        void=state.is_void(row),
    )


def _places(line: Standing) -> list[ArchivedStanding]:
    """One row per player; the members of a team share their line."""
    members = (line.player,) if line.player is not None else line.members
    return [
        ArchivedStanding(
            player=member,
            rank=line.rank,
            best_total=line.best or 0,
            best_seq=line.best_seq,
            tries=line.tries,
            points=line.points,
            cracked=line.cracked_by is not None,
        )
        for member in members
    ]


def _clean(text: str) -> str:
    return text.replace("\0", "")
