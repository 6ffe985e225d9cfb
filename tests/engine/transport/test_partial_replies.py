"""A pipeline may be answered in part: who needs every reply says so, and who asks a server asks the queue's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from codemojex.engine.errors import EngineError, ServerError, Unavailable
from codemojex.engine.inspection import metrics
from codemojex.engine.jobs import pubsub
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import Every, cron
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.transport import key_slots
from codemojex.engine.transport.connector import Connector
from codemojex.engine.transport.node import Command
from tests.engine.bench import Bench


class Tampered(Connector):
    """A connector whose pipelines have `fault` in place of their last reply, and that notes commands without a key."""

    def __init__(self, bus: Connector, fault: EngineError | None = None) -> None:
        super().__init__(bus._transport)
        self._fault = fault
        self.keyless: list[str] = []

    async def execute(self, *command: Any) -> Any:
        if key_slots.slot(command) is None:
            self.keyless.append(str(command[0]))
        return await super().execute(*command)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        replies = await super().pipeline(commands)
        return [*replies[:-1], self._fault] if self._fault else replies


VERBS: dict[str, Callable[[Connector, str], Awaitable[object]]] = {
    "metrics.get_counts": lambda bus, queue: metrics.get_counts(bus, queue, ["pending", "completed"]),
    "metrics.counts": metrics.counts,
    "limits.require_seat": limits.require_seat,
    "lanes.names": lanes.names,
    "repeat.get": lambda bus, queue: repeats.get(bus, queue, "often"),
    "repeat.fire_due": repeats.fire_due,
    "connector.all": lambda bus, queue: bus.all([("GET", queue), ("GET", queue)]),
}


@pytest.mark.parametrize("fault", [Unavailable("LOADING: its node is not there now"), ServerError("ERR no")])
@pytest.mark.parametrize("verb", VERBS)
async def test_a_reply_that_is_missing_is_raised_and_not_taken_for_a_value(
    bench: Bench, verb: str, fault: EngineError
) -> None:
    await repeats.register(bench.bus, bench.queue, Repeat("often", Every(60_000), b"x"))
    bus = Tampered(bench.bus, fault)
    with pytest.raises(type(fault), match=str(fault)):
        await VERBS[verb](bus, bench.queue)


async def test_repeats_take_the_time_from_their_queues_own_server(bench: Bench) -> None:
    bus = Tampered(bench.bus)
    await repeats.register(bus, bench.queue, Repeat("daily", cron("0 4 * * *", "UTC"), b"x"))
    await repeats.update(bus, bench.queue, Repeat("daily", cron("0 5 * * *", "UTC"), b"x"))
    assert await repeats.advance(bus, bench.queue, "daily")
    assert bus.keyless == []


async def test_a_command_without_a_key_is_answered_by_a_single_server_too(bench: Bench) -> None:
    seconds, _ = await bench.bus.at(bench.space.prefix, "TIME")
    assert int(seconds) > 1_700_000_000


async def test_publishers_are_told_how_many_listen(bench: Bench) -> None:
    async with (
        pubsub.subscribe(bench.bus, bench.queue) as one,
        pubsub.subscribe(bench.bus, bench.queue) as two,
    ):
        assert await pubsub.publish(bench.bus, bench.queue, "said", bench.id()) == 2
        async with asyncio.timeout(15):
            assert [(await anext(heard)).name for heard in (one, two)] == ["said", "said"]
