"""The whole way in one process, for tests: intake, updates, scores, feed and sender around a local Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from aiogram import Bot

from codemojex.bot.factory import build_dispatcher
from codemojex.bot.intake import Intake, IntakeOptions
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.sending.sender import Sender
from codemojex.bot.storage import SessionStorage
from codemojex.bot.telegram.identity import identify
from codemojex.bot.texts import load_texts
from codemojex.bot.updates import UpdateHandler
from codemojex.engine.lanes import limits
from codemojex.engine.worker.worker import Worker, WorkerOptions
from codemojex.play import scoring
from codemojex.play.context import Play
from codemojex.play.inbound import inbox
from codemojex.play.inbound.inbox import Incoming
from codemojex.play.outbound import feed
from codemojex.play.outcomes import Job, Outcome

QUICK = WorkerOptions(concurrency=8, grace_ms=500, beat_ms=500)


@asynccontextmanager
async def whole_way(play: Play, bot: Bot) -> AsyncIterator[Desk]:
    """Run every role until the block ends."""
    queue = f"{play.options.guesses}.in"
    desk = Desk(play, load_texts(), await identify(bot))
    for ordered in (queue, play.options.outbound):
        await limits.set_default_lane_limit(play.bus, ordered, 1)

    async def admit(items: Sequence[Incoming]) -> bool:
        return await inbox.admit(play, items, queue)

    async def depth() -> int:
        return 0

    async def score(jobs: list[Job]) -> Sequence[Outcome | None]:
        return await scoring.work(play, jobs)

    intake = Intake(bot, admit, depth, None, IntakeOptions(poll_timeout_s=5, backoff_base_s=0.05))
    updates = UpdateHandler(bot, build_dispatcher(SessionStorage(play)), desk)
    worker = partial(Worker, play.bus, options=QUICK)
    parts = [
        intake,
        worker(queue, updates),
        worker(play.options.guesses, batch_handler=score, effects=scoring.effects()),
        feed.outbound_reader(play, play.options.guesses, "stage"),
        worker(play.options.outbound, Sender(bot, desk)),
    ]
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(part.run())
        try:
            yield desk
        finally:
            for part in parts:
                part.stop()
