"""One delivery: the calls that bring a message to its chat. Faults that call for another call are met here.

A board whose message is gone is sent anew, and a new one takes the old one away; a topic that is gone falls back to its
chat. Every other fault is the sender's to judge.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import cast

from aiogram import Bot
from aiogram.exceptions import TelegramAPIError
from aiogram.types import EphemeralMessageParameters, InlineKeyboardMarkup, ReplyParameters

from codemojex.bot.interaction.members import standing
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.sending import drawing
from codemojex.bot.sending.drawing import Drawn
from codemojex.bot.sending.keyboards import Markup
from codemojex.bot.sending.recent import Recent
from codemojex.bot.telegram.errors import TelegramFault, classify
from codemojex.bot.texts import Html
from codemojex.play.outbound import composers, orders
from codemojex.play.outbound.composers import Composing
from codemojex.play.outbound.messages import Board, Composer, Edit, Message, ResultOrder, Say
from codemojex.play.outbound.orders import Sent
from codemojex.play.people import players
from codemojex.play.views import views

log = logging.getLogger(__name__)
WHISPER_TRIES = 3  # one refusal may be about its receiver, who has just left; so many are about the chat


@dataclass(frozen=True, slots=True)
class NotYet:
    """Worth waiting a moment: what is to be shown is about to change."""


@dataclass(frozen=True, slots=True)
class UnknownDelivery:
    """Nobody knows what the message speaks about."""

    what: str


class Delivery:
    """Knows how each kind of message is brought to its chat."""

    def __init__(self, bot: Bot, desk: Desk) -> None:
        self._bot = bot
        self._desk = desk
        self._plain = Recent(10_000, 3_600)  # chats that refused to whisper, and how often in a row

    async def deliver(self, message: Message, patient: bool) -> NotYet | UnknownDelivery | None:
        """Bring it there; None when it is there. Raises the Bot API's errors."""
        match message:
            case Say(receiver=int(receiver)):
                await self._whisper(message, receiver)
            case Say():
                await self._send(message, message.text, message.markup, message.reply_to)
            case Edit():
                await self._edit(message.chat_id, message.message_id, message.text, message.markup)
            case Board():
                return await self._board(message)
            case ResultOrder():
                drawn = await drawing.result(self._desk, message)
                if drawn is None:
                    return NotYet() if patient else UnknownDelivery(f"game {message.game} is not known to be over")
                await self._send(message, drawn.text, drawn.markup)
            case Composer():
                return await self._composer(message, patient)
        return None

    async def _board(self, message: Board) -> UnknownDelivery | None:
        drawn = await drawing.board(self._desk, message)
        if drawn is None:
            return UnknownDelivery(f"game {message.game} is not known")
        play = self._desk.play
        sent = await orders.sent_board(play, message.game)
        message_id = None
        if sent is not None and sent.chat_id == message.chat_id and not message.fresh:
            if sent.digest == drawn.digest:
                return None
            message_id = await self._edited(message.chat_id, sent.message_id, drawn)
            if message_id is None:
                await orders.forget_board(play, message.game, sent.message_id)
        if message_id is None:
            message_id = await self._send(message, drawn.text, drawn.markup)
        now = Sent(message.chat_id, message_id, drawn.digest, play.clock.now_ms())
        await orders.board_was_sent(play, message.game, now)
        if message.fresh and sent is not None and sent.chat_id == message.chat_id:
            await self._retire(message.chat_id, sent.message_id, drawn.moved)
        return None

    async def _composer(self, message: Composer, patient: bool) -> NotYet | UnknownDelivery | None:
        if await self._is_lost(message):
            await self._take_back(message)
            return None
        drawn = await drawing.composer(self._desk, message)
        if drawn is None:
            return UnknownDelivery(f"game {message.game} is not known")
        if drawn.waiting and patient:
            return NotYet()
        play, chat_id = self._desk.play, message.chat_id
        known = await composers.of(play, message.game, message.player)
        here = known.message_id if known and known.chat_id == chat_id else message.pressed
        same = known is not None and known.message_id == here and known.digest == drawn.digest
        message_id = None
        if here is not None and not message.fresh:
            message_id = here if same else await self._edited(chat_id, here, drawn)
        if message_id is None:
            message_id = await self._send(message, drawn.text, drawn.markup)
        now = Composing(chat_id, message.thread_id, message_id, drawn.digest)
        if now != known:
            await composers.was_sent(play, message.game, message.player, now)
        for old in {here if message.fresh else None, message.pressed}:
            if old is not None and old != message_id:
                await self._retire(chat_id, old, drawn.moved)
        return None

    async def _is_lost(self, message: Composer) -> bool:
        """Whether the player may not see the game: asked at every drawing, for people leave groups while it is on."""
        play = self._desk.play
        player, state = await players.get(play, message.player), await views.view(play, message.game)
        if state is None or state.opened is None:
            return False  # nothing is drawn of such a game
        return player is None or await standing(self._bot, self._desk, player, state.opened) == "out"

    async def _take_back(self, message: Composer) -> None:
        """The composer says that it is lost, without anything of the game, and is kept up no longer."""
        play = self._desk.play
        known, player = await composers.of(play, message.game, message.player), await players.get(play, message.player)
        words = self._desk.texts.of(player.lang if player else None)
        here = known.message_id if known and known.chat_id == message.chat_id else None
        for message_id in {here, message.pressed} - {None}:
            await self._edited(message.chat_id, cast("int", message_id), Drawn(words("composer-lost"), None, Html("")))
        await composers.forget(play, message.game, message.player)

    async def _retire(self, chat_id: int, message_id: int, moved: Html) -> None:
        """Take an old board or composer away. One too old to be deleted points down; neither is worth a retry."""
        try:
            try:
                await self._bot.delete_message(chat_id, message_id)
            except TelegramAPIError as error:
                if classify(error).fault is not TelegramFault.REFUSED:
                    raise
                await self._edit(chat_id, message_id, moved, None)
        except Exception as error:
            log.info("an old message stays: %s", classify(error).reason)

    async def _edited(self, chat_id: int, message_id: int, drawn: Drawn) -> int | None:
        """Edit a known message; None when it is gone."""
        try:
            await self._edit(chat_id, message_id, drawn.text, drawn.markup)
        except TelegramAPIError as error:
            fault = classify(error).fault
            if fault is TelegramFault.MESSAGE_GONE:
                return None
            if fault is not TelegramFault.NOT_MODIFIED:
                raise
        return message_id

    async def _edit(self, chat_id: int, message_id: int, text: str, markup: Markup | None) -> None:
        await self._bot.edit_message_text(text, chat_id=chat_id, message_id=message_id, reply_markup=_keyboard(markup))

    async def _whisper(self, message: Say, receiver: int) -> None:
        """Send what one member of a group alone shall see; where Telegram refuses that, all of them see it."""
        chat = str(message.chat_id)
        if self._plain.count(chat) < WHISPER_TRIES:
            try:
                await self._bot.send_message(
                    message.chat_id,
                    message.text,
                    message_thread_id=message.thread_id,
                    ephemeral_message_parameters=EphemeralMessageParameters(receiver_user_id=receiver),
                )
                self._plain.forget(chat)
                return
            except TelegramAPIError as error:
                if classify(error).fault is not TelegramFault.REFUSED:
                    raise
            self._plain.add(chat)
        await self._send(message, message.text, None)

    async def _send(self, to: Message, text: str, markup: Markup | None, reply_to: int | None = None) -> int:
        """Send a new message; its id. A topic that is gone falls back to the chat."""
        reply = ReplyParameters(message_id=reply_to, allow_sending_without_reply=True) if reply_to else None
        thread_id = to.thread_id
        try:
            sent = await self._bot.send_message(
                to.chat_id, text, message_thread_id=thread_id, reply_parameters=reply, reply_markup=_keyboard(markup)
            )
        except TelegramAPIError as error:
            if thread_id is None or classify(error).fault is not TelegramFault.THREAD_GONE:
                raise
            sent = await self._bot.send_message(to.chat_id, text, reply_markup=_keyboard(markup))
        return sent.message_id


def _keyboard(markup: Markup | None) -> InlineKeyboardMarkup | None:
    return InlineKeyboardMarkup.model_validate(markup) if markup else None
