"""What a consumer group promises: at least once, nobody blocked, poison put aside, no reader missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from codemojex.engine import keyspace
from codemojex.engine.clock import SystemClock
from codemojex.engine.errors import InvalidValue, ServerError, Unavailable
from codemojex.engine.ids import Minter
from codemojex.engine.streams import streams
from codemojex.engine.streams.consumer import GroupOptions, GroupReader, TryLater, read_quarantine
from codemojex.engine.streams.record import Record
from codemojex.engine.transport.connector import Connector

QUICK = GroupOptions(
    batch=10, max_deliveries=3, retry_base_ms=10, retry_cap_ms=40, claim_idle_ms=200, drop_idle_ms=1, block_ms=5_000
)
MINT = Minter(11, SystemClock())


class Handler:
    """Remembers what it got; `answer` decides."""

    def __init__(self, answer: Callable[[list[Record]], Awaitable[Collection[str] | None]] | None = None) -> None:
        self.batches: list[list[tuple[str, int]]] = []
        self.done: list[str] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self._answer = answer
        self._changed = asyncio.Event()

    async def __call__(self, records: list[Record]) -> Collection[str] | None:
        self.batches.append([(r.text("n"), r.deliveries) for r in records])
        self._changed.set()
        failed = await self._answer(records) if self._answer else None
        self.done += [r.text("n") for r in records if r.id not in (failed or ())]
        self._changed.set()
        return failed

    def observe(self, event: str, data: dict[str, object]) -> None:
        self.events.append((event, data))
        self._changed.set()

    def saw(self, event: str) -> int:
        return sum(1 for name, _ in self.events if name == f"group.{event}")

    async def until(self, true: Callable[[], bool], deadline_s: float = 10.0) -> None:
        async with asyncio.timeout(deadline_s):
            while not true():
                self._changed.clear()
                await self._changed.wait()


def reader(
    bus: Connector, queue: str, handler: Handler, consumer: str = "c1", options: GroupOptions = QUICK
) -> GroupReader:
    return GroupReader(bus, queue, "s", "g", consumer, handler, options=options, observe=handler.observe)


@asynccontextmanager
async def running(group_reader: GroupReader) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(group_reader.run())
    try:
        yield task
    finally:
        group_reader.stop()
        async with asyncio.timeout(15):
            await task


async def put(bus: Connector, queue: str, *names: str) -> None:
    for name in names:
        await streams.append(bus, queue, "s", {"n": name}, MINT)


async def pending(bus: Connector, queue: str) -> int:
    return (await bus.execute("XPENDING", keyspace.of(queue).stream("s"), "g"))[0]


async def test_every_record_is_handled_in_order_and_acknowledged(bus: Connector, queue: str) -> None:
    await put(bus, queue, *map(str, range(25)))
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: len(handler.done) == 25)
        await put(bus, queue, "later")
        await handler.until(lambda: "later" in handler.done)
    assert handler.done == [*map(str, range(25)), "later"]
    assert [len(b) for b in handler.batches] == [10, 10, 5, 1]
    assert await pending(bus, queue) == 0


async def test_a_new_group_begins_where_it_was_told(bus: Connector, queue: str) -> None:
    await put(bus, queue, "old")
    handler = Handler()
    async with running(reader(bus, queue, handler, options=GroupOptions(start="new"))):
        key = keyspace.of(queue).stream("s")
        async with asyncio.timeout(15):
            while not await bus.execute("XINFO", "GROUPS", key):
                await asyncio.sleep(0.01)
        await put(bus, queue, "new")
        await handler.until(lambda: bool(handler.done))
    assert handler.done == ["new"]


async def test_an_entry_that_fails_comes_again_alone_and_does_not_block_new_ones(bus: Connector, queue: str) -> None:
    async def answer(records: list[Record]) -> Collection[str] | None:
        return {r.id for r in records if r.text("n") == "bad" and r.deliveries < 3}

    handler = Handler(answer)
    await put(bus, queue, "a", "bad", "b")
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: len(handler.done) == 2)
        await put(bus, queue, "c")
        await handler.until(lambda: len(handler.done) == 4)
    assert handler.done[:2] == ["a", "b"]
    assert {"bad", "c"} == set(handler.done[2:])
    assert [b for b in handler.batches if b[0][0] == "bad"] == [[("bad", 2)], [("bad", 3)]]
    assert await pending(bus, queue) == 0


async def test_a_handler_that_raises_fails_its_batch_and_then_only_the_guilty(bus: Connector, queue: str) -> None:
    async def answer(records: list[Record]) -> None:
        if any(r.text("n") == "bad" for r in records):
            raise ValueError("bad apple")

    handler = Handler(answer)
    await put(bus, queue, "a", "bad", "b")
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: handler.saw("quarantined") == 1)
    assert sorted(handler.done) == ["a", "b"]
    [poison] = await read_quarantine(bus, queue, "s")
    assert poison.text("field:n") == "bad"
    assert (poison.text("group"), poison.text("error"), poison.text("deliveries")) == (
        "g",
        "ValueError: bad apple",
        "3",
    )
    [_, original, _] = await streams.read(bus, queue, "s")
    assert (poison.text("stream_id"), poison.text("field:id")) == (original.stream_id, original.id)
    assert await pending(bus, queue) == 0
    assert await bus.execute("PTTL", keyspace.of(queue).stream("s") + ":quarantine") > 0


async def test_the_quarantine_is_bounded(bus: Connector, queue: str) -> None:
    async def answer(records: list[Record]) -> Collection[str]:
        return {r.id: "no" for r in records}

    handler = Handler(answer)
    await put(bus, queue, *map(str, range(6)))
    options = GroupOptions(max_deliveries=1, quarantine_len=4, retry_base_ms=5)
    async with running(reader(bus, queue, handler, options=options)):
        await handler.until(lambda: handler.saw("quarantined") == 6)
    assert [r.text("field:n") for r in await read_quarantine(bus, queue, "s")] == ["5", "4", "3", "2"]


async def test_an_entry_that_kills_its_readers_is_quarantined_without_another_try(bus: Connector, queue: str) -> None:
    await put(bus, queue, "deadly")
    key = keyspace.of(queue).stream("s")
    await bus.execute("XGROUP", "CREATE", key, "g", "0")
    await bus.execute("XREADGROUP", "GROUP", "g", "c1", "STREAMS", key, ">")
    for _ in range(2):
        await bus.execute("XREADGROUP", "GROUP", "g", "c1", "STREAMS", key, "0")
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: handler.saw("quarantined") == 1)
    assert handler.batches == []
    assert await pending(bus, queue) == 0


async def test_surroundings_that_fail_charge_no_delivery_and_quarantine_nothing(bus: Connector, queue: str) -> None:
    tries = 0

    async def answer(records: list[Record]) -> None:
        nonlocal tries
        tries += 1
        if tries <= 8:
            raise TryLater("the store is away") if tries % 2 else Unavailable("the store is away")

    handler = Handler(answer)
    await put(bus, queue, "a", "b")
    async with running(reader(bus, queue, handler, options=GroupOptions(max_deliveries=2, retry_base_ms=1))):
        await handler.until(lambda: len(handler.done) == 2)
    assert handler.batches == [[("a", 1), ("b", 1)]] * 9
    assert handler.saw("quarantined") == handler.saw("failed") == 0


async def test_what_a_reader_left_behind_comes_first_when_it_starts_again(bus: Connector, queue: str) -> None:
    await put(bus, queue, "1", "2")
    key = keyspace.of(queue).stream("s")
    await bus.execute("XGROUP", "CREATE", key, "g", "0")
    await bus.execute("XREADGROUP", "GROUP", "g", "c1", "STREAMS", key, ">")
    await put(bus, queue, "3")
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: len(handler.done) == 3)
    assert handler.batches == [[("1", 2)], [("2", 2)], [("3", 1)]]


async def test_a_long_backlog_is_taken_page_by_page(bus: Connector, queue: str) -> None:
    await put(bus, queue, *map(str, range(35)))
    key = keyspace.of(queue).stream("s")
    await bus.execute("XGROUP", "CREATE", key, "g", "0")
    await bus.execute("XREADGROUP", "GROUP", "g", "c1", "STREAMS", key, ">")
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: len(handler.done) == 35)
    assert handler.done == [*map(str, range(35))]


async def test_the_entries_of_a_dead_reader_are_taken_over_and_it_is_forgotten(bus: Connector, queue: str) -> None:
    await put(bus, queue, *map(str, range(25)))
    key = keyspace.of(queue).stream("s")
    await bus.execute("XGROUP", "CREATE", key, "g", "0")
    await bus.execute("XREADGROUP", "GROUP", "g", "dead", "STREAMS", key, ">")
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: len(handler.done) == 25 and handler.saw("consumers_dropped") == 1)
    names = [c[b"name"] for c in await bus.execute("XINFO", "CONSUMERS", key, "g")]
    assert names == [b"c1"]
    assert all(deliveries == 2 for batch in handler.batches for _, deliveries in batch)


async def test_a_slow_handler_keeps_its_entries_to_itself(bus: Connector, queue: str) -> None:
    release = asyncio.Event()

    async def answer(records: list[Record]) -> None:
        await release.wait()

    slow, other = Handler(answer), Handler()
    options = replace(QUICK, claim_idle_ms=600)
    await put(bus, queue, "slow")
    async with running(reader(bus, queue, slow, "slow", options)):
        await slow.until(lambda: bool(slow.batches))
        async with running(reader(bus, queue, other, "other", options)):
            await put(bus, queue, *map(str, range(3)))
            await other.until(lambda: len(other.done) == 3)
            for _ in range(9):
                await asyncio.sleep(0.15)
            release.set()
            await slow.until(lambda: bool(slow.done))
    assert "slow" not in other.done
    assert len(slow.batches) == 1


async def test_a_handler_that_never_ends_is_a_failure(bus: Connector, queue: str) -> None:
    async def answer(records: list[Record]) -> None:
        if records[0].deliveries == 1:
            await asyncio.Event().wait()

    handler = Handler(answer)
    await put(bus, queue, "a")
    async with running(reader(bus, queue, handler, options=GroupOptions(handler_timeout_ms=30, retry_base_ms=5))):
        await handler.until(lambda: handler.done == ["a"])
    assert handler.saw("failed") == 1


async def test_a_trimmed_entry_is_acknowledged(bus: Connector, queue: str) -> None:
    await put(bus, queue, "gone", "here")
    key = keyspace.of(queue).stream("s")
    await bus.execute("XGROUP", "CREATE", key, "g", "0")
    await bus.execute("XREADGROUP", "GROUP", "g", "c1", "STREAMS", key, ">")
    await bus.execute("XTRIM", key, "MAXLEN", "=", 1)
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: handler.done == ["here"])
    assert await pending(bus, queue) == 0


async def test_a_group_that_vanished_is_made_again_and_old_records_do_not_come_twice(
    bus: Connector, queue: str
) -> None:
    await put(bus, queue, "1")
    handler = Handler()
    async with running(reader(bus, queue, handler)):
        await handler.until(lambda: handler.done == ["1"])
        await bus.execute("XGROUP", "DESTROY", keyspace.of(queue).stream("s"), "g")
        await put(bus, queue, "2")
        await handler.until(lambda: handler.done == ["1", "2"])
        await bus.execute("DEL", keyspace.of(queue).stream("s"))
        await put(bus, queue, "3")
        await handler.until(lambda: handler.done == ["1", "2", "3"])
    assert handler.saw("recreated") >= 2


async def test_a_reader_survives_a_server_that_comes_back_empty(start_valkey: Any, queue: str) -> None:
    server = start_valkey()
    bus = await Connector.connect(server.url, timeout_s=1)
    handler = Handler()
    try:
        async with running(reader(bus, queue, handler)):
            await put(bus, queue, "1")
            await handler.until(lambda: handler.done == ["1"])
            server.kill()
            await handler.until(lambda: handler.saw("fault") >= 2)
            server.start()
            await put(bus, queue, "2")
            await handler.until(lambda: handler.done == ["1", "2"])
    finally:
        await bus.close()


async def test_stop_ends_a_waiting_reader_at_once_and_a_working_one_after_its_work(bus: Connector, queue: str) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def answer(records: list[Record]) -> None:
        entered.set()
        await release.wait()

    handler = Handler(answer)
    working = reader(bus, queue, handler)
    task = asyncio.create_task(working.run())
    await put(bus, queue, "a")
    async with asyncio.timeout(15):
        await entered.wait()
        working.stop()
        release.set()
        await task
    assert handler.done == ["a"]
    assert await pending(bus, queue) == 0
    waiting = reader(bus, queue, Handler(), options=GroupOptions(block_ms=60_000))
    task = asyncio.create_task(waiting.run())
    await asyncio.sleep(0.05)
    waiting.stop()
    async with asyncio.timeout(15):
        await task


async def test_a_waiting_reader_hears_a_new_record_without_polling(bus: Connector, queue: str) -> None:
    handler = Handler()
    async with running(reader(bus, queue, handler, options=GroupOptions(claim_idle_ms=600_000, block_ms=60_000))):
        await put(bus, queue, "1")
        await handler.until(lambda: handler.done == ["1"])
        before = (await bus.execute("INFO", "commandstats")).decode()
        await asyncio.sleep(0.15)
        after = (await bus.execute("INFO", "commandstats")).decode()

        def calls(text: str, command: str) -> str:
            return next(
                (line.split(",")[0] for line in text.splitlines() if line.startswith(f"cmdstat_{command}:")), ""
            )

        assert [calls(before, c) for c in ("xpending", "xautoclaim")] == [
            calls(after, c) for c in ("xpending", "xautoclaim")
        ]


async def test_a_key_that_is_no_stream_ends_the_reader_with_a_clear_error(bus: Connector, queue: str) -> None:
    await bus.execute("SET", keyspace.of(queue).stream("s"), "text")
    with pytest.raises(ServerError, match="WRONGTYPE"):
        await reader(bus, queue, Handler()).run()


@pytest.mark.parametrize("bad", [{"start": "somewhere"}, {"batch": 0}, {"batch": 2_000}, {"block_ms": 0}])
def test_options_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        GroupOptions(**bad)


async def test_what_an_abandoned_wait_was_given_is_handled_before_the_reader_ends(bus: Connector, queue: str) -> None:
    given = asyncio.Event()

    class LosesAnswers(Connector):
        async def blocking(self, *command: Any, wait_s: float) -> Any:
            await super().blocking(*command, wait_s=wait_s)
            given.set()
            await asyncio.Event().wait()

    handler = Handler()
    await put(bus, queue, "a")
    async with running(GroupReader(LosesAnswers(bus._transport), queue, "s", "g", "c1", handler, options=QUICK)):
        await given.wait()
    assert handler.done == ["a"]
    assert await pending(bus, queue) == 0


@pytest.mark.parametrize(
    "answer",
    [
        lambda records: [r.stream_id for r in records],
        lambda records: [records[0].id, "EVT00000000000"],
        lambda records: records[0].id,
        lambda records: False,
        lambda records: [[records[0].id]],
    ],
    ids=["stream ids", "an unknown id", "one id as text", "False", "a list inside"],
)
async def test_an_answer_that_does_not_name_its_records_fails_them_all(
    bus: Connector, queue: str, answer: Callable[[list[Record]], Any]
) -> None:
    await put(bus, queue, "a", "b")
    told: list[tuple[str, dict[str, object]]] = []

    async def handle(records: list[Record]) -> Any:
        return answer(records) if len(records) == 2 else None

    options = replace(QUICK, retry_base_ms=60_000, retry_cap_ms=60_000)
    odd = GroupReader(bus, queue, "s", "g", "c1", handle, options=options, observe=lambda *event: told.append(event))
    async with running(odd):
        async with asyncio.timeout(10):
            while len(told) < 2:
                await asyncio.sleep(0.005)
        assert await pending(bus, queue) == 2
    assert [name for name, _ in told[:2]] == ["group.failed"] * 2


async def test_a_cancellation_of_the_handlers_own_and_a_timeout_are_failures_that_say_so(
    bus: Connector, queue: str
) -> None:
    await put(bus, queue, "cancelled", "late", "odd", "mute")

    class Odd(BaseException): ...

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def answer(records: list[Record]) -> None:
        match records[0].text("n"):
            case "cancelled":
                gone = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone
            case "late":
                await asyncio.Event().wait()
            case "odd":
                raise Odd("one")
            case _:
                raise Mute

    handler = Handler(answer)
    options = replace(QUICK, batch=1, max_deliveries=1, handler_timeout_ms=30)
    async with running(reader(bus, queue, handler, options=options)):
        await handler.until(lambda: handler.saw("quarantined") == 4)
    texts = [str(data["error"]) for name, data in handler.events if name == "group.failed"]
    assert "was cancelled" in texts[0]
    assert texts[1:3] == ["TimeoutError: timed out after 30 ms", "RuntimeError: Odd: one"]
    assert "without a text" in texts[3]
