"""Handles one update: the worker's handler on the intake queue.

The conversation's lane lets one update at a time through, so handlers need no locks. A repeated update carries the
same `request`, by which every act of a handler is recognised. While a server is away the lane rests, so that what
people wrote keeps its order; any other failure is a retry, an update that cannot be read is a dead letter at once,
and a person whose button met a failure is told.
"""

from __future__ import annotations

import json
import logging

from aiogram import Bot, Dispatcher
from aiogram.types import Update
from aiogram.types.update import UpdateTypeLookupError

from codemojex.play.outcomes import OUTAGES, Complete, Discard, Job, Outcome, Park, Retry, away

from .answers import answer
from .scene import Desk

OUTAGE_REST_MS = 1000
log = logging.getLogger(__name__)


class Updates:
    """Feeds jobs to the dispatcher."""

    def __init__(self, bot: Bot, dispatcher: Dispatcher, desk: Desk) -> None:
        self._bot = bot
        self._dispatcher = dispatcher
        self._desk = desk

    async def __call__(self, job: Job) -> Outcome | None:
        """Handle the update in the job's payload."""
        try:
            update = Update.model_validate(json.loads(job.payload), context={"bot": self._bot})
        except ValueError as error:
            return Discard(f"an update that cannot be read: {type(error).__name__}")
        try:
            _ = update.event_type
        except UpdateTypeLookupError:
            return Complete("an update of no known kind")
        request = f"{self._bot.id}-{update.update_id}"
        try:
            await self._dispatcher.feed_update(self._bot, update, desk=self._desk, request=request)
        except OUTAGES as error:
            told = {"outage": away(error), "again_s": OUTAGE_REST_MS / 1000}
            log.warning("update %s waits: %s", update.update_id, type(error).__name__, extra=told)
            await self._soothe(update)
            return Park(OUTAGE_REST_MS)
        except Exception as error:
            log.exception("update %s failed", update.update_id)
            await self._soothe(update)
            return Retry(type(error).__name__)
        return None

    async def _soothe(self, update: Update) -> None:
        """Stop the spinner of a button whose work failed; the retry comes without the person pressing again."""
        if query := update.callback_query:
            words = self._desk.texts.of(query.from_user.language_code)
            await answer(self._bot, query, words.plain("trouble-toast"))
