"""The updates that wait for the bot: kept until the bot confirms them, handed out by getUpdates.

Only a later `offset` confirms; a long poll wakes at once; a second poller throws out the first with 409. Updates
live 24 hours, pressed buttons 150 seconds. `allowed_updates` sticks until the bot names another list.
"""

import asyncio
from collections.abc import Callable

from codemojex.local_telegram.errors import Json, bad_request, conflict
from codemojex.local_telegram.state.clock import TelegramClock
from codemojex.local_telegram.state.model import CALLBACK_LIFE_S, State, WaitingUpdate

UPDATES_LIMIT = 20_000
UPDATE_LIFE_S = 24 * 3600
OFF_BY_DEFAULT = {"chat_member", "message_reaction", "message_reaction_count"}


class UpdateQueue:
    """The update queue of the bot."""

    def __init__(self, state: State, clock: TelegramClock, touch: Callable[[], None]) -> None:
        self._state = state
        self._clock = clock
        self._touch = touch
        self._poll: asyncio.Future[None] | None = None
        self._wakers: list[asyncio.Future[None]] = []

    def push(self, kind: str, body: Json) -> int | None:
        """Queue an update and return its id; `None` when the bot does not want that kind."""
        allowed = self._state.bot.allowed_updates
        if kind not in allowed if allowed else kind in OFF_BY_DEFAULT:
            return None
        # A copy: an update shows the message as it was, whatever is edited before the bot reads it.
        pending = WaitingUpdate(self._state.next_update_id, kind, dict(body), self._clock.now())
        self._state.next_update_id += 1
        self._state.updates.append(pending)
        if len(self._state.updates) > UPDATES_LIMIT:
            del self._state.updates[: len(self._state.updates) - UPDATES_LIMIT]
        self._touch()
        self.wake()
        return pending.update_id

    def wake(self) -> None:
        """Let the waiting poll and the webhook look again."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)
        for waker in self._wakers:
            if not waker.done():
                waker.set_result(None)
        self._wakers.clear()

    def waiting(self) -> list[WaitingUpdate]:
        """The living unconfirmed updates, oldest first."""
        now = self._clock.now()
        self._state.updates[:] = [
            update
            for update in self._state.updates
            if now - update.born_at < (CALLBACK_LIFE_S if update.kind == "callback_query" else UPDATE_LIFE_S)
        ]
        return self._state.updates

    def confirm(self, offset: int) -> None:
        """Forget the updates below `offset`; a negative one keeps only that many of the newest."""
        waiting = self.waiting()
        kept = waiting[offset:] if offset < 0 else [update for update in waiting if update.update_id >= offset]
        if len(kept) != len(waiting):
            self._state.updates[:] = kept
            self._touch()

    def allow(self, kinds: list[str] | None) -> None:
        """Remember which kinds the bot wants; `None` leaves it as it was, an empty list is the default set."""
        if kinds is not None and kinds != self._state.bot.allowed_updates:
            self._state.bot.allowed_updates = list(kinds)
            self._touch()

    async def poll(self, offset: int | None, limit: int | None, timeout_s: int | None) -> list[Json]:
        """The getUpdates call: confirm, then return what waits or wait for something, at most 50 s."""
        if self._state.bot.webhook.url:
            raise conflict(
                "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
            )
        if self._poll is not None and not self._poll.done():
            self._poll.set_exception(
                conflict("terminated by other getUpdates request; make sure that only one bot instance is running")
            )
        count = limit if limit and 1 <= limit <= 100 else 100
        if offset:
            self.confirm(offset)
        if not self.waiting() and timeout_s and timeout_s > 0:
            self._poll = mine = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(min(timeout_s, 50)):
                    await mine
            except TimeoutError:
                pass
            finally:
                if self._poll is mine:
                    self._poll = None
        return [{"update_id": update.update_id, update.kind: update.body} for update in self.waiting()[:count]]

    async def arrival(self, timeout_s: float) -> None:
        """Wait until something may have arrived, at most `timeout_s`."""
        waker = asyncio.get_running_loop().create_future()
        self._wakers.append(waker)
        try:
            async with asyncio.timeout(timeout_s):
                await waker
        except TimeoutError:
            pass
        finally:
            if waker in self._wakers:
                self._wakers.remove(waker)

    def end_poll(self) -> None:
        """A webhook was set: the waiting poll ends as on the real server."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_exception(conflict("terminated by setWebhook request"))


def check_kinds(kinds: list[str] | None, known: set[str]) -> None:
    """Refuse a kind of update that the Bot API does not know: a typing error would silence the bot."""
    for kind in kinds or []:
        if kind not in known:
            raise bad_request(f"can't parse allowed updates: unknown update type {kind!r}")
