"""Keys and slots: one tag a queue, names checked before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemojex.engine import keyspace
from codemojex.engine.errors import CrossSlot, InvalidId, InvalidName

SLOTS: dict[str, int] = json.loads((Path(__file__).parents[1] / "vectors" / "branded_ids.json").read_text())["slots"]
JOB = "JOB0KHTOWnGLuC"


@pytest.mark.parametrize(("key", "slot"), [*SLOTS.items(), ("{emq}", 9051), ("q1", 7450), ("q7", 15836)])
def test_slots(key: str, slot: int) -> None:
    assert keyspace.slot(key) == slot


def test_the_keys_of_a_queue() -> None:
    keys = keyspace.of("orders")
    assert len(keys.prefix + "job:") == 17
    assert keys.row(JOB) == f"emq:{{orders}}:job:{JOB}"
    assert keys.lane("PRT0KHTOWnGLuC") == "emq:{orders}:g:PRT0KHTOWnGLuC:pending"
    assert keys.stream("feed") == "emq:{orders}:stream:feed"
    assert keys.archived("feed") == "emq:{orders}:stream:feed:archived"
    assert keys.dedup("a:b") == "emq:{orders}:de:a:b"
    assert keys.events() == "emq:{orders}:events"
    assert {keyspace.slot(k) for k in (keys.row(JOB), keys.key("pending"), keys.stream("s"))} == {105}
    assert keyspace.slot(keyspace.VERSION_KEY) == 9051


@pytest.mark.parametrize("queue", ["", "emq", "a b", "a{b", "a:b", "x" * 129, "ä", "a\n"])
def test_a_bad_queue_name_is_refused(queue: str) -> None:
    with pytest.raises(InvalidName, match="queue"):
        keyspace.of(queue)


@pytest.mark.parametrize("name", ["", "a:archived", "a b", "x" * 129, "a\n"])
def test_a_bad_stream_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="stream"):
        keyspace.of("q").stream(name)


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "a\n"])
def test_a_bad_dedup_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidName, match="dedup"):
        keyspace.of("q").dedup(key)


def test_rows_and_lanes_take_branded_ids_only() -> None:
    for build in (keyspace.of("q").row, keyspace.of("q").lane):
        with pytest.raises(InvalidId):
            build("42")


@pytest.mark.parametrize("table", ["", "Games", "a-b", "x" * 65, "a\n", ".games", "second.", "a.b.games", "2.games"])
def test_a_bad_cache_table_is_refused(table: str) -> None:
    with pytest.raises(InvalidName, match="cache table"):
        keyspace.cache(table, "x")


def test_a_cache_table_may_stand_in_a_namespace() -> None:
    assert keyspace.cache("second-2.games", "x") == "ecc:{second-2.games}:x"


def test_a_key_outside_the_slot_is_named() -> None:
    keys = keyspace.of("cm")
    keys.require_same_slot(["emq:{cm}:pending", "cmx:{cm}:game:1"])
    with pytest.raises(CrossSlot, match=r"cmx:other.*\{cm\}"):
        keys.require_same_slot(["cmx:{cm}:game:1", "cmx:other:game:1"])
