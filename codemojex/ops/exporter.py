"""Serves /metrics to Prometheus: every queue's numbers, and what the workers of this process do.

The port answers from a thread of its own, so a busy event loop shows in the numbers and does not hide them. The queues
are looked at on a beat, never because somebody asks. The port has no password: by default only this machine reaches it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, disable_created_metrics, start_http_server

from codemojex.engine.connector import Connector
from codemojex.engine.errors import ConnectionFault, EngineError
from codemojex.engine.waiting import wait
from codemojex.ops.metrics import QueueMetrics, WorkerMetrics

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
        self._beat_s = beat_s
        self._stop = asyncio.Event()
        self._looks: tuple[Connector, Sequence[str]] | None = None
        workers = WorkerMetrics(registry)
        self.observe = workers.observe
        self.middleware = workers.middleware
        self._server, self._thread = start_http_server(port, host, registry)
        self.port = self._server.server_port
        _log.info("metrics at http://%s:%d/metrics", host, self.port)

    def look_at(self, bus: Connector, queues: Sequence[str]) -> None:
        """Say which queues `run` looks at."""
        self._looks = bus, tuple(queues)

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    async def run(self) -> None:
        """Look at the queues until `stop`; while a server is away the numbers age."""
        while self._looks and not self._stop.is_set():
            try:
                await self._queues.refresh(*self._looks)
            except EngineError as error:
                away = "Valkey" if isinstance(error, ConnectionFault) else None
                _log.warning("the queues' numbers age: %s", error, extra={"outage": away})
            await wait(self._stop, self._beat_s)

    async def close(self) -> None:
        """Close the port."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()
        self._thread.join(1)
