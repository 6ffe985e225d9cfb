"""Every parameter of every verb, and of everything that is handed to one, refuses values of the wrong kind.

The parameters are found by their annotations, so a new one is tried as well. What is tried is not out of range but of
another type, or of the right type and still nothing that can be sent: a bool, a fraction, NaN, a lone surrogate.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.backoff import Exponential, Fixed
from codemojex.engine.cache import near_cache
from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.cache.options import CacheOptions
from codemojex.engine.errors import EngineError, InvalidInput, InvalidValue
from codemojex.engine.flows.flows import Flow
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import jobs, pubsub, settlement
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import Dedup, Enqueued, NewJob
from codemojex.engine.jobs.outcome import Complete, Delay, Park, Retry
from codemojex.engine.jobs.removal_marks import LockPlane
from codemojex.engine.jobs.settlement import Policy, Settlement
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.maintenance.retention_loop import DeadLetters, MaxAge, RetentionLoop, RetentionPolicy
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import All, Cron, Every, Skip
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.streams import streams
from codemojex.engine.streams.consumer import GroupOptions, GroupReader
from codemojex.engine.streams.retention import MaxLen, MinId
from codemojex.engine.testing import FaultyConnector
from codemojex.engine.transport import url
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane
from tests.engine.verbs import LANE, RECORD, UNKNOWN, VERBS, Stage


async def answering(given: object) -> None:
    """A handler of anything."""


def unawaited(given: object) -> None:
    """A handler that nobody can await."""


LONE = "a\ud800"
NO_INT: tuple[Any, ...] = (True, 1.5, 5.0, math.nan, math.inf, "5", b"5")
NO_FLOAT: tuple[Any, ...] = (True, math.nan, math.inf, -math.inf, "5")
NO_STR: tuple[Any, ...] = (LONE, 5, b"text", True)
NO_BYTES: tuple[Any, ...] = ("text", 5, bytearray(b"x"), memoryview(b"x"))
NO_LIST: tuple[Any, ...] = (5, True, "text", b"text", [5], [None])
NO_HANDLER: tuple[Any, ...] = (5, "x")  # a plain function is one: it runs in a thread
NO_BUS: tuple[Any, ...] = (None, 5, "valkey://somewhere", unawaited, Connector)
BUS = Connector(cast("Any", None))  # leads nowhere

# A good value of every parameter that has no default, by its name.
GOOD: dict[str, Any] = {
    "queue": "q", "job_id": UNKNOWN, "id": UNKNOWN, "parent_id": UNKNOWN, "record_id": RECORD, "lane": LANE,
    "payload": b"", "template": b"", "fields": {"a": "b"}, "key": "key", "name": "tick", "stream": "s", "group": "g",
    "consumer": "c", "token": "1", "error": "no", "reason": "why", "event": "done", "line": "x", "progress": "x",
    "n": 5, "ms": 5, "for_ms": 5, "delay_ms": 5, "lease_ms": 5, "ttl_ms": 5, "window_ms": 5, "size": 5, "node": 5,
    "run_at_ms": 5, "max_jobs": 5, "duration_ms": 5, "rate_per_s": 5, "burst": 5, "since": 5, "until": 5, "start": 5,
    "mint": Minter(1), "window": MaxLen(5), "schedule": Every(5), "repeat": Repeat("r", Every(5), b""),
    "job": NewJob(UNKNOWN, b""), "flow": Flow(NewJob(UNKNOWN, b"")), "expression": "* * * * *", "handler": answering,
    "held": [(UNKNOWN, "1")], "leases": [(UNKNOWN, "1")], "lanes": [LANE], "names": [], "records": [], "jobs": [],
    "flows": [], "items": [], "texts": [], "policies": [], "namespace": "EVT", "snowflake": 5, "value": UNKNOWN,
    "stream_id": "1704067200000-1", "unix_ms": ids.EPOCH_MS, "table": "t", "url": "valkey://somewhere",
    "lua": "return 1", "effects": [], "seed": 5,
}  # fmt: skip
KINDS: dict[str, tuple[object, ...]] = {
    "int": NO_INT,
    "Instant": NO_INT,
    "float": NO_FLOAT,
    "str": NO_STR,
    "BrandedId": NO_STR,
    "bytes": NO_BYTES,
    "bool": (0, 1, "yes", 1.5),
    "Observe": (0, False, "x", []),
    "Callable[[Partition], None]": (0, "x"),
    "Handler": NO_HANDLER,
    "BatchHandler": NO_HANDLER,
    "Loader[T]": (0, "x"),
    "Clock": (0, 5, "x", unawaited, 1.5),
    "Shaper": (0, "x"),
    **dict.fromkeys(("WorkerOptions", "BatchOptions", "GroupOptions", "CacheOptions", "Policy"), (0, False, {}, "x")),
    "Sequence[Arg]": (5, True, "text", b"text", [None], [{}]),
    "Sequence[Middleware]": (*NO_LIST, [unawaited], [answering, None]),
}
# An error is kept whatever it is, as far as UTF-8 has it: who fails must not fail at saying so.
LENIENT = {"error"}
LISTS = ("Sequence[", "Iterable[")
VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
MADE = (
    Dedup, NewJob, Flow, Fixed, Exponential, Every, Cron, Skip, All, Repeat, MaxLen, MinId, MaxAge, RetentionPolicy,
    DeadLetters, Policy, GroupOptions, WorkerOptions, BatchOptions, CacheOptions, Minter, Pump, LockPlane, NodeLease,
    RetentionLoop, GroupReader, Worker, BatchWorker, NearCache, EffectBody, Effect, FaultyConnector,
    ids.encode, ids.parse, ids.derive, ids.from_stream_id, ids.min_for, ids.rebrand,
    ids.require, keyspace.of, keyspace.cache_prefix, keyspace.dedup_key, keyspace.repeat_name, url.parse_address,
)  # fmt: skip


def attempts(takes: Callable[..., Any], first: Mapping[str, object]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of `takes` with one bad value each, and what the bad one is."""
    parameters = inspect.signature(takes).parameters
    named = f"{takes.__module__.rpartition('.')[2]}.{takes.__name__}"
    good = {
        name: first[name] if name in first else GOOD[name]
        for name, parameter in parameters.items()
        if (parameter.default is parameter.empty and parameter.kind not in VARIABLE) or name in first
    }
    for name, parameter in parameters.items():
        kinds = str(parameter.annotation).split(" | ")
        bad = [value for kind in kinds for value in KINDS.get(kind, NO_LIST if kind.startswith(LISTS) else ())]
        if not bad or name in LENIENT or parameter.kind in VARIABLE:
            continue
        if "None" not in kinds:
            bad.append(None)
        for value in bad:
            if value == 5 and "Instant" in kinds and type(value) is int:
                continue  # an instant, and no wrong text
            yield f"{named}({name}={value!r})", partial(takes, **{**good, name: value})


