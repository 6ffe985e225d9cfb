"""A way to the servers that tells how long each round trip took.

`connector.pipeline.stop` comes after every command and every pipeline, with `error` when it raised. Blocking waits
are not told: they last as long as nothing happens. Without an observer nobody goes this way, and nothing is paid.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Any

from codemojex.engine.observer import Observe
from codemojex.engine.transport.node import Command
from codemojex.engine.transport.topology import Transport


class Timed:
    """`way`, observed."""

    def __init__(self, way: Transport, observe: Observe) -> None:
        self._way = way
        self._observe = observe
        self.blocking = way.blocking
        self.renew = way.renew
        self.subscriber = way.subscriber
        self.close = way.close

    async def execute(self, command: Command) -> Any:  # a reply has no narrower type
        return await self._timed(self._way.execute(command), 1)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        return await self._timed(self._way.pipeline(commands), len(commands))

    async def teach(self, command: Command, key: str | None) -> Any:
        return await self._timed(self._way.teach(command, key), 1)

    async def at(self, key: str, command: Command) -> Any:
        return await self._timed(self._way.at(key, command), 1)

    async def _timed(self, call: Awaitable[Any], commands: int) -> Any:  # as above
        began = time.monotonic()
        data: dict[str, object] = {"commands": commands}
        try:
            return await call
        except BaseException as error:
            data["error"] = type(error).__name__
            raise
        finally:
            self._observe("connector.pipeline.stop", {**data, "duration": (time.monotonic() - began) * 1000})
