"""One poller per bot: a lease in Valkey, taken and renewed by one script, given back by another.

The holder is known by a random token, so a lease that lapsed and went to somebody else is neither renewed nor
released by the old holder. Two pollers for a moment would do no harm, because updates are admitted once; they would
only disturb each other.
"""

from __future__ import annotations

import secrets

from codemojex.engine import validation
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play


class PollerLease:
    """The right to poll for one bot, for `lease_ms` after each `hold`: so long nobody polls after a holder's death."""

    def __init__(self, play: Play, bot_id: int, lease_ms: int = 3_000) -> None:
        self._play = play
        self._key = keys.poller(play.options, bot_id)
        self._lease_ms = validation.integer("lease_ms", lease_ms, 1, 3_600_000)
        self._token = secrets.token_hex(16)

    async def hold(self) -> bool:
        """Take or renew the lease; False while somebody else has it."""
        return bool(await self._play.bus.run(LUA.script("poller_hold"), [self._key], [self._token, self._lease_ms]))

    async def release(self) -> None:
        """Give the lease back, if it is still ours."""
        await self._play.bus.run(LUA.script("poller_release"), [self._key], [self._token])
