"""Bad input is refused with a reason, and a refusal changes nothing; what is within the bounds works at the bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from codemojex.engine.errors import EngineError, InvalidId, InvalidInput, InvalidName, InvalidValue
from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Flow
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.jobs import claims, jobs, pubsub, settlement
from codemojex.engine.jobs.jobs import MAX_PAYLOAD, AdmissionRefused, Dedup, Enqueued, NewJob
from codemojex.engine.jobs.outcome import Complete, Retry
from codemojex.engine.jobs.settlement import Gone, Settled, Settlement, Stale
from codemojex.engine.lanes import lanes
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import Every
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.streams import streams
from tests.engine.bench import LEASE, Bench, lane
from tests.engine.verbs import (
    BAD_IDS,
    BAD_QUEUES,
    BAD_STREAMS,
    BY_ID,
    BY_LANE,
    BY_STREAM,
    CALLS,
    NUMBERS,
    Stage,
    public_verbs,
)

UNCHECKED = ("registry.note", "registry.forget")  # of the list of queues: called with names that passed already
BINARY = bytes(range(256)) + b"\xff\xfe\x00\xc3\x28"
# Verbs of many leases answer for a bad one in its place instead of raising: nothing of that name is held.
ANSWERS: dict[str, tuple[Callable[[Bench, str], Awaitable[object]], Callable[[str], object]]] = {
    "settle_many": (
        lambda b, i: settlement.settle_many(b.bus, b.queue, [Settlement(i, "1", Complete())]),
        lambda i: [Gone()],
    ),
    "extend_many": (lambda b, i: settlement.extend_many(b.bus, b.queue, [(i, "1")], 5), lambda i: [i]),
}


@pytest.fixture
async def stage(bench: Bench) -> Stage:
    return await Stage.set(bench)


async def refused(stage: Stage, kind: type[EngineError], *calls: Callable[[], Awaitable[object]]) -> None:
    """Each call raises `kind` with a reason, and all of them leave every key of the queue as it was."""
    before = await stage.dump()
    for call in calls:
        with pytest.raises(kind) as raised:
            await call()
        assert len(str(raised.value)) > 10, "a refusal says what is wrong"
    assert await stage.dump() == before


def test_every_public_verb_stands_in_the_table() -> None:
    assert public_verbs() == set(CALLS)


@pytest.mark.parametrize("verb", [verb for verb in CALLS if verb not in UNCHECKED])
async def test_every_verb_refuses_a_queue_whose_name_is_none(bench: Bench, verb: str) -> None:
    before = set(await bench.bus.execute("KEYS", "*"))
    for name in BAD_QUEUES:
        with pytest.raises(InvalidName, match="queue"):
            await CALLS[verb](bench.bus, name)
    assert not set(await bench.bus.execute("KEYS", "*")) - before


@pytest.mark.parametrize("verb", BY_ID)
async def test_every_verb_refuses_what_is_no_job_id(stage: Stage, verb: str) -> None:
    await refused(stage, InvalidId, *(partial(BY_ID[verb], stage.bench, bad) for bad in BAD_IDS))


@pytest.mark.parametrize("verb", ANSWERS)
async def test_a_verb_of_many_leases_answers_for_what_is_no_job_id(stage: Stage, verb: str) -> None:
    before = await stage.dump()
    call, answer = ANSWERS[verb]
    for bad in BAD_IDS:
        if bad.isprintable():
            assert await call(stage.bench, bad) == answer(bad)
    assert await stage.dump() == before


@pytest.mark.parametrize("verb", BY_LANE)
async def test_every_verb_refuses_what_is_no_lane(stage: Stage, verb: str) -> None:
    await refused(stage, InvalidId, *(partial(BY_LANE[verb], stage.bench, bad) for bad in BAD_IDS))


@pytest.mark.parametrize("verb", BY_STREAM)
async def test_every_verb_refuses_what_is_no_stream(stage: Stage, verb: str) -> None:
    await refused(stage, InvalidName, *(partial(BY_STREAM[verb], stage.bench, bad) for bad in BAD_STREAMS))


@pytest.mark.parametrize("what", NUMBERS)
async def test_every_number_out_of_range_is_refused(stage: Stage, what: str) -> None:
    call, bad = NUMBERS[what]
    await refused(stage, InvalidValue, *(partial(call, stage.bench, number) for number in bad))


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é", "k\n", "{k}", "a/b"])
async def test_a_dedup_key_outside_its_alphabet_is_refused(stage: Stage, key: str) -> None:
    bus, queue = stage.bench.bus, stage.bench.queue
    await refused(stage, InvalidName, lambda: admin.get_dedup(bus, queue, key))
    await refused(stage, InvalidName, lambda: admin.remove_job(bus, queue, stage.flat, key))
    with pytest.raises(InvalidName):
        Dedup(key, 5)


@pytest.mark.parametrize("event", ["", "A", "a b", "é", '"', "x" * 65])
async def test_an_event_outside_its_alphabet_is_refused(stage: Stage, event: str) -> None:
    bus, queue = stage.bench.bus, stage.bench.queue
    await refused(stage, InvalidName, lambda: pubsub.publish(bus, queue, event, stage.flat))


async def test_an_unknown_state_is_refused(stage: Stage) -> None:
    for names in (["pending", "nope"], [""], ["*"]):
        await refused(stage, InvalidValue, partial(metrics.get_counts, stage.bench.bus, stage.bench.queue, names))


async def test_a_payload_of_64_kib_passes_everywhere_and_one_byte_more_nowhere(stage: Stage) -> None:
    bench = stage.bench
    bus, queue = bench.bus, bench.queue
    most, more = b"\xff" * MAX_PAYLOAD, b"\xff" * (MAX_PAYLOAD + 1)
    for call in (
        lambda payload: jobs.enqueue(bus, queue, bench.id(), payload),
        lambda payload: jobs.enqueue_in(bus, queue, bench.id(), payload, 600_000),
        lambda payload: jobs.enqueue_many(bus, queue, [(bench.id(), payload)]),
        lambda payload: lanes.enqueue(bus, queue, lane(3), bench.id(), payload),
        lambda payload: admin.update_data(bus, queue, stage.flat, payload),
    ):
        assert await call(most) not in (False, None)
        await refused(stage, InvalidValue, partial(call, more))
    assert (await bench.raw("HGET", f"job:{stage.flat}", "payload")) == most
    assert await repeats.register(bus, queue, Repeat("big", Every(1000), most), first_in_ms=600_000)
    for make in (
        lambda: NewJob(bench.id(), more),
        lambda: Repeat("r", Every(1), more),
        lambda: Flow(NewJob(bench.id(), more)),
    ):
        with pytest.raises(InvalidValue, match="65536"):
            make()


async def test_a_stream_record_that_is_too_large_is_refused(stage: Stage) -> None:
    bus, queue = stage.bench.bus, stage.bench.queue
    for fields in ({"a": b"x" * 65_537}, {f"f{i}": "" for i in range(257)}):
        await refused(stage, InvalidInput, partial(streams.append, bus, queue, "s", fields, Minter(1)))
        many = [{"ok": "1"}, fields]
        await refused(stage, InvalidInput, partial(streams.append_batch, bus, queue, "s", many, Minter(1)))


async def test_payloads_are_bytes_and_come_back_as_they_were(bench: Bench) -> None:
    bus, queue = bench.bus, bench.queue
    await jobs.enqueue(bus, queue, bench.id(), BINARY)
    await lanes.enqueue(bus, queue, lane(1), bench.id(), b"")
    await repeats.register(bus, queue, Repeat("r", Every(600_000), BINARY))
    await repeats.fire_due(bus, queue)
    parent = bench.job(BINARY)
    await flows.add(bus, queue, Flow(parent, [Flow(bench.job(BINARY))]))
    taken = await bench.take(4)
    assert sorted(job.payload for job in taken) == sorted([BINARY, b"", BINARY, BINARY])
    for job in taken:
        await settlement.complete(bus, queue, job.id, job.token, result=BINARY)
    assert list((await flows.children_values(bus, queue, parent.id)).values()) == [BINARY]
    (last,) = await bench.take()
    assert (last.id, last.payload) == (parent.id, BINARY)
    assert await admin.update_data(bus, queue, parent.id, BINARY[::-1])
    assert await bench.raw("HGET", f"job:{parent.id}", "payload") == BINARY[::-1]
    await bench.sound()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 100_000, "x" * 2_000),
        ("é" * 5_000, "é" * 2_000),
        ("\ud800 broken", "? broken"),
        ("nul \x00 inside", "nul \x00 inside"),
        ("", ""),
    ],
)
async def test_an_error_text_is_kept_bounded_whatever_it_is(bench: Bench, text: str, kept: str) -> None:
    (job_id,) = await bench.fill([None])
    (job,) = await bench.take()
    assert await bench.settle(job, Retry(text, 60_000)) == Settled("scheduled")
    assert (await bench.raw("HGET", f"job:{job_id}", "last_error")).decode() == kept


@pytest.mark.parametrize("token", ["", "0", "2", "-1", "1 ", "01", "x" * 10_000, "1\x00", "1.0"])
async def test_a_token_that_is_not_the_jobs_is_stale_and_changes_nothing(stage: Stage, token: str) -> None:
    bus, queue = stage.bench.bus, stage.bench.queue
    before = await stage.dump()
    assert await settlement.settle_many(bus, queue, [Settlement(stage.active, token, Complete())]) == [Stale()]
    assert await settlement.extend_many(bus, queue, [(stage.active, token)], LEASE) == [stage.active]
    assert await stage.dump() == before


async def test_empty_batches_answer_nothing_and_change_nothing(stage: Stage) -> None:
    bus, queue = stage.bench.bus, stage.bench.queue
    before = await stage.dump()
    assert await jobs.admit_many(bus, queue, []) == []
    assert await jobs.enqueue_many(bus, queue, []) == []
    assert await settlement.settle_many(bus, queue, []) == []
    assert await settlement.extend_many(bus, queue, [], LEASE) == []
    assert await streams.append_batch(bus, queue, "s", []) == []
    assert await flows.add_bulk(bus, queue, []) == []
    assert await lanes.depths(bus, queue, []) == []
    assert await metrics.get_counts(bus, queue, []) == {}
    await pubsub.publish_many(bus, queue, [])
    assert await stage.dump() == before


async def test_ten_thousand_jobs_travel_in_one_call_of_each_verb(bench: Bench) -> None:
    bus, queue, count = bench.bus, bench.queue, 10_000
    new = [bench.job(lane=lane(i % 50) if i % 3 else None) for i in range(count)]
    assert await jobs.admit_many(bus, queue, new) == [Enqueued()] * count
    assert (await metrics.counts(bus, queue)).pending == count
    held: list[tuple[str, str]] = []
    while len(held) < count:
        held += [(job.id, job.token) for job in (await claims.claim_many(bus, queue, 500, LEASE)).jobs]
    assert await settlement.extend_many(bus, queue, held, LEASE) == []
    verdicts = await settlement.settle_many(bus, queue, [Settlement(i, t, Complete()) for i, t in held])
    assert verdicts == [Settled("completed")] * count
    records = [{"n": str(i)} for i in range(count)]
    appended = await streams.append_batch(bus, queue, "s", records, Minter(2))
    assert len({verdict.id for verdict in appended}) == count
    with pytest.raises(InvalidValue, match="1000"):
        await lanes.depths(bus, queue, [lane(i) for i in range(1001)])
    await bench.sound()


async def test_a_bad_job_in_the_middle_of_a_batch_spoils_no_other(bench: Bench) -> None:
    foreign = NewJob("ORD00000000001", b"x")
    new = [bench.job(), foreign, bench.job(lane=lane(1))]
    verdicts = await jobs.admit_many(bench.bus, bench.queue, new)
    assert verdicts[0] == verdicts[2] == Enqueued()
    assert isinstance(verdicts[1], AdmissionRefused)
    assert "EMQKIND" in verdicts[1].reason
    assert f"job:{foreign.id}" not in await bench.keys()
    await bench.sound()
