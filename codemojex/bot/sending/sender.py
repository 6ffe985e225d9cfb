"""Sends: the worker's handler on the outbound queue, and the only place that retries a call to Telegram.

Budgets are the lanes' and the queue's: a 429 that comes nevertheless rests that chat exactly as long as told. Boards
are drawn when they are sent, edited where they stand, and not sent when nothing changed. A call whose outcome is
unknown is repeated when it is an edit; a new message is repeated at most once. A chat that refuses the bot is silent
until it can be written to again. The private composers of a game follow its board, at the board's pace.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError

from codemojex.bot.interaction.scene import Desk
from codemojex.bot.sending.delivery import Delivery, NotYet, UnknownDelivery
from codemojex.bot.sending.recent import Recent
from codemojex.bot.telegram.errors import Classified, TelegramFault, classify
from codemojex.play import games, rooms
from codemojex.play.outbound import composers, messages, orders, silence
from codemojex.play.outbound.messages import Board, Composer, Message, ResultOrder, Say
from codemojex.play.outcomes import Complete, Delay, Discard, Job, Outcome, Park, Retry
from codemojex.play.people import players

log = logging.getLogger(__name__)
RECONNECT_MS = (1_000, 3_000)
BAD_TOKEN_MS = 30_000
SCORE_WAIT_MS = 200
SCORE_WAITS = 10
TRY_AGAIN_S = 10.0


class Sender:
    """Sends the orders of the outbound queue. `on_bad_token` hears that Telegram refuses the token."""

    def __init__(self, bot: Bot, desk: Desk, on_bad_token: Callable[[], None] | None = None) -> None:
        self._desk = desk
        self._delivery = Delivery(bot, desk)
        self._on_bad_token = on_bad_token or (lambda: None)
        self._doubtful = Recent(10_000, 3_600)  # jobs whose message may have arrived
        self._waits = Recent(10_000, 60)  # how often a composer waited for a score
        self._told = Recent(10_000, 86_400)  # games whose starters were told
        self._tried = Recent(10_000, TRY_AGAIN_S)  # silent places that were tried a moment ago

    async def __call__(self, job: Job) -> Outcome | None:
        """Send what the job's payload orders."""
        try:
            message = messages.decode(job.payload)
        except ValueError as error:
            return Discard(f"an order that cannot be read: {type(error).__name__}")
        if isinstance(message, Say | ResultOrder) and self._doubtful.count(job.id) > 1:
            return Discard("the outcome was unknown twice")
        outcome = await self._send(job, message)
        if isinstance(message, Board) and message.chat_id < 0 and isinstance(outcome, Complete | None):
            await composers.follow(self._desk.play, message.game)
        return outcome

    async def _send(self, job: Job, message: Message) -> Outcome | None:
        """Send it, unless its place is silent and not worth a try now."""
        play, place = self._desk.play, (message.chat_id, message.thread_id)
        silent = await silence.of(play, *place)
        if silent is not None and not self._worth_a_try(message):
            return await self._let_go(message, silent.why)
        try:
            outcome = await self._deliver(job, message)
        except (TelegramAPIError, ClientDecodeError) as error:
            return await self._after(job, message, classify(error))
        if silent is not None and outcome is None:
            self._tried.forget(_place(message))
            await silence.end(play, *place)
        return outcome

    def _worth_a_try(self, message: Message) -> bool:
        """Whether a silent place is tried: for somebody who has just written there; in a group not for each of many."""
        asked = isinstance(message, Say) or (isinstance(message, Board | Composer) and message.fresh)
        return asked and (message.chat_id > 0 or self._tried.add(_place(message)) == 1)

    async def _let_go(self, message: Message, why: silence.Why) -> Outcome:
        """A board is drawn anew when the silence ends, a result is kept until then; an answer would be too late."""
        match message:
            case ResultOrder():
                await silence.owe(self._desk.play, message)
            case Board() if message.chat_id < 0 and self._told.add(message.game) == 1:
                await self._tell_starter(message)
            case _:
                pass
        return Complete("silent")

    async def _deliver(self, job: Job, message: Message) -> Outcome | None:
        patient = self._waits.count(job.id) < SCORE_WAITS
        match await self._delivery.deliver(message, patient):
            case NotYet():
                self._waits.add(job.id)
                return Delay(SCORE_WAIT_MS)
            case UnknownDelivery(what):
                return Discard(what)
            case None:
                return None

    async def _after(self, job: Job, message: Message, met: Classified) -> Outcome | None:
        """What a fault means for the job."""
        match met.fault:
            case TelegramFault.NOT_MODIFIED | TelegramFault.MESSAGE_GONE | TelegramFault.QUERY_EXPIRED:
                return Complete(str(met.fault))
            case TelegramFault.FLOOD:
                log.warning("chat %s rests %d s: %s", message.chat_id, met.retry_after_s, met.reason)
                return Park(met.retry_after_s * 1000)
            case TelegramFault.CHAT_GONE | TelegramFault.NO_RIGHTS | TelegramFault.THREAD_GONE:
                log.info("chat %s cannot be written to: %s", message.chat_id, met.reason)
                why = "no_rights" if met.fault is TelegramFault.NO_RIGHTS else "gone"
                await silence.begin(self._desk.play, message.chat_id, message.thread_id, why)
                return await self._let_go(message, why)
            case TelegramFault.MIGRATED:
                await rooms.migrate(self._desk.play, message.chat_id, met.migrated_to)
                return await self._elsewhere(job, message, met.migrated_to)
            case TelegramFault.NEVER_SENT:
                return Delay(random.randint(*RECONNECT_MS))
            case TelegramFault.SERVER | TelegramFault.CONFLICT:
                return Retry(met.reason)
            case TelegramFault.UNKNOWN_OUTCOME:
                return self._doubt(job, message, met)
            case TelegramFault.UNAUTHORIZED:
                log.error("Telegram refuses the bot token; messages wait")
                self._on_bad_token()
                return Delay(BAD_TOKEN_MS)
            case TelegramFault.REFUSED:
                log.error("an order was refused: %s", met.reason)
                return Discard(met.reason)

    async def _tell_starter(self, board: Board) -> None:
        """Tell whoever started the game, in private and once, that it goes on unseen."""
        play = self._desk.play
        room, game = await rooms.get(play, board.room), await games.snapshot(play, board.game)
        starter = await players.get(play, game.starter) if game and game.state == "open" else None
        if room is not None and starter is not None:
            text = str(self._desk.texts.of(starter.lang)("silent-told", room=room.title))
            await orders.say(play, starter.user_id, None, text, key=f"silent-{board.game}")

    def _doubt(self, job: Job, message: Message, met: Classified) -> Outcome:
        """Boards repeat by editing. A text is repeated once, and not when a crashed sender may have sent it before."""
        if isinstance(message, Board):
            return Retry(met.reason)
        times = self._doubtful.add(job.id) + min(job.stalled, 1)
        return Retry(met.reason) if times <= 1 else Discard(f"the outcome was unknown twice: {met.reason}")

    async def _elsewhere(self, job: Job, message: Message, chat_id: int) -> Outcome | None:
        """The same message to the chat's new id, at once; a second migration in a row is not believed."""
        moved = message.__replace__(chat_id=chat_id)
        try:
            return await self._deliver(job, moved)
        except (TelegramAPIError, ClientDecodeError) as error:
            met = classify(error)
            return Discard(met.reason) if met.fault is TelegramFault.MIGRATED else await self._after(job, moved, met)


def _place(message: Message) -> str:
    return f"{message.chat_id}:{message.thread_id or 0}"
