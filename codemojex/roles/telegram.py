"""The roles that talk to Telegram: intake, updates and send, and the bot that they share.

A module of its own because aiogram takes a second to import and a score worker has no use for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiogram import Bot

from codemojex.bot.factory import build_bot, build_dispatcher
from codemojex.bot.intake import Incoming, Intake, IntakeOptions
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.sending.sender import Sender
from codemojex.bot.storage import SessionStorage
from codemojex.bot.telegram.errors import BadToken, classify
from codemojex.bot.telegram.identity import identify
from codemojex.bot.telegram.menu import publish_menu
from codemojex.bot.texts import load_texts
from codemojex.bot.updates import UpdateHandler
from codemojex.engine.inspection import metrics
from codemojex.engine.worker.worker import Worker
from codemojex.play.context import Play
from codemojex.play.inbound import inbox
from codemojex.play.inbound.lease import PollerLease
from codemojex.roles.internal import Observers, Part, worker_options
from codemojex.settings import Settings

__all__ = ["Account", "BadToken", "TelegramUnavailable", "bot_of", "desk_of", "part_of"]
_SEND_ATTEMPTS = 12  # some three minutes on average: a sick Telegram may take that long
_INTAKE_DEPTH = 5_000  # updates that may wait before polling pauses


@dataclass(frozen=True, slots=True)
class Account:
    """The bot's token and the address of its Bot API server."""

    token: str
    url: str


class TelegramUnavailable(Exception):
    """Telegram gave no answer to the first question; the message is one line without the token."""


@asynccontextmanager
async def bot_of(account: Account, settings: Settings) -> AsyncGenerator[Bot]:
    """The bot's client, closed behind the block."""
    bot = build_bot(account.token, account.url, settings.telegram_timeout_s)
    try:
        yield bot
    finally:
        await bot.session.close()


async def desk_of(play: Play, bot: Bot, *, publish: bool) -> Desk:
    """Who the bot is, proven by a call; with `publish` Telegram is told the command menu.

    Raises BadToken, TelegramUnavailable.
    """
    texts = load_texts()
    try:
        me = await identify(bot)
        if publish:
            await publish_menu(bot, texts)
    except BadToken:
        raise
    except Exception as error:
        raise TelegramUnavailable(
            f"Telegram does not answer ({classify(error).reason}): check the network and CODEMOJEX_TELEGRAM_API_URL"
        ) from error
    return Desk(play, texts, me)


def part_of(
    role: str, settings: Settings, bot: Bot, desk: Desk, on_bad_token: Callable[[], None], *, watch: Observers
) -> Part:
    """The part of `role`, ready to run."""
    play = desk.play
    match role:
        case "intake":
            return _Polling(_intake(settings, bot, play), on_bad_token)
        case "updates":
            updates = UpdateHandler(bot, build_dispatcher(SessionStorage(play)), desk)
            options = worker_options(settings, play.options.inbox, settings.update_concurrency, in_order=True)
            return Worker(
                play.bus,
                play.options.inbox,
                updates,
                options=options,
                observe=watch.observe,
                middleware=watch.middleware,
            )
        case "send":
            sender = Sender(bot, desk, on_bad_token)
            options = worker_options(
                settings,
                play.options.outbound,
                settings.send_concurrency,
                _SEND_ATTEMPTS,
                settings.send_lease_ms,
                in_order=True,
            )
            return Worker(
                play.bus,
                play.options.outbound,
                sender,
                options=options,
                observe=watch.observe,
                middleware=watch.middleware,
            )
        case _:
            raise ValueError(f"the role {role!r} does not talk to Telegram")


@dataclass(frozen=True, slots=True)
class _Polling:
    """The intake, whose refused token is told instead of raised into the other parts."""

    intake: Intake
    on_bad_token: Callable[[], None]

    async def run(self) -> None:
        try:
            await self.intake.run()
        except BadToken:
            self.on_bad_token()

    def stop(self) -> None:
        self.intake.stop()


def _intake(settings: Settings, bot: Bot, play: Play) -> Intake:
    async def admit(items: Sequence[Incoming]) -> bool:
        return await inbox.admit(play, items)

    async def depth() -> int:
        return (await metrics.counts(play.bus, play.options.inbox)).pending

    options = IntakeOptions(
        poll_timeout_s=settings.poll_timeout_s, request_timeout_s=settings.telegram_timeout_s, max_depth=_INTAKE_DEPTH
    )
    return Intake(bot, admit, depth, PollerLease(play, bot.id), options)
