"""Draws what the outbound queue names: a board, a result, a player's composer, as they are at this moment."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from codemojex.bot.interaction.drafts import kept, pins, shown
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.sending import board_view, keyboards, result_view
from codemojex.bot.sending.keyboards import Markup
from codemojex.bot.texts import Html, Words
from codemojex.game.fold import GameState
from codemojex.play import rooms
from codemojex.play.outbound.messages import Board, Composer, ResultOrder
from codemojex.play.people import players, sessions
from codemojex.play.people.sessions import Session
from codemojex.play.views import views


@dataclass(frozen=True, slots=True)
class Drawn:
    """A message ready to be sent. `moved` is what its predecessor says, should it have to stay.

    `waiting`: a guess of the player is still without its score.
    """

    text: Html
    markup: Markup | None
    moved: Html
    waiting: bool = False

    @property
    def digest(self) -> str:
        """The same for the same message."""
        body = json.dumps([self.text, self.markup], ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(body.encode()).hexdigest()[:16]


async def board(desk: Desk, message: Board) -> Drawn | None:
    """The game's board for its own chat; None when the game is unknown."""
    state = await views.view(desk.play, message.game)
    if state is None or state.opened is None:
        return None
    if message.chat_id > 0:  # a person's chat: board and composer are one message
        player_id = state.opened.starter
        player = await players.get(desk.play, player_id)
        words = desk.texts.of(player.lang if player else None)
        session = await _session(desk, message, player_id)
        return _private_board(words, message.game, state, player_id, session)
    words = await _room_words(desk, message.room)
    markup = keyboards.board(words, message.game, desk.me.username) if state.phase == "live" else None
    return Drawn(board_view.draw(words, state), markup, words("board-moved"))


async def result(desk: Desk, message: ResultOrder) -> Drawn | None:
    """The end of a game; None while it is not known to be closed."""
    state = await views.view(desk.play, message.game)
    if state is None or state.opened is None or state.closed is None:
        return None
    if message.chat_id > 0:
        player = await players.get(desk.play, state.opened.starter)
        words = desk.texts.of(player.lang if player else None)
    else:
        words = await _room_words(desk, message.room)
    return Drawn(result_view.draw(words, state, message.late), None, words("board-moved"))


async def composer(desk: Desk, message: Composer) -> Drawn | None:
    """A player's composer for a game that is played elsewhere; None when the game is unknown."""
    state = await views.view(desk.play, message.game)
    if state is None or state.opened is None:
        return None
    player = await players.get(desk.play, message.player)
    room = await rooms.get(desk.play, state.opened.room)
    words = desk.texts.of(player.lang if player else None)
    session = await _session(desk, message, message.player)
    locks, draft = _draft(session, message.game, state, message.player)
    slots = shown(draft, locks, state.settings.length)
    text = board_view.personal(words, state, message.player, slots, room.title if room else "")
    waiting = any(row.player == message.player for row in state.pending)
    markup = _composer_markup(words, message.game, state, message.player, draft=draft, locks=locks)
    return Drawn(text, markup, words("board-moved"), waiting)


def _private_board(words: Words, game_id: str, state: GameState, player_id: str, session: Session) -> Drawn:
    if state.over:
        return Drawn(board_view.draw(words, state), keyboards.again(words, state.settings), words("board-moved"))
    locks, draft = _draft(session, game_id, state, player_id)
    text = board_view.draw(words, state, shown(draft, locks, state.settings.length))
    markup = _composer_markup(words, game_id, state, player_id, draft=draft, locks=locks)
    return Drawn(text, markup, words("board-moved"))


def _composer_markup(
    words: Words, game_id: str, state: GameState, player_id: str, *, draft: tuple[str, ...], locks: dict[int, str]
) -> Markup | None:
    if state.phase != "live" or state.tries_left(player_id) == 0:
        return None
    tries = len(state.history(player_id))
    return keyboards.composer(words, game_id, state.settings, draft=draft, locks=locks, tries=tries)


def _draft(session: Session, game_id: str, state: GameState, player_id: str) -> tuple[dict[int, str], tuple[str, ...]]:
    """Pins and draft, as far as they belong to this game and to the player's next guess."""
    if session.game != game_id:
        return {}, ()
    locks = pins(session.locks, state.settings)
    draft = sessions.draft_of(session, game_id, len(state.history(player_id)))
    return locks, kept(draft, locks, state.settings)


async def _session(desk: Desk, message: Board | Composer, player_id: str) -> Session:
    return await sessions.get(desk.play, sessions.session_id(player_id, message.chat_id, message.thread_id))


async def _room_words(desk: Desk, room_id: str) -> Words:
    room = await rooms.get(desk.play, room_id)
    return desk.texts.of(room.lang if room else None)
