"""Shows finished games that wait for the archive to Prometheus, per queue of guesses, from a snapshot of `refresh`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from codemojex.engine.transport.connector import Connector
from codemojex.play.archive import backlog
from codemojex.play.archive.backlog import Backlog
from codemojex.play.context import Options

_FAMILIES: tuple[tuple[str, str, Callable[[Backlog], float]], ...] = (
    ("codemojex_unarchived_games", "Finished games that the archive does not hold.", lambda b: b.games),
    ("codemojex_unarchived_games_aside", "Those that the store refused.", lambda b: b.aside),
    ("codemojex_unarchived_games_limit", "From so many on no new game begins.", lambda b: b.limit),
    ("codemojex_oldest_unarchived_game_age_seconds", "Since when the oldest waits.", lambda b: b.oldest_ms / 1000),
)


class GameMetrics(Collector):
    """Collects the families above. Give it to a registry, and call `refresh` on a beat."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: dict[str, Backlog] = {}
        registry.register(self)

    async def refresh(self, bus: Connector, options: Options) -> None:
        """Look at every queue of guesses."""
        self._seen = await backlog.read(bus, options)

    def collect(self) -> Iterator[Metric]:
        """What a scrape sees."""
        for name, text, number in _FAMILIES:
            metric = GaugeMetricFamily(name, text, labels=["queue"])
            for queue, seen in self._seen.items():
                metric.add_metric([queue], number(seen))
            yield metric
