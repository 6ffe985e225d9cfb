"""Who acts where: what every handler needs to know of an update, resolved once.

A `Desk` is the process's share (game, texts, the bot's account); a `Scene` is one update's: room, player, language.
Replies go to the outbound queue under the update's own key, so a repeated update says nothing twice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from aiogram.types import CallbackQuery, InaccessibleMessage, Message, User

from codemojex.bot.sending.keyboards import Markup
from codemojex.bot.telegram.identity import Me
from codemojex.bot.texts import Html, Texts, Words
from codemojex.play import games, rooms
from codemojex.play.context import Play
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import orders
from codemojex.play.people import players, sessions
from codemojex.play.people.players import Player
from codemojex.play.people.sessions import Session
from codemojex.play.rooms import Room

AGAIN_MS = 15_000  # until a person is answered the same again


@dataclass(frozen=True, slots=True)
class Desk:
    """What the process gives to every handler."""

    play: Play
    texts: Texts
    me: Me


@dataclass(slots=True)
class Scene:
    """One update: a player does something in a room. `message_id` is the message at hand."""

    desk: Desk
    request: str
    room: Room
    player: Player
    private: bool
    message_id: int
    words: Words
    _said: int = field(default=0)

    @property
    def play(self) -> Play:
        return self.desk.play

    @property
    def session_id(self) -> str:
        """Of the player in this conversation."""
        return sessions.session_id(self.player.id, self.room.chat_id, self.room.thread_id)

    async def session(self) -> Session:
        """The player's session in this conversation."""
        return await sessions.get(self.play, self.session_id)

    async def whisper(self, text: Html, *, kind: str = "") -> None:
        """Like `answer`, but in a group only the player sees it: what went wrong for one is no news for all."""
        await self.answer(text, kind=kind, receiver=None if self.private else self.player.user_id)

    async def answer(self, text: Html, *, kind: str = "", receiver: int | None = None) -> None:
        """Answer the player; whoever asks the same again and again is answered once within `AGAIN_MS`.

        The same is what has the same `kind`; in a group also what would be the same text.
        """
        name = kind or ("" if self.private else hashlib.sha256(text.encode()).hexdigest()[:16])
        once = f"{self.room.id}-{self.player.id}-{name}" if name else None
        await self.say(text, once=once, window_ms=AGAIN_MS if once else None, receiver=receiver, spare=True)

    async def say(
        self,
        text: Html,
        *,
        markup: Markup | None = None,
        once: str | None = None,
        window_ms: int | None = None,
        receiver: int | None = None,
        spare: bool = False,
    ) -> None:
        """Order a reply. `once` names it instead of the update: that name says it once within `window_ms` (a day).

        A `spare` reply is left out when too many messages wait for the chat.
        """
        self._said += 1
        await orders.say(
            self.play,
            self.room.chat_id,
            self.room.thread_id,
            str(text),  # the queue's encoder takes plain strings
            key=once or f"{self.request}-{self._said}",
            reply_to=None if self.private or receiver else self.message_id,
            markup=markup,
            receiver=receiver,
            window_ms=window_ms,
            spare=spare,
        )

    async def game(self) -> GameSnapshot | None:
        """The game that this conversation plays now.

        In private that is the one that was shown last; when it is over, the room's own or the one joined by a link.
        """
        if not self.private:
            return await games.live_game(self.play, self.room.id)
        session = await self.session()
        shown = await self._open(session.game)
        return shown or await games.live_game(self.play, self.room.id) or await self._open(session.joined)

    async def make_current(self, game: GameSnapshot) -> None:
        """The game is shown in this private chat now: what is typed from here on is meant for it."""
        if self.private:
            joined = game.room != self.room.id
            await sessions.update(self.play, self.session_id, lambda old: sessions.for_game(old, game.id, joined))

    async def _open(self, game_id: str) -> GameSnapshot | None:
        game = await games.snapshot(self.play, game_id) if game_id else None
        return game if game is not None and game.state == "open" else None

    async def last_game_id(self) -> str | None:
        """Like `game`, but a finished one will do: in private the latest of the joined games and the room's own."""
        game = await self.game()
        if game is not None:
            return game.id
        last = await games.last_game_id(self.play, self.room.id)
        session = await self.session() if self.private else Session()
        return max(session.game, session.joined, last or "") or None  # ids of one kind sort by the time of their making


def anonymous(message: Message) -> bool:
    """Whether the message hides the person behind it: an anonymous admin, a channel, or nobody at all."""
    return message.sender_chat is not None or message.from_user is None


async def of_message(desk: Desk, request: str, message: Message) -> Scene | None:
    """The scene of a message; None when no person stands behind it."""
    if message.from_user is None or anonymous(message):
        return None
    return await _scene(desk, request, message, message.from_user)


async def of_query(desk: Desk, request: str, query: CallbackQuery) -> Scene | None:
    """The scene of a pressed button; None when its message is not known any more."""
    if query.message is None:
        return None
    return await _scene(desk, request, query.message, query.from_user)


async def room_of(desk: Desk, message: Message | InaccessibleMessage) -> Room:
    """The room of a message: the topic when it is one, else the chat."""
    chat = message.chat
    thread = message.message_thread_id if isinstance(message, Message) and message.is_topic_message else None
    return await rooms.room_for(desk.play, chat.id, thread, chat.type, chat.title or chat.full_name)


async def _scene(desk: Desk, request: str, message: Message | InaccessibleMessage, user: User) -> Scene:
    room = await room_of(desk, message)
    player = await players.player_for(desk.play, user.id, user.full_name, user.language_code or "")
    private = message.chat.type == "private"
    words = desk.texts.of(player.lang if private else room.lang)
    return Scene(desk, request, room, player, private, message.message_id, words)