def accepted(calls: Iterator[tuple[str, Callable[[], Any]]]) -> list[str]:
    """The calls that raise no InvalidInput with a reason, and what they did instead."""
    wrong: list[str] = []
    for what, call in calls:
        try:
            call()
        except InvalidInput as error:
            if len(str(error)) < 10:
                wrong.append(f"{what}: no reason")
        except Exception as error:
            wrong.append(f"{what}: {error!r}")
        else:
            wrong.append(what)
    return wrong


def test_whatever_is_made_refuses_values_of_another_kind() -> None:
    calls = [
        call
        for made in MADE
        for call in attempts(
            made, {"bus": BUS, "handler": answering} if made in (Worker, BatchWorker) else {"bus": BUS}
        )
    ]
    assert len(calls) > 300
    wrong = accepted(iter(calls))
    assert not wrong, "\n".join(wrong)


def test_whatever_is_made_with_a_bus_takes_a_connector_only() -> None:
    made = [each for each in (*MADE, pubsub.subscribe) if "bus" in inspect.signature(each).parameters]
    assert {Worker, BatchWorker, Pump, NodeLease, RetentionLoop, GroupReader, NearCache, LockPlane} <= {*made}
    for each in made:
        needed = inspect.signature(each).parameters.values()
        good = {p.name: GOOD[p.name] for p in needed if p.default is p.empty and p.name in GOOD}
        if each is Worker:
            good["handler"] = answering
        for bad in NO_BUS:
            with pytest.raises(InvalidValue, match="Connector"):
                each(**{**good, "bus": bad})


async def test_an_admission_says_what_is_wrong_with_its_bus() -> None:
    for bad in NO_BUS:
        with pytest.raises(InvalidValue, match="Connector"):
            await jobs.enqueue(bad, "q", UNKNOWN, b"")


