"""Serves /metrics to Prometheus: every queue's numbers, and what the workers of this process do.

The port answers from a thread of its own, so a busy event loop shows in the numbers and does not hide them. The queues
are looked at on a beat, never because somebody asks. The port has no password: by default only this machine reaches it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, disable_created_metrics, start_http_server

from codemojex.engine.errors import ConnectionFault, EngineError
from codemojex.engine.transport.connector import Connector
from codemojex.engine.waiting import wait
from codemojex.ops.game_metrics import GameMetrics
from codemojex.ops.metrics import QueueMetrics, WorkerMetrics
from codemojex.play.context import Options

_BEAT_S = 5.0
_log = logging.getLogger(__name__)


class Exporter:
    """The open port, from now on until `close`. `run` keeps the queues' numbers fresh until `stop`.

    Hand `observe` and `middleware` to what shall be counted. Raises OSError when the port cannot be had; port 0 takes
    any, and `port` says which.
    """

    def __init__(self, host: str, port: int, *, beat_s: float = _BEAT_S) -> None:
        disable_created_metrics()  # the client's `…_created` series say only when counting began, twice the text
        registry = CollectorRegistry()
        self._queues = QueueMetrics(registry)
        self._games = GameMetrics(registry)
        self._beat_s = beat_s
        self._stop = asyncio.Event()
        self._looks: tuple[Connector, Sequence[str], Options | None] | None = None
        workers = WorkerMetrics(registry)
        self.observe = workers.observe
        self.middleware = workers.middleware
        self._server, self._thread = start_http_server(port, host, registry)
        self.port = self._server.server_port
        _log.info("metrics at http://%s:%d/metrics", host, self.port)

    def look_at(self, bus: Connector, queues: Sequence[str], options: Options | None = None) -> None:
        """Say which queues `run` looks at; with `options` also at the finished games that wait for the archive."""
        self._looks = bus, tuple(queues), options

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    async def run(self) -> None:
        """Look at the queues until `stop`; while a server is away the numbers age."""
        while self._looks and not self._stop.is_set():
            bus, queues, options = self._looks
            try:
                await self._queues.refresh(bus, queues)
                if options is not None:
                    await self._games.refresh(bus, options)
            except EngineError as error:
                away = "Valkey" if isinstance(error, ConnectionFault) else None
                _log.warning("the queues' numbers age: %s", error, extra={"outage": away})
            await wait(self._stop, self._beat_s)

    async def close(self) -> None:
        """Close the port."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()
        self._thread.join(1)
