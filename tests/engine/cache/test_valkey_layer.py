"""The rules of the shared layer, one by one: which write wins, who is told, who may fill, and what stays behind."""

from __future__ import annotations

import itertools
import uuid

import pytest

from codemojex.engine import keyspace
from codemojex.engine.cache import frame as frames
from codemojex.engine.cache import valkey_layer
from codemojex.engine.cache.circuit_breaker import Circuit
from codemojex.engine.cache.frame import Frame
from codemojex.engine.cache.valkey_layer import Found, ValkeyLayer, Written
from codemojex.engine.scripts import ENGINE
from tests.engine.bench import Bench

ENTRY = "a"
# Versions whose order shows in the upper digits, in the lower digits, and beyond what a number of Lua holds.
PAIRS = [(1, 2), (5 * 10**10 + 9, 6 * 10**10 + 1), (2**63 - 3, 2**63 - 2)]


class Layer(ValkeyLayer):
    """The second layer of a table of the test's own, with a hand on its keys."""

    def __init__(self, bench: Bench) -> None:
        self.name = uuid.uuid4().hex.translate(str.maketrans("0123456789", "ghijklmnop"))
        super().__init__(bench.bus, self.name, Circuit(), 5.0)
        self.bus = bench.bus
        self.entry = keyspace.cache(self.name, ENTRY)
        self.lease = keyspace.cache_lease(self.name, ENTRY)

    async def put(self, kind: str, version: int, payload: bytes = b"old") -> Frame:
        """An entry, whatever stood there; nobody is told."""
        await self.bus.execute("DEL", self.entry)
        assert await self.write(ENTRY, "put", kind, version=version, ttl_s=60, payload=payload) == Written(
            version, None
        )
        await self.bus.execute("DEL", self.log)
        return await self.frame()

    async def frame(self) -> Frame:
        frame = (await self.read(ENTRY)).frame
        assert frame is not None
        return frame

    async def told(self) -> list[tuple[bytes, list[bytes]]]:
        return [(entry[0], entry[1]) for entry in await self.bus.execute("XRANGE", self.log, "-", "+")]


@pytest.fixture
def layer(bench: Bench) -> Layer:
    return Layer(bench)


@pytest.mark.parametrize(
    "version", [0, 7, 10**10 - 2, 10**10 - 1, 26 * 10**10 - 1, 2**53 - 1, 2**53, 2**63 - 2, 10**18 - 1, 3 * 10**18 - 1]
)
async def test_a_change_of_a_version_makes_the_next_one(layer: Layer, version: int) -> None:
    await layer.put("V", version)
    assert await layer.write("a", "cas", "V", expected=version, ttl_s=60, payload=b"y") == Written(version + 1, None)
    frame = await layer.frame()
    assert (frame.version, frame.payload) == (version + 1, b"y")


@pytest.mark.parametrize(("low", "high"), PAIRS)
@pytest.mark.parametrize(("mode", "kind"), [("put", "V"), ("put", "T"), ("fill", "V"), ("fill", "N")])
async def test_the_newer_write_wins_and_others_hear_of_what_was_replaced(
    layer: Layer, mode: str, kind: str, low: int, high: int
) -> None:
    for there, (old, new), known in itertools.product("VNT", [(low, high), (high, low), (low, low)], (True, False)):
        before = await layer.put(there, old)
        written = await layer.write(
            ENTRY, mode, kind, version=new, ttl_s=60, payload=b"new", expected=old if known else old + 1
        )
        if kind == "N":
            wins, version = there == "N" or (there == "T" and known), old
        else:
            again = new == old and kind == "V" and (there != "V" or mode == "fill")
            wins, version = new > old or again, new
        case = f"{mode} {kind} {new} over {there} {old}"
        assert written == (Written(version, None) if wins else Written(None, before)), case
        after = await layer.frame()
        there_now = (kind, version, b"new") if wins else (there, old, b"old")
        assert (after.kind, after.version, after.payload) == there_now, case
        heard = wins and (mode == "put" or (there != "T" and version > old))
        assert len(await layer.told()) == heard, case