def test_what_must_be_awaited_is_no_plain_function() -> None:
    handler: Any = unawaited
    with pytest.raises(InvalidValue, match="async"):
        GroupReader(BUS, "q", "s", "g", "c", handler)
    with pytest.raises(InvalidValue, match="async"):
        Worker(BUS, "q", answering, middleware=[handler])  # type: ignore[arg-type]


async def test_every_verb_refuses_values_of_another_kind_and_changes_nothing(bench: Bench) -> None:
    stage = await Stage.set(bench)
    before = await stage.dump()
    wrong: list[str] = []
    tried = 0
    for verb in VERBS:
        if verb.__module__.endswith("registry"):
            continue
        known = {"bus": bench.bus, "queue": bench.queue, "start": "-", "end": "+"}
        for what, call in attempts(verb, known):
            tried += 1
            try:
                await call()
            except InvalidInput:
                continue
            except Exception as error:
                wrong.append(f"{what}: {error!r}")
            else:
                wrong.append(what)
    assert not wrong, "\n".join(wrong)
    assert tried > 500
    assert await stage.dump() == before


OUT_OF_RANGE: tuple[Any, ...] = (-5.0, 1e300, -1, 10**30)
NO_KEYS: tuple[Any, ...] = ("key", ["{q}" + LONE], [b"k"], [5], None, 5)
NO_ARGS: tuple[Any, ...] = ("args", [LONE], [None], [True], [math.nan], [{}], None)
UNSENDABLE: tuple[Any, ...] = (None, True, {}, LONE)
OUTCOMES: tuple[Any, ...] = (
    *(Retry("no", value) for value in NO_INT),
    *(Retry("no", value) for value in OUT_OF_RANGE),
    *(made(value) for made in (Delay, Park) for value in (*NO_INT, *OUT_OF_RANGE)),
    Complete(effect="x"),  # type: ignore[arg-type]
    Complete(effect=Effect("other")),
    Complete(effect=Effect("note", keys=["elsewhere"])),
    "done",
    None,
    5,
)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=ascii)
async def test_an_outcome_that_cannot_be_sent_is_refused_whole_and_the_job_stays_in_flight(
    bench: Bench, outcome: Any
) -> None:
    note = EffectBody("note", "return 1")
    with pytest.raises(InvalidInput):
        settlement.check(bench.queue, outcome, [note])
    (job_id,) = await bench.fill([None])
    (job,) = await bench.take()
    before = await bench.raw("HGETALL", f"job:{job_id}")
    items = [Settlement(job.id, job.token, Retry("no")), Settlement(job.id, job.token, outcome)]
    with pytest.raises(InvalidInput):
        await settlement.settle_many(bench.bus, bench.queue, items, effects=[note])
    assert await bench.raw("HGETALL", f"job:{job_id}") == before
    await bench.sound()


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "5x", "1e300", "{}"])
async def test_a_peers_wait_that_is_none_is_a_verdict_and_writes_nothing(bench: Bench, wait: str) -> None:
    """What another engine sends passes no check of ours: the script itself must not half-write a job."""
    (job_id,) = await bench.fill([lane(1)])
    (job,) = await bench.take()
    before = await bench.raw("HGETALL", f"job:{job_id}")
    value: object = {} if wait == "{}" else float(wait) if wait[-1] != "x" else wait
    for kind, detail in (("retry", ["no", value, 0.5]), ("delay", [value]), ("park", [value])):
        keys, args = settlement._call(  # pyright: ignore[reportPrivateUsage]  # as a peer would
            bench.queue, [Settlement(job.id, job.token, Retry("no"))], [], Policy()
        )
        args[0] = settlement.msgspec.msgpack.encode([[job.id, job.token, kind, *detail]])
        _, (verdict, reason, _), _ = await bench.bus.run(settlement.ENGINE.script("settle"), keys, args)
        assert (verdict, b"no number" in reason) == (b"effect_failed", True)
        assert await bench.raw("HGETALL", f"job:{job_id}") == before
    await bench.sound()


async def test_a_bad_job_spoils_none_of_its_tick(bench: Bench) -> None:
    bad: Any = [1]
    calls: list[Awaitable[object]] = [jobs.enqueue(bench.bus, bench.queue, bench.id(), b"x") for _ in range(3)]
    calls.append(jobs.enqueue(bench.bus, bench.queue, bench.id(), bad))
    *good, refused = await asyncio.gather(*calls, return_exceptions=True)
    assert good == [Enqueued()] * 3
    assert isinstance(refused, InvalidValue)
    await bench.sound()


