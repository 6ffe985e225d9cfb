"""Lanes: many small backlogs in one queue, served in turn.

A lane is named by a branded id of any namespace and exists while it has work or a setting. The verbs here change or
explain one lane; they may scan the ring of serviceable lanes, which admissions, claims and settlements never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.claims import DEFAULT_BYTES, MAX_CLAIM, claim_many
from codemojex.engine.jobs.jobs import MAX_WAIT_MS, Job, NewJob, Verdict, admit
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

_DRAIN = 500


async def enqueue(bus: Connector, queue: str, lane: str, job_id: str, payload: bytes) -> Verdict:
    """Admit a job to a lane at once."""
    return await admit(bus, queue, NewJob(job_id, payload, lane=ids.require(lane)))


async def claim(bus: Connector, queue: str, lease_ms: int) -> Job | None:
    """Claim one job of the next lane."""
    jobs = (await claim_many(bus, queue, 1, lease_ms, mode="lane")).jobs
    return jobs[0] if jobs else None


async def claim_turn(bus: Connector, queue: str, lease_ms: int) -> Sequence[Job]:
    """Claim the next lane's turn: as many jobs as it has weight, within its ceiling."""
    return (await claim_many(bus, queue, MAX_CLAIM, lease_ms, mode="lane")).jobs


async def claim_batch(
    bus: Connector, queue: str, lease_ms: int, size: int = MAX_CLAIM, *, max_bytes: int = DEFAULT_BYTES
) -> Sequence[Job]:
    """Claim the next lane's backlog, up to `size` and its ceiling: all jobs of the answer are of one lane."""
    return (await claim_many(bus, queue, size, lease_ms, max_bytes=max_bytes, mode="whole")).jobs


async def pause(bus: Connector, queue: str, lane: str) -> None:
    """Stop serving the lane; its backlog and what is in flight stay."""
    await _set(bus, queue, lane, "pause")


async def resume(bus: Connector, queue: str, lane: str) -> None:
    """Serve the lane again."""
    await _set(bus, queue, lane, "resume")


async def limit(bus: Connector, queue: str, lane: str, n: int | None) -> None:
    """At most `n` jobs of the lane in flight; None removes the ceiling."""
    await _set(bus, queue, lane, "limit", "" if n is None else _positive("limit", n))


async def weight(bus: Connector, queue: str, lane: str, n: int | None) -> None:
    """Serve up to `n` jobs of the lane per turn; None means one."""
    await _set(bus, queue, lane, "weight", "" if n is None else _positive("weight", n))


async def park(bus: Connector, queue: str, lane: str, for_ms: int) -> None:
    """Let the lane rest for so long (an outside 429, say); a longer rest that runs already stays. 0 ends any rest."""
    validation.integer("for_ms", for_ms, 0, MAX_WAIT_MS)
    await _set(bus, queue, lane, "park", for_ms)


async def depth(bus: Connector, queue: str, lane: str) -> int:
    """How many jobs wait in the lane."""
    return await bus.execute("ZCARD", keyspace.of(queue).lane(lane))


async def depths(bus: Connector, queue: str, lanes: Sequence[str]) -> list[int]:
    """How many jobs wait in each of the lanes (at most 1000), at one instant."""
    lanes = validation.many("lanes", lanes)
    if len(lanes) > 1000:
        raise InvalidValue(f"{len(lanes)} lanes are too many for one look: ask for at most 1000")
    reply = await bus.run(ENGINE.script("lane_depths"), (keyspace.of(queue).prefix,), [ids.require(g) for g in lanes])
    return reply[::2]


async def move(
    bus: Connector, queue: str, job_id: str, lane: str
) -> Literal["moved", "noop", "not_found", "not_pending"]:
    """Move a waiting job to another lane; its seat will be charged there."""
    args = (ids.require(job_id), ids.require(lane))
    return (await bus.run(ENGINE.script("lane_move"), (keyspace.of(queue).prefix,), args)).decode()