async def test_a_first_fill_is_told_to_nobody_and_a_first_put_to_everybody(layer: Layer) -> None:
    assert await layer.write(ENTRY, "fill", "V", version=3, ttl_s=60) == Written(3, None)
    assert await layer.told() == []
    await layer.bus.execute("DEL", layer.entry)
    assert await layer.write(ENTRY, "fill", "N", version=3, ttl_s=60) == Written(3, None)
    assert await layer.write(ENTRY, "put", "V", version=4, ttl_s=60) == Written(4, None)
    assert await layer.write(ENTRY, "put", "T", version=5, ttl_s=60) == Written(5, None)
    heard = await layer.told()
    assert [fields for _, fields in heard] == [[b"id", b"a", b"v", frames.digits(v).encode()] for v in (4, 5)]
    births, numbers = zip(*(stream_id.split(b"-") for stream_id, _ in heard), strict=True)
    assert (births[0] == births[1], numbers) == (True, (b"0", b"1")), "dense, under the log's birth"
    seconds, micros = await layer.bus.execute("TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    assert now_ms - 60_000 < int(births[0]) <= now_ms


async def test_the_log_keeps_its_last_entries(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey_layer, "_LOG_LENGTH", 2)
    for version in (1, 2, 3):
        await layer.write(ENTRY, "put", "V", version=version, ttl_s=60)
    assert [fields[3] for _, fields in await layer.told()] == [frames.digits(v).encode() for v in (2, 3)]


@pytest.mark.parametrize("there", ["V", "T", ""])
async def test_a_change_is_made_over_the_expected_version_only(layer: Layer, there: str) -> None:
    before = await layer.put(there, 7) if there else None
    for wrong in {0, 6, 7, 8} - {7 if there else 0}:
        assert await layer.write(ENTRY, "cas", "V", expected=wrong, ttl_s=60) == Written(None, before)
    assert await layer.told() == []
    written = await layer.write(ENTRY, "cas", "T", expected=7 if there else 0, ttl_s=60)
    seconds, _ = await layer.bus.execute("TIME")
    assert written.version is not None
    assert (written.version == 8) if there else (abs(written.version - int(seconds) * 1000) < 60_000)
    assert [fields[3] for _, fields in await layer.told()] == [frames.digits(written.version).encode()]


async def test_an_entry_lives_as_long_as_its_frame_says(layer: Layer) -> None:
    await layer.put("V", 1)
    seconds, _ = await layer.bus.execute("TIME")
    frame, left_ms = await layer.frame(), await layer.bus.execute("PTTL", layer.entry)
    assert 53_000 < left_ms <= 60_000
    assert abs(frame.expires_at_ms - int(seconds) * 1000 - left_ms) < 2_000
    await layer.write(ENTRY, "put", "V", version=2, ttl_s=60)
    assert 6 * 86_400_000 < await layer.bus.execute("PTTL", layer.log) <= 7 * 86_400_000


async def test_one_reader_at_a_time_may_fill_what_has_no_value(layer: Layer) -> None:
    assert await layer.read(ENTRY) == Found(None, 0, ""), "no lease was wanted"
    assert await layer.bus.execute("EXISTS", layer.lease) == 0
    assert (await layer.read(ENTRY, "mine", 60_000)).turn == "lease"
    assert 0 < await layer.bus.execute("PTTL", layer.lease) <= 60_000
    assert (await layer.read(ENTRY, "other", 60_000)).turn == "wait"
    tombstone = await layer.put("T", 3)
    found = await layer.read(ENTRY, "mine", 5_000)
    assert (found.frame, found.turn) == (tombstone, "lease")
    assert 53 < found.remaining_s <= 60
    for kind in "NV":
        there = await layer.put(kind, 4)
        found = await layer.read(ENTRY, "mine", 60_000)
        assert (found.frame, found.turn) == (there, ""), "there is nothing to fill"
        assert 53 < found.remaining_s <= 60
        assert await layer.bus.execute("EXISTS", layer.lease) == 0


async def test_a_fill_gives_only_its_own_lease_back_and_a_change_takes_it_away(layer: Layer) -> None:
    async def left(mode: str, token: str, version: int) -> bool:
        await layer.bus.execute("SET", layer.lease, "mine")
        await layer.write(ENTRY, mode, "V", version=version, expected=version, token=token, ttl_s=60)
        return await layer.bus.execute("DEL", layer.lease) == 1

    await layer.put("V", 5)
    for version in (4, 6):  # superseded, applied
        assert not await left("fill", "mine", version)
        assert await left("fill", "other", version)
        assert await left("fill", "", version)
        assert await left("release", "other", version)
        assert not await left("release", "mine", version)
        assert not await left("put", "", version)
        assert not await left("cas", "", version + 1)


@pytest.mark.parametrize("kind", ["string", "list"])
async def test_what_is_no_frame_is_absent_and_goes(layer: Layer, kind: str) -> None:
    async def damage() -> None:
        await layer.bus.execute("DEL", layer.entry)
        await layer.bus.execute(*(("SET",) if kind == "string" else ("RPUSH",)), layer.entry, "EC1V" + "1" * 35)

    await damage()
    assert await layer.read(ENTRY) == Found(None, 0, "")
    assert await layer.bus.execute("EXISTS", layer.entry) == 0
    await damage()
    assert await layer.write(ENTRY, "cas", "V", expected=5, ttl_s=60) == Written(None, None)
    assert await layer.write(ENTRY, "put", "V", version=1, ttl_s=60) == Written(1, None)


async def test_only_the_frame_that_was_read_is_dropped(layer: Layer) -> None:
    old, new = await layer.put("V", 1), await layer.put("V", 2)
    await layer.drop(ENTRY, old)
    assert await layer.bus.run(ENGINE.script("cache_drop"), [layer.entry], [old.raw]) == 0
    assert await layer.frame() == new
    await layer.drop(ENTRY, new)
    assert await layer.read(ENTRY) == Found(None, 0, "")