async def test_what_cannot_be_packed_is_bad_input_and_costs_no_connection(
    bench: Bench, connect: Any, valkey_url: str
) -> None:
    told: list[str] = []
    bus = await connect(valkey_url, observe=lambda name, _: told.append(name))
    for bad in UNSENDABLE:
        with pytest.raises(InvalidInput):
            await bus.execute("SET", bench.space.key("x"), bad)
    assert await bus.execute("PING") == b"PONG"
    sockets = [name for name in told if name != "connector.pipeline.stop"]
    assert sockets == ["connector.connection"], "none was lost"
    assert await bench.keys() == {}


@pytest.mark.parametrize("fields", [{"n": 1}, {5: "x"}, {LONE: "x"}, {"x": LONE}, {"x": None}, [("a", "b")], None])
async def test_a_records_fields_are_texts_and_bytes(bench: Bench, fields: Any) -> None:
    with pytest.raises(InvalidInput):
        await streams.append(bench.bus, bench.queue, "s", fields, Minter(1))
    with pytest.raises(InvalidInput):
        await streams.append_batch(bench.bus, bench.queue, "s", [{"ok": "1"}, fields], Minter(1))
    assert await streams.read(bench.bus, bench.queue, "s") == []


@pytest.mark.parametrize("start", ["garbage", "", "1-2-3", "((1", "$", "1-x"])
async def test_a_bound_of_a_read_is_a_stream_id(bench: Bench, start: str) -> None:
    with pytest.raises(InvalidValue, match="start"):
        await streams.read(bench.bus, bench.queue, "s", start)
    with pytest.raises(InvalidValue, match="end"):
        await streams.read(bench.bus, bench.queue, "s", "-", start)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dedup("k", 5, "never"),  # type: ignore[arg-type]
        lambda: keyspace.of("q").stream("cell"),
        lambda: GroupReader(BUS, "q", "s", "", "c", None),  # type: ignore[arg-type]
        lambda: GroupReader(BUS, "q", "s", "g", "a b", None),  # type: ignore[arg-type]
        lambda: WorkerOptions(lease_ms=2 * 86_400_000),
        lambda: WorkerOptions(backoff=None),  # type: ignore[arg-type]
        lambda: WorkerOptions(silent_ms=1),
        lambda: WorkerOptions(max_stalled=10**9),
        lambda: NewJob(UNKNOWN, b"", backoff="fixed:5"),  # type: ignore[arg-type]
        lambda: NewJob(UNKNOWN, b"", dedup="key"),  # type: ignore[arg-type]
        lambda: Repeat("r", "* * * * *", b""),  # type: ignore[arg-type]
        lambda: Flow(NewJob(UNKNOWN, b""), [NewJob(UNKNOWN, b"")]),  # type: ignore[list-item]
        *(partial(Effect, "note", keys=keys) for keys in NO_KEYS),
        *(partial(Effect, "note", args=args) for args in NO_ARGS),
        lambda: RetentionLoop(BUS, [None]),  # type: ignore[arg-type,list-item]
        lambda: url.parse_address("valkey://user:secret@host:notaport"),
        lambda: url.parse_address("valkey://host:99999"),
    ],
)
def test_what_no_verb_can_mean_is_refused_when_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()
    assert "secret" not in str(refused.value)


async def test_a_version_of_the_near_cache_is_a_whole_number(bench: Bench) -> None:
    async with near_cache.NearCache(bench.bus) as cache:
        table = cache.table("kinds", codec=near_cache.BYTES)
        for version in (1.5, True, "1", 0, math.nan, 2**63):
            with pytest.raises(InvalidValue, match="version"):
                await table.put("x", b"", version)  # type: ignore[arg-type]


async def test_a_foreign_record_of_a_repeat_is_a_clear_fault(bench: Bench) -> None:
    await repeats.register(bench.bus, bench.queue, Repeat("r", Every(5), b""), first_in_ms=600_000)
    for every in ("1000.5", "x", "-1"):
        await bench.raw("HSET", "repeat:r", "every_ms", every)
        with pytest.raises(InvalidValue, match="cannot be read"):
            await repeats.get(bench.bus, bench.queue, "r")


def test_an_error_shows_a_value_that_has_no_text() -> None:
    class Sly:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    for value in (Sly(), 10**5000, "x" * 10_000):
        with pytest.raises(EngineError) as refused:
            Every(value)  # type: ignore[arg-type]
        assert len(str(refused.value)) < 250
