"""Every verb of the engine as a table: one harmless call each, and the arguments that must be refused.

The tables are data for test_bounds.py. A stage is a queue with something in every state, so that a refused call has
much that it could damage, and a dump that shows whether it did.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import codemojex.engine
from codemojex.engine.flows import flows, outbox
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import admin, audit, metrics
from codemojex.engine.jobs import cancel, claims, jobs, progress, pubsub, registry, removal_marks, settlement
from codemojex.engine.jobs.jobs import Dedup, NewJob
from codemojex.engine.jobs.outcome import Complete, Delay, Discard
from codemojex.engine.jobs.settlement import Settlement
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion, recovery
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import Every
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.streams import consumer, retention, streams
from codemojex.engine.streams.retention import MaxLen, MinId
from tests.engine.bench import Bench, lane

HUGE = 10**30
UNKNOWN = "JOB00000000001"  # a valid id that no job has
RECORD = "EVT00000000001"
LANE = lane(1)

BAD_QUEUES = ("", "emq", "a b", "{q}", "a:b", "é", "x" * 129, "q\n", "\ud800")
BAD_IDS = (
    "",
    "JOB",
    "JOB0000000001",
    "JOB000000000012",
    "job00000000001",
    "JOBzzzzzzzzzzz",
    "JOB0000000000*",
    "JOB0000000000é",
)
BAD_IDS += ("JOB0000000000\n", "*", "JOB000000000:\x00", "\ud800" * 14)
BAD_STREAMS = ("", "a b", "a:b", "x" * 129, "s\n", "é", "{x}", "*")

Call = Callable[[Bench], Awaitable[object]]


@dataclass(frozen=True)
class Stage:
    """A bench whose queue holds one job in each state: flat, lane, active, scheduled, dead."""

    bench: Bench
    flat: str
    lane: str
    active: str
    scheduled: str
    dead: str

    @classmethod
    async def set(cls, bench: Bench) -> Stage:
        (dead_id,) = await bench.fill([None])
        (dead,) = await bench.take()
        await bench.settle(dead, Discard("no"))
        (active,) = await bench.fill([LANE])
        await bench.take()
        scheduled = bench.job(delay_ms=600_000)
        await bench.put(scheduled)
        flat, in_lane = await bench.fill([None, LANE])
        await bench.put(bench.job(dedup=Dedup("key", 600_000), lane=lane(2)))
        await limits.set_rate(bench.bus, bench.queue, 1000, 600_000)
        await lanes.limit(bench.bus, bench.queue, LANE, 5)
        await repeats.register(bench.bus, bench.queue, Repeat("tick", Every(600_000), b"t"), first_in_ms=600_000)
        await streams.append(bench.bus, bench.queue, "s", {"a": "b"}, Minter(1))
        return cls(bench, flat, in_lane, active, scheduled.id, dead_id)

    async def dump(self) -> Mapping[str, tuple[bytes | None, bool]]:
        """Every key of the queue with its stored bytes, and whether it has a life time."""
        bus, prefix = self.bench.bus, self.bench.space.prefix
        names: set[bytes] = set()
        cursor = b"0"
        while True:
            cursor, page = await bus.execute("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", 10_000)
            names.update(page)
            if cursor == b"0":
                break
        keys = sorted(names)
        stored = await bus.pipeline([(command, key) for key in keys for command in ("DUMP", "PTTL")])
        return {
            key.decode(): (value, life >= 0)
            for key, value, life in zip(keys, stored[::2], stored[1::2], strict=True)
            if value is not None
        }


def _job(**more: Any) -> NewJob:
    return NewJob(UNKNOWN, b"", **more)


_CALLS: dict[Any, Callable[[Any, str], Awaitable[object]]] = {
    admin.browse: admin.browse,
    admin.drain: admin.drain,
    admin.get_dedup: lambda b, q: admin.get_dedup(b, q, "k"),
    admin.get_job: lambda b, q: admin.get_job(b, q, UNKNOWN),
    admin.get_job_state: lambda b, q: admin.get_job_state(b, q, UNKNOWN),
    admin.obliterate: admin.obliterate,
    admin.pause: admin.pause,
    admin.remove_job: lambda b, q: admin.remove_job(b, q, UNKNOWN),
    admin.reprocess: lambda b, q: admin.reprocess(b, q, UNKNOWN),
    admin.resume: admin.resume,
    admin.trim_dead: admin.trim_dead,
    admin.update_data: lambda b, q: admin.update_data(b, q, UNKNOWN, b""),
    audit.audit: audit.audit,
    cancel.request: lambda b, q: cancel.request(b, q, UNKNOWN, "why"),
    claims.claim: lambda b, q: claims.claim(b, q, 1),
    claims.claim_batch: lambda b, q: claims.claim_batch(b, q, 1, 1),
    claims.claim_many: lambda b, q: claims.claim_many(b, q, 1, 1),
    pubsub.publish: lambda b, q: pubsub.publish(b, q, "done", UNKNOWN),
    pubsub.publish_many: lambda b, q: pubsub.publish_many(b, q, []),
    flows.add: lambda b, q: flows.add(b, q, flows.Flow(_job())),
    flows.add_bulk: lambda b, q: flows.add_bulk(b, q, []),
    flows.children_values: lambda b, q: flows.children_values(b, q, UNKNOWN),
    flows.dependencies: lambda b, q: flows.dependencies(b, q, UNKNOWN),
    flows.failures: lambda b, q: flows.failures(b, q, UNKNOWN),
    flows.ignored_failures: lambda b, q: flows.ignored_failures(b, q, UNKNOWN),
    consumer.read_quarantine: lambda b, q: consumer.read_quarantine(b, q, "s"),
    jobs.admit: lambda b, q: jobs.admit(b, q, _job()),
    jobs.admit_many: lambda b, q: jobs.admit_many(b, q, []),
    jobs.attempt_many: lambda b, q: jobs.attempt_many(b, q, []),
    jobs.enqueue: lambda b, q: jobs.enqueue(b, q, UNKNOWN, b""),
    jobs.enqueue_at: lambda b, q: jobs.enqueue_at(b, q, UNKNOWN, b"", 1),
    jobs.enqueue_in: lambda b, q: jobs.enqueue_in(b, q, UNKNOWN, b"", 1),
    jobs.enqueue_many: lambda b, q: jobs.enqueue_many(b, q, []),
    lanes.claim: lambda b, q: lanes.claim(b, q, 1),
    lanes.claim_batch: lambda b, q: lanes.claim_batch(b, q, 1),
    lanes.claim_turn: lambda b, q: lanes.claim_turn(b, q, 1),
    lanes.depth: lambda b, q: lanes.depth(b, q, LANE),
    lanes.depths: lambda b, q: lanes.depths(b, q, []),
    lanes.drain: lambda b, q: lanes.drain(b, q, LANE),
    lanes.enqueue: lambda b, q: lanes.enqueue(b, q, LANE, UNKNOWN, b""),
    lanes.explain: lambda b, q: lanes.explain(b, q, LANE),
    lanes.limit: lambda b, q: lanes.limit(b, q, LANE, 1),
    lanes.move: lambda b, q: lanes.move(b, q, UNKNOWN, LANE),
    lanes.names: lanes.names,
    lanes.park: lambda b, q: lanes.park(b, q, LANE, 1),
    lanes.pause: lambda b, q: lanes.pause(b, q, LANE),
    lanes.resume: lambda b, q: lanes.resume(b, q, LANE),
    lanes.tend: lanes.tend,
    lanes.weight: lambda b, q: lanes.weight(b, q, LANE, 1),
    limits.clear_rate: limits.clear_rate,
    limits.get_rate_limit_ttl: limits.get_rate_limit_ttl,
    limits.require_seat: limits.require_seat,
    limits.set_bucket: lambda b, q: limits.set_bucket(b, q, 1, 1),
    limits.set_concurrency: lambda b, q: limits.set_concurrency(b, q, 1),
    limits.set_default_lane_limit: lambda b, q: limits.set_default_lane_limit(b, q, 1),
    limits.set_lane_rate: lambda b, q: limits.set_lane_rate(b, q, 1),
    limits.set_rate: lambda b, q: limits.set_rate(b, q, 1, 1),
    removal_marks.refresh: lambda b, q: removal_marks.refresh(b, q, [(UNKNOWN, "1")], 1),
    removal_marks.track: lambda b, q: removal_marks.track(b, q, [(UNKNOWN, "1")], 1),
    removal_marks.untrack: lambda b, q: removal_marks.untrack(b, q, [(UNKNOWN, "1")]),
    metrics.counts: metrics.counts,
    metrics.get_counts: lambda b, q: metrics.get_counts(b, q, []),
    metrics.snapshot: metrics.snapshot,
    outbox.deliver: outbox.deliver,
    recovery.recover: recovery.recover,
    registry.note: registry.note,
    registry.forget: registry.forget,
    repeats.advance: lambda b, q: repeats.advance(b, q, "r"),
    repeats.cancel: lambda b, q: repeats.cancel(b, q, "r"),
    repeats.due: repeats.due,
    repeats.fire_due: repeats.fire_due,
    repeats.get: lambda b, q: repeats.get(b, q, "r"),
    repeats.names: repeats.names,
    repeats.register: lambda b, q: repeats.register(b, q, Repeat("r", Every(1), b"")),
    repeats.update: lambda b, q: repeats.update(b, q, Repeat("r", Every(1), b"")),
    retention.clear_archived: lambda b, q: retention.clear_archived(b, q, "s"),
    retention.get_archived: lambda b, q: retention.get_archived(b, q, "s"),
    retention.set_archived: lambda b, q: retention.set_archived(b, q, "s", RECORD),
    retention.trim: lambda b, q: retention.trim(b, q, "s", MaxLen(1)),
    progress.add_log: lambda b, q: progress.add_log(b, q, UNKNOWN, "line"),
    progress.get_logs: lambda b, q: progress.get_logs(b, q, UNKNOWN),
    progress.update_progress: lambda b, q: progress.update_progress(b, q, UNKNOWN, "half"),
    promotion.promote: promotion.promote,
    settlement.complete: lambda b, q: settlement.complete(b, q, UNKNOWN, "1"),
    settlement.delay: lambda b, q: settlement.delay(b, q, UNKNOWN, "1", 1),
    settlement.extend: lambda b, q: settlement.extend(b, q, UNKNOWN, "1", 1),
    settlement.extend_many: lambda b, q: settlement.extend_many(b, q, [(UNKNOWN, "1")], 1),
    settlement.renew_many: lambda b, q: settlement.renew_many(b, q, [(UNKNOWN, "1")], 1),
    settlement.retry: lambda b, q: settlement.retry(b, q, UNKNOWN, "1", "no"),
    settlement.settle_and_claim: lambda b, q: settlement.settle_and_claim(b, q, [], 1, 1),
    settlement.settle_many: lambda b, q: settlement.settle_many(b, q, [Settlement(UNKNOWN, "1", Complete())]),
    streams.append: lambda b, q: streams.append(b, q, "s", {}, Minter(1)),
    streams.append_batch: lambda b, q: streams.append_batch(b, q, "s", []),
    streams.append_id: lambda b, q: streams.append_id(b, q, "s", RECORD, {}),
    streams.read: lambda b, q: streams.read(b, q, "s"),
    streams.read_since: lambda b, q: streams.read_since(b, q, "s", 0),
    streams.read_window: lambda b, q: streams.read_window(b, q, "s", 0, 1),
}
VERBS: tuple[Callable[..., Awaitable[object]], ...] = tuple(_CALLS)
CALLS = {f"{verb.__module__.rpartition('.')[2]}.{verb.__name__}": call for verb, call in _CALLS.items()}

# Verbs that take a job's id, by a call that hands one in.
BY_ID: dict[str, Callable[[Bench, str], Awaitable[object]]] = {
    "get_job": lambda b, i: admin.get_job(b.bus, b.queue, i),
    "get_job_state": lambda b, i: admin.get_job_state(b.bus, b.queue, i),
    "update_data": lambda b, i: admin.update_data(b.bus, b.queue, i, b"new"),
    "remove_job": lambda b, i: admin.remove_job(b.bus, b.queue, i),
    "reprocess": lambda b, i: admin.reprocess(b.bus, b.queue, i),
    "cancel": lambda b, i: cancel.request(b.bus, b.queue, i, "why"),
    "enqueue": lambda b, i: jobs.enqueue(b.bus, b.queue, i, b""),
    "enqueue_in": lambda b, i: jobs.enqueue_in(b.bus, b.queue, i, b"", 5),
    "enqueue_at": lambda b, i: jobs.enqueue_at(b.bus, b.queue, i, b"", 5),
    "enqueue_many": lambda b, i: jobs.enqueue_many(b.bus, b.queue, [(b.id(), b""), (i, b"")]),
    "move": lambda b, i: lanes.move(b.bus, b.queue, i, LANE),
    "complete": lambda b, i: settlement.complete(b.bus, b.queue, i, "1"),
    "retry": lambda b, i: settlement.retry(b.bus, b.queue, i, "1", "no"),
    "delay": lambda b, i: settlement.delay(b.bus, b.queue, i, "1", 5),
    "extend": lambda b, i: settlement.extend(b.bus, b.queue, i, "1", 5),
    "progress": lambda b, i: progress.update_progress(b.bus, b.queue, i, "half"),
    "add_log": lambda b, i: progress.add_log(b.bus, b.queue, i, "line"),
    "get_logs": lambda b, i: progress.get_logs(b.bus, b.queue, i),
    "track": lambda b, i: removal_marks.track(b.bus, b.queue, [(i, "1")], 5),
    "untrack": lambda b, i: removal_marks.untrack(b.bus, b.queue, [(i, "1")]),
    "refresh": lambda b, i: removal_marks.refresh(b.bus, b.queue, [(i, "1")], 5),
    "publish": lambda b, i: pubsub.publish(b.bus, b.queue, "done", i),
    "children_values": lambda b, i: flows.children_values(b.bus, b.queue, i),
    "dependencies": lambda b, i: flows.dependencies(b.bus, b.queue, i),
}
BY_LANE: dict[str, Callable[[Bench, str], Awaitable[object]]] = {
    "enqueue": lambda b, g: lanes.enqueue(b.bus, b.queue, g, b.id(), b""),
    "pause": lambda b, g: lanes.pause(b.bus, b.queue, g),
    "resume": lambda b, g: lanes.resume(b.bus, b.queue, g),
    "limit": lambda b, g: lanes.limit(b.bus, b.queue, g, 1),
    "weight": lambda b, g: lanes.weight(b.bus, b.queue, g, 1),
    "park": lambda b, g: lanes.park(b.bus, b.queue, g, 5),
    "depth": lambda b, g: lanes.depth(b.bus, b.queue, g),
    "depths": lambda b, g: lanes.depths(b.bus, b.queue, [LANE, g]),
    "drain": lambda b, g: lanes.drain(b.bus, b.queue, g),
    "explain": lambda b, g: lanes.explain(b.bus, b.queue, g),
    "set_lane_rate": lambda b, g: limits.set_lane_rate(b.bus, b.queue, 1, lane=g),
    "recover": lambda b, g: recovery.recover(b.bus, b.queue, lane=g),
    "repeat": lambda b, g: repeats.register(b.bus, b.queue, Repeat("r", Every(1), b"", lane=g)),
}
BY_STREAM: dict[str, Callable[[Bench, str], Awaitable[object]]] = {
    "append": lambda b, s: streams.append(b.bus, b.queue, s, {}, Minter(1)),
    "read": lambda b, s: streams.read(b.bus, b.queue, s),
    "trim": lambda b, s: retention.trim(b.bus, b.queue, s, MaxLen(0)),
    "set_archived": lambda b, s: retention.set_archived(b.bus, b.queue, s, RECORD),
    "get_archived": lambda b, s: retention.get_archived(b.bus, b.queue, s),
    "read_quarantine": lambda b, s: consumer.read_quarantine(b.bus, b.queue, s),
}

# A number's verb, and the numbers that it refuses.
NUMBERS: dict[str, tuple[Callable[[Bench, Any], Awaitable[object]], tuple[float, ...]]] = {
    "claim n": (lambda b, n: claims.claim_many(b.bus, b.queue, n, 5), (-1, 0, 501, HUGE)),
    "claim lease": (lambda b, n: claims.claim(b.bus, b.queue, n), (-1, 0, 10**9, HUGE)),
    "claim bytes": (lambda b, n: claims.claim_many(b.bus, b.queue, 1, 5, max_bytes=n), (-1, 0, HUGE)),
    "claim_batch size": (lambda b, n: claims.claim_batch(b.bus, b.queue, n, 5), (-1, 0, 501)),
    "lane claim_batch size": (lambda b, n: lanes.claim_batch(b.bus, b.queue, 5, n), (-1, 0, 501)),
    "settle_and_claim n": (lambda b, n: settlement.settle_and_claim(b.bus, b.queue, [], n, 5), (-1, 501, HUGE)),
    "extend lease": (lambda b, n: settlement.extend(b.bus, b.queue, UNKNOWN, "1", n), (-1, 0, HUGE)),
    "extend_many lease": (lambda b, n: settlement.extend_many(b.bus, b.queue, [(UNKNOWN, "1")], n), (-1, 0, HUGE)),
    "delay ms": (lambda b, n: settlement.delay(b.bus, b.queue, UNKNOWN, "1", n), (-1, HUGE)),
    "retry delay": (lambda b, n: settlement.retry(b.bus, b.queue, UNKNOWN, "1", "", delay_ms=n), (-1, HUGE)),
    "retry cap": (lambda b, n: settlement.retry(b.bus, b.queue, UNKNOWN, "1", "", max_attempts=n), (-1, 0, HUGE)),
    "enqueue_in delay": (lambda b, n: jobs.enqueue_in(b.bus, b.queue, UNKNOWN, b"", n), (-1, HUGE)),
    "enqueue_at time": (lambda b, n: jobs.enqueue_at(b.bus, b.queue, UNKNOWN, b"", n), (-1, HUGE)),
    "job delay": (lambda b, n: jobs.admit(b.bus, b.queue, _job(delay_ms=n)), (-1, HUGE)),
    "job time": (lambda b, n: jobs.admit(b.bus, b.queue, _job(run_at_ms=n)), (-1, HUGE)),
    "job attempts": (lambda b, n: jobs.admit(b.bus, b.queue, _job(max_attempts=n)), (-1, 0, HUGE)),
    "job timeout": (lambda b, n: jobs.admit(b.bus, b.queue, _job(timeout_ms=n)), (-1, 0, HUGE)),
    "job expiry": (lambda b, n: jobs.admit(b.bus, b.queue, _job(expires_at_ms=n)), (-1, HUGE)),
    "dedup window": (lambda b, n: jobs.admit(b.bus, b.queue, _job(dedup=Dedup("k", n))), (-1, 0, HUGE)),
    "lane limit": (lambda b, n: lanes.limit(b.bus, b.queue, LANE, n), (-1, 0, HUGE)),
    "lane weight": (lambda b, n: lanes.weight(b.bus, b.queue, LANE, n), (-1, 0, HUGE)),
    "lane park": (lambda b, n: lanes.park(b.bus, b.queue, LANE, n), (-1, HUGE)),
    "lane drain": (lambda b, n: lanes.drain(b.bus, b.queue, LANE, n), (-1, HUGE)),
    "lane beat": (lambda b, n: lanes.tend(b.bus, b.queue, beat_ms=n), (-1, 0, HUGE)),
    "lane names": (lambda b, n: lanes.names(b.bus, b.queue, n), (-1, 0, HUGE)),
    "rate jobs": (lambda b, n: limits.set_rate(b.bus, b.queue, n, 5), (-1, 0, HUGE)),
    "rate window": (lambda b, n: limits.set_rate(b.bus, b.queue, 5, n), (-1, 0, HUGE)),
    "bucket rate": (lambda b, n: limits.set_bucket(b.bus, b.queue, n, 5), (-1, 0, HUGE, float("nan"), float("inf"))),
    "bucket burst": (lambda b, n: limits.set_bucket(b.bus, b.queue, 5, n), (-1, 0, HUGE)),
    "lane rate": (lambda b, n: limits.set_lane_rate(b.bus, b.queue, n), (-1, 0, HUGE, float("nan"))),
    "lane burst": (lambda b, n: limits.set_lane_rate(b.bus, b.queue, 1, n, lane=LANE), (-1, 0, HUGE)),
    "concurrency": (lambda b, n: limits.set_concurrency(b.bus, b.queue, n), (-1, 0, HUGE)),
    "default limit": (lambda b, n: limits.set_default_lane_limit(b.bus, b.queue, n), (-1, 0, HUGE)),
    "rate question": (lambda b, n: limits.get_rate_limit_ttl(b.bus, b.queue, n), (-1, HUGE)),
    "promote": (lambda b, n: promotion.promote(b.bus, b.queue, n), (-1, 0, 501, HUGE)),
    "recover": (lambda b, n: recovery.recover(b.bus, b.queue, limit=n), (-1, 0, 501, HUGE)),
    "max_stalled": (lambda b, n: recovery.recover(b.bus, b.queue, max_stalled=n), (-1, 0, HUGE)),
    "deliver": (lambda b, n: outbox.deliver(b.bus, b.queue, n), (-1, 0, 501, HUGE)),
    "drain": (lambda b, n: admin.drain(b.bus, b.queue, include_schedule=True, limit=n), (-1, HUGE)),
    "obliterate": (lambda b, n: admin.obliterate(b.bus, b.queue, force=True, budget=n), (-1, 0, 5001, HUGE)),
    "trim_dead keep": (lambda b, n: admin.trim_dead(b.bus, b.queue, keep=n), (-1, HUGE)),
    "trim_dead age": (lambda b, n: admin.trim_dead(b.bus, b.queue, keep=5, minted_before_ms=n), (-1, HUGE)),
    "trim_dead limit": (lambda b, n: admin.trim_dead(b.bus, b.queue, keep=0, limit=n), (-1, HUGE)),
    "browse": (lambda b, n: admin.browse(b.bus, b.queue, n), (-1, HUGE)),
    "snapshot": (lambda b, n: metrics.snapshot(b.bus, b.queue, top=n), (-1, 1001, HUGE)),
    "read count": (lambda b, n: streams.read(b.bus, b.queue, "s", count=n), (-1, 0, 10_001, HUGE)),
    "read since": (lambda b, n: streams.read_since(b.bus, b.queue, "s", n), (-1, HUGE)),
    "quarantine": (lambda b, n: consumer.read_quarantine(b.bus, b.queue, "s", n), (-1, 0, HUGE)),
    "maxlen": (lambda b, n: retention.trim(b.bus, b.queue, "s", MaxLen(n)), (-1, HUGE)),
    "minid": (lambda b, n: retention.trim(b.bus, b.queue, "s", MinId(n)), (-1, HUGE)),
    "log keep": (lambda b, n: progress.add_log(b.bus, b.queue, UNKNOWN, "x", keep=n), (-1, HUGE)),
    "log range": (lambda b, n: progress.get_logs(b.bus, b.queue, UNKNOWN, n), (HUGE,)),
    "mark": (lambda b, n: removal_marks.track(b.bus, b.queue, [(UNKNOWN, "1")], n), (-1, 0, HUGE)),
    "mark lease": (lambda b, n: removal_marks.refresh(b.bus, b.queue, [(UNKNOWN, "1")], n), (-1, 0, HUGE)),
    "due": (lambda b, n: repeats.due(b.bus, b.queue, n), (-1, 0, 501, HUGE)),
    "repeat names": (lambda b, n: repeats.names(b.bus, b.queue, n), (-1, 0, HUGE)),
    "outcome delay": (
        lambda b, n: settlement.settle_many(
            b.bus, b.queue, [Settlement(UNKNOWN, "1", Complete()), Settlement(UNKNOWN, "1", Delay(n))]
        ),
        (-1, HUGE),
    ),
}


def public_verbs() -> set[str]:
    """Every public coroutine function of the engine that takes a connector and a queue, as `module.verb`.

    `testing` is left out: it is made of the other verbs, and has tests of its own.
    """
    found: set[str] = set()
    for entry in pkgutil.walk_packages(codemojex.engine.__path__, "codemojex.engine."):
        if entry.name.endswith(".testing") or ".protocol" in entry.name:
            continue
        module = importlib.import_module(entry.name)
        for name, function in vars(module).items():
            ours = inspect.iscoroutinefunction(function) and function.__module__ == module.__name__
            if (
                ours
                and not name.startswith("_")
                and list(inspect.signature(function).parameters)[:2] == ["bus", "queue"]
            ):
                found.add(f"{entry.name.rpartition('.')[2]}.{name}")
    return found
