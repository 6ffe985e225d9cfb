"""Handles one update: the worker's handler on the intake queue.

The conversation's lane lets one update at a time through, so handlers need no locks. A repeated update carries the
same `request`, by which every act of a handler is recognised. While a server is away the lane rests, so that what
people wrote keeps its order. What can never succeed (an update that cannot be read, an id out of range, a value that
a verb refuses) is a dead letter at once, with its reason; any other failure is a retry. A person whose button met a
failure is told.
"""

from __future__ import annotations

import json
import logging
from typing import cast

from aiogram import Bot, Dispatcher
from aiogram.types import Update
from aiogram.types.update import UpdateTypeLookupError

from codemojex.bot import forged
from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.naming import SET_ASIDE
from codemojex.bot.texts import UnknownText
from codemojex.play.outcomes import OUTAGES, Complete, Discard, Job, Outcome, Park, Retry, away

OUTAGE_REST_MS = 1000
# About the values at hand, and so the same at every try. ValueError covers ids, names and texts that a verb refuses.
HOPELESS = (ValueError, OverflowError, RecursionError, UnknownText)
log = logging.getLogger(__name__)


class UpdateHandler:
    """Feeds jobs to the dispatcher."""

    def __init__(self, bot: Bot, dispatcher: Dispatcher, desk: Desk) -> None:
        self._bot = bot
        self._dispatcher = dispatcher
        self._desk = desk

    async def __call__(self, job: Job) -> Outcome | None:
        """Handle the update in the job's payload."""
        try:
            body = _read(job.payload)
            if isinstance(reason := body.get(SET_ASIDE), str):
                return Discard(f"update {body.get('update_id')} was set aside: {reason}")
            update = Update.model_validate(body, context={"bot": self._bot})
        except HOPELESS as error:
            return Discard(f"an update that cannot be read: {type(error).__name__}")
        try:
            _ = update.event_type
        except UpdateTypeLookupError:
            return Complete("an update of no known kind")
        if (wrong := forged.fault(update)) is not None:
            return Discard(f"update {str(update.update_id)[:32]} is forged: {wrong}")
        request = f"{self._bot.id}-{update.update_id}"
        try:
            await self._dispatcher.feed_update(self._bot, update, desk=self._desk, request=request)
        except OUTAGES as error:
            told = {"outage": away(error), "again_s": OUTAGE_REST_MS / 1000}
            log.warning("update %s waits: %s", update.update_id, type(error).__name__, extra=told)
            await self._soothe(update)
            return Park(OUTAGE_REST_MS)
        except HOPELESS as error:
            log.exception("update %s can never be worked", update.update_id)
            await self._soothe(update)
            return Discard(f"update {update.update_id} can never be worked: {type(error).__name__}")
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


def _read(payload: bytes) -> dict[str, object]:
    """The update's JSON. Half a surrogate pair, which no text has bytes for, becomes a question mark."""
    body: object = json.loads(payload)
    if b"\\u" in payload:
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    if not isinstance(body, dict):
        raise ValueError("an update is a JSON object")
    return cast("dict[str, object]", body)
