"""Takes updates from Telegram and confirms only what the bus has admitted.

Loop: poll a batch, admit every update, and only then use the next offset, which is how Telegram is told to forget
them. A crash between the two brings the same batch again, and its dedup keys make that harmless. Nothing is ever
dropped, the token never reaches a log, and polling pauses while the queue is deeper than its limit. No content stops
it: a batch that failed three times goes update by update, and the one at fault is set aside and confirmed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError
from aiogram.methods import GetUpdates

from codemojex.bot.naming import incoming, set_aside, update_id
from codemojex.bot.telegram.errors import BadToken, Classified, TelegramFault, classify
from codemojex.play.inbound.inbox import Incoming
from codemojex.play.outcomes import OUTAGES, VALKEY, away

log = logging.getLogger(__name__)

# Sticky on the server, so always stated. Edits are no guesses: they are not asked for.
ALLOWED_UPDATES = ("message", "callback_query", "my_chat_member", "chat_member")
SINGLY_AFTER = 3  # failures of a batch until its updates are taken one by one
_UPDATE_ID = re.compile(r'(?<!\\)"update_id"\s*:\s*([0-9]{1,16})(?![0-9])')
_OK = re.compile(r'\s*\{\s*"ok"\s*:\s*true\b')
_AWAY = (TelegramFault.SERVER, TelegramFault.NEVER_SENT, TelegramFault.UNKNOWN_OUTCOME)
_IDLE_S = 0.2  # how soon a full queue or a lease in other hands is looked at again


Admit = Callable[[Sequence[Incoming]], Awaitable[bool]]
"""Puts updates on the bus; True only when every single one is there (admitted now or earlier)."""


class OnePoller(Protocol):
    """One poller per token: who holds the lease may poll."""

    async def hold(self) -> bool:
        """Take or renew the lease; False while somebody else has it."""
        ...

    async def release(self) -> None:
        """Give the lease back, if it is still ours."""
        ...


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """`poll_timeout_s` on the server; `max_depth` waiting updates stop the polling; backoff from base to cap.

    The lease is renewed, or asked for, every `renew_s`; a renewal that takes twice as long has failed.
    """

    poll_timeout_s: int = 25
    request_timeout_s: float = 15.0
    batch: int = 100
    max_depth: int = 5000
    renew_s: float = 1.0
    backoff_base_s: float = 0.5
    backoff_cap_s: float = 30.0


class RawUpdates(GetUpdates):
    """getUpdates that leaves each update as JSON: a kind of update that this program cannot read blocks nobody."""

    __returning__ = list[Any]  # JSON of any shape


class Intake:
    """The poller of one bot. `run` until `stop`."""

    def __init__(
        self,
        bot: Bot,
        admit: Admit,
        depth: Callable[[], Awaitable[int]],
        lease: OnePoller | None = None,
        options: IntakeOptions | None = None,
    ) -> None:
        self._bot = bot
        self._admit = admit
        self._depth = depth
        self._lease = lease
        self._options = options or IntakeOptions()
        self._offset: int | None = None
        self._failed = 0  # how often the batch at hand was not admitted
        self._unread = 0  # how often in a row the answer of a poll could not be read at all
        self._singly = 0  # so many polls ask for one update each
        self._stopping = asyncio.Event()
        self._poll: asyncio.Timeout | None = None
        self._held = asyncio.Event()
        if lease is None:
            self._held.set()

    async def run(self) -> None:
        """Poll until `stop`. Raises BadToken; every other misfortune is waited out."""
        refused: BadToken | None = None
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep_lease())
            try:
                await self._loop()
            except BadToken as error:
                refused = error  # raised below, where the group does not wrap it
            finally:
                keeper.cancel()
        await self._give_back()
        if refused is not None:
            raise refused

    def stop(self) -> None:
        """End the long poll at once; a batch that has arrived is still admitted."""
        self._stopping.set()
        self._end_poll()

    def _end_poll(self) -> None:
        if self._poll is not None and not self._poll.expired():
            self._poll.reschedule(0)

    async def _loop(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            if not self._held.is_set() or await self._full():
                await self._pause(_IDLE_S)
                continue
            try:
                await self._step()
                failures = 0
            except BadToken:
                raise
            except Exception as error:
                failures += 1
                await self._misfortune(error, failures)

    async def _step(self) -> None:
        """One batch: poll, admit, and only then move the offset."""
        updates = await self._get_updates()
        if not updates:
            return
        if self._failed < SINGLY_AFTER:
            self._failed += 1
            if not await self._admit([incoming(self._bot.id, update) for update in updates]):
                raise NotAdmittedError(len(updates))
        else:
            for update in updates:
                await self._admit_alone(update)
                if update_id(update) is not None:
                    self._confirm([update])
        self._failed = 0
        if not self._confirm(updates):
            raise NamelessError(len(updates))

    def _confirm(self, updates: Sequence[object]) -> bool:
        """Move the offset behind these updates; False when there is nothing to go by."""
        numbers = [number for update in updates if (number := update_id(update)) is not None]
        if numbers:
            self._offset = max(numbers) + 1
        elif self._offset is not None:
            self._offset += len(updates)  # as many distinct numbers from the offset on: none is beyond the last one
        return self._offset is not None

    async def _admit_alone(self, update: object) -> None:
        """Admit one update, or the note that it cannot be. Raises only when the bus takes neither: it is the bus."""
        try:
            if await self._admit([incoming(self._bot.id, update)]):
                return
            reason = "the bus refuses it"
        except OUTAGES:
            raise
        except Exception as error:  # whatever its content did
            reason = f"the bus refuses it: {type(error).__name__}"
        if not await self._admit([set_aside(self._bot.id, update, reason)]):
            raise NotAdmittedError(1)
        log.error("update %s is set aside: %s", update_id(update), reason)

    async def _get_updates(self) -> list[Any]:
        """Poll. After answers that cannot be read, one update at a time: the one that cannot be is passed over."""
        try:
            updates = await self._poll_once(1 if self._singly else self._options.batch)
        except ClientDecodeError as error:
            if self._singly and (number := _number_in(error.data)) is not None:
                log.error("update %d cannot be read and is passed over: %s", number, type(error.original).__name__)
                self._offset = number + 1
                return []
            self._unread += 1
            if self._unread >= SINGLY_AFTER:
                self._unread, self._singly = 0, self._options.batch
            raise
        self._unread, self._singly = 0, max(0, self._singly - 1) if updates else 0
        return updates

    async def _poll_once(self, limit: int) -> list[Any]:
        options = self._options
        method = RawUpdates(
            offset=self._offset,
            limit=limit,
            timeout=options.poll_timeout_s,
            allowed_updates=list(ALLOWED_UPDATES),
        )
        try:
            async with asyncio.timeout(None) as self._poll:
                updates = await self._bot(
                    method, request_timeout=int(options.poll_timeout_s + options.request_timeout_s)
                )
        except TimeoutError:
            return []  # `stop` ended the poll, or the lease is lost; what it may have brought comes again
        finally:
            self._poll = None  # a poll that has ended cannot be ended: `stop` may come between two of them
        return cast("list[Any]", updates)

    async def _misfortune(self, error: Exception, failures: int) -> None:
        met = classify(error)
        if met.fault is TelegramFault.UNAUTHORIZED:
            raise BadToken from None
        wait_s = self._wait_s(met, failures)
        text = str(error) if isinstance(error, NotAdmittedError | NamelessError) else f"{met.fault}: {met.reason}"
        told = {"outage": "Telegram" if met.fault in _AWAY else away(error), "again_s": wait_s}
        log.warning("updates are not coming in, next attempt in %.1f s: %s", wait_s, text, extra=told)
        if met.fault is TelegramFault.CONFLICT:
            await self._give_back()
        await self._pause(wait_s)

    def _wait_s(self, met: Classified, failures: int) -> float:
        if met.fault is TelegramFault.FLOOD:
            return float(met.retry_after_s)
        options = self._options
        ceiling = min(options.backoff_cap_s, options.backoff_base_s * 2 ** min(failures, 16))
        return random.uniform(ceiling / 2, ceiling)

    async def _full(self) -> bool:
        try:
            return await self._depth() >= self._options.max_depth
        except Exception as error:  # the bus is away; what it is does not matter here
            log.warning("the queue's depth is unknown: %s", type(error).__name__, extra={"outage": away(error)})
            return True

    async def _keep_lease(self) -> None:
        while self._lease is not None:
            try:
                async with asyncio.timeout(2 * self._options.renew_s):
                    held = await self._lease.hold()
            except Exception as error:  # as above
                told = {"outage": away(error) or VALKEY}  # also when its answer took too long
                log.warning("the poller's lease cannot be renewed: %s", type(error).__name__, extra=told)
                held = False
            if held:
                self._held.set()
            elif self._held.is_set():
                self._held.clear()
                self._end_poll()  # the next holder's would be answered with 409
            await asyncio.sleep(self._options.renew_s)

    async def _give_back(self) -> None:
        """Let another poller have the lease. Without a lease the next attempt is simply later."""
        if self._lease is None:
            return
        self._held.clear()
        try:
            await self._lease.release()
        except Exception as error:  # it lapses by itself
            log.warning(
                "the poller's lease was not given back: %s", type(error).__name__, extra={"outage": away(error)}
            )

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


class NotAdmittedError(Exception):
    """The bus took not every update of a batch; the batch comes again."""

    def __init__(self, count: int) -> None:
        super().__init__(f"the bus did not admit every one of {count} updates")


class NamelessError(Exception):
    """No update of a batch has a number, so that none of them can be confirmed; they are on the bus."""

    def __init__(self, count: int) -> None:
        super().__init__(f"none of {count} updates has an update_id to confirm it by")


def _number_in(answer: object) -> int | None:
    """The number of the first update of an answer that says ok and cannot be read; None for a page of a proxy, say."""
    if not isinstance(answer, str) or not _OK.match(answer):
        return None
    found = _UPDATE_ID.search(answer)
    return int(found[1]) if found else None