async def drain(bus: Connector, queue: str, lane: str, limit: int = 100_000) -> int:
    """Delete the lane's waiting jobs, in steps of bounded size; how many were deleted."""
    script, keys = ENGINE.script("lane_drain"), (keyspace.of(queue).prefix,)
    ids.require(lane)
    validation.integer("limit", limit, 0, 1_000_000_000)
    total = 0
    while total < limit:
        step = min(_DRAIN, limit - total)
        deleted = await bus.run(script, keys, (ids.require(lane), step))
        total += deleted
        if deleted < step:
            break
    return total


async def names(bus: Connector, queue: str, limit: int = 10_000) -> list[str]:
    """Up to `limit` lanes that have work or a setting, sorted; the queue need not be scanned for them.

    A lane with work stands in the ring, is paused, rests, or has jobs in flight.
    """
    space = keyspace.of(queue)
    validation.integer("limit", limit, 1, 1_000_000)
    replies = await bus.all(
        [
            ("LRANGE", space.key("ring"), 0, limit - 1),
            ("SRANDMEMBER", space.key("paused"), limit),
            ("ZRANGE", space.key("resting"), 0, limit - 1),
            *(("HRANDFIELD", space.key(name), limit) for name in ("gactive", "glimit", "gweight", "grate")),
        ]
    )
    return sorted({lane.decode() for reply in replies for lane in reply or ()})[:limit]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a lane is served or not. `reasons` is empty when it is: its turn comes after `ahead` lanes."""

    depth: int
    active: int
    limit: int | None
    rests_for_ms: int
    limited_ms: int
    ahead: int | None
    reasons: tuple[str, ...]


async def explain(bus: Connector, queue: str, lane: str) -> Explanation:
    """Say what decides whether the lane is served, at one instant."""
    reply = await bus.run(ENGINE.script("lane_explain"), (keyspace.of(queue).prefix,), (ids.require(lane),))
    now, waiting, active, ceiling, paused, rest, queue_paused, limited_ms, seats, in_flight, ring, place = reply
    rests_for_ms = 0 if rest is None else max(0, int(float(rest)) - now)
    reasons = [
        text
        for holds, text in (
            (waiting == 0, "empty: nothing waits in it"),
            (paused == 1, "paused: resume the lane"),
            (ceiling is not None and active >= int(float(ceiling or 0)), f"at its ceiling: {active} in flight"),
            (rests_for_ms > 0, f"resting for {rests_for_ms} ms: parked or over its rate"),
            (queue_paused == 1, "queue paused: resume the queue"),
            (limited_ms > 0, f"over budget: the queue's rate has a unit in {limited_ms} ms"),
            (seats is not None and 0 < seats <= in_flight, f"queue at its concurrency: {in_flight} in flight"),
        )
        if holds
    ]
    if not reasons and place is None:
        reasons.append(f"not among the {ring} lanes of the ring: run an audit with repair")
    limit = None if ceiling is None else int(float(ceiling))
    return Explanation(waiting, active, limit, rests_for_ms, limited_ms, place, tuple(reasons))


async def tend(bus: Connector, queue: str, *, beat_ms: int = 1_000) -> list[tuple[str, str]]:
    """Visit some hundred lanes and put right what an audit would name about them: lane, what was wrong.

    A pump calls it on every beat. There is one visit per `beat_ms`, whoever calls, and the next one goes on behind it.
    """
    validation.integer("beat_ms", beat_ms, 1, MAX_WAIT_MS)
    reply = await bus.run(ENGINE.script("tend_lanes"), (keyspace.of(queue).prefix,), (beat_ms,))
    texts = [text.decode(errors="replace") for text in reply]
    return list(zip(texts[::2], texts[1::2], strict=True))


async def _set(bus: Connector, queue: str, lane: str, what: str, value: Arg = "") -> None:
    await bus.run(ENGINE.script("lane_set"), (keyspace.of(queue).prefix,), (ids.require(lane), what, value))


def _positive(what: str, value: int) -> int:
    return validation.integer(what, value, 1, 1_000_000, ", or None to remove it")
