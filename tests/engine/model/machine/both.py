"""A queue here and one there, the model's and the server's, for the rules of queues."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from codemojex.engine import keyspace
from codemojex.engine.inspection.audit import audit
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import lane
from tests.engine.model.machine.story import CLIENTS, Story
from tests.engine.model.plain.state import Queue, World
from tests.engine.model.plain.stored import compare

QUEUES = ("m.here", "m.there")
LANE_NAMES = (lane(1), lane(2), "ROM" + lane(3)[3:])
BY = st.sampled_from([(client, queue) for client in range(CLIENTS) for queue in (0, 0, 0, 1)])
LANES = st.sampled_from(LANE_NAMES)
NAMES = st.sampled_from([None, *LANE_NAMES])
AUDITS = ("audit_jobs", "audit_active", "audit_lanes")


class Both(Story):
    """Three clients of two queues."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.queues = {name: Queue(name, self.world) for name in QUEUES}
        self.prefixes = {name: keyspace.of(name).prefix for name in QUEUES}

    def at(self, by: tuple[int, int]) -> tuple[Connector, Queue]:
        """A client's connection, and a queue."""
        return self.buses[by[0]], self.world.queues[QUEUES[by[1]]]

    def id(self) -> str:
        return self.minter.mint("JOB")

    def audits(self) -> list[tuple[Any, ...]]:
        looks: list[tuple[Any, ...]] = []
        for name, q in self.world.queues.items():
            if q.rows or q.meta:
                for look, of in zip(AUDITS, [("", *q.rows), (), LANE_NAMES], strict=True):
                    looks.append(("EVALSHA", ENGINE.script(look).sha, 1, self.prefixes[name], 0, *of))
        return looks

    def agree(self, found: dict[str, Any], ends: dict[str, float], now: int) -> None:
        self._heard()
        compare(self.world, self.prefixes, found, ends, now)

    def _heard(self) -> None:
        """What was published, in its order, each event to its queue's channel."""
        heard = [(channel.decode(), msgspec.json.decode(text)) for channel, text in self.wires[0].heard]
        self.wires[0].heard.clear()
        assert heard == [(f"{self.prefixes[name]}events", event) for name, event in self.world.heard]
        self.world.heard.clear()

    def teardown(self) -> None:
        """The whole audit finds nothing that its parts did not look at."""
        for name in () if self.failing else QUEUES:
            assert self.do(audit(self.buses[0], name)) == []
