"""Ids that scripts mint for stream records: exact digits, the server's order, one id for several streams."""

from __future__ import annotations

import itertools
import random

import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.errors import ServerError
from codemojex.engine.scripts import Library
from codemojex.engine.transport.connector import Connector

PROBES = Library("tests.engine")
NODE = 1008
FIRST, LAST = NODE * 4096, NODE * 4096 + 4095


async def mint(bus: Connector, *keys: str, n: int = 1, append: bool = True, node: int = NODE) -> list[tuple[str, str]]:
    replies = await bus.run(PROBES.script("mint_probe"), keys, [node, n, int(append)])
    return [(i.decode(), s.decode()) for i, s in replies]


async def server_ms(bus: Connector) -> int:
    seconds, micros = await bus.execute("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_the_digits_made_in_lua_are_those_made_in_python(bus: Connector) -> None:
    rng = random.Random(62)
    snowflakes = [0, 1, 61, 62, 2**22 - 1, 2**22, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1]
    snowflakes += [rng.getrandbits(63) for _ in range(1000)]
    limbs = [limb for s in snowflakes for limb in (s >> 22, s & 0x3FFFFF)]
    digits = await bus.run(PROBES.script("base62_probe"), [], limbs)
    assert [d.decode() for d in digits] == [ids.base62(s) for s in snowflakes]


async def test_a_minted_id_names_its_stream_id_and_carries_the_servers_time_and_the_node(
    bus: Connector, queue: str
) -> None:
    before = await server_ms(bus)
    [(branded, stream_id)] = await mint(bus, keyspace.of(queue).stream("s"))
    parsed = ids.parse(branded)
    assert (parsed.namespace, parsed.node, parsed.stream_id) == ("EVT", NODE, stream_id)
    assert before <= parsed.unix_ms <= await server_ms(bus)


async def test_ids_grow_across_runs_and_past_4096_in_one_run(bus: Connector, queue: str) -> None:
    key = keyspace.of(queue).stream("s")
    minted = [*await mint(bus, key, n=5000), *await mint(bus, key, n=5)]
    assert [i for i, _ in minted] == sorted({i for i, _ in minted})
    assert all(ids.parse(i).stream_id == s and ids.parse(i).node == NODE for i, s in minted)
    assert await bus.execute("XLEN", key) == 5005


async def test_the_id_is_greater_than_a_last_id_in_the_future(bus: Connector, queue: str) -> None:
    rng = random.Random(7)
    for n in range(300):
        key = keyspace.of(queue).stream(f"s{n}")
        future = await server_ms(bus) + rng.randrange(1, 10**11)
        tail = rng.choice(
            [
                0,
                NODE * 4096 - 1,
                NODE * 4096,
                NODE * 4096 + 4094,
                NODE * 4096 + 4095,
                2**22 - 1,
                2**40,
                rng.getrandbits(22),
            ]
        )
        await bus.execute("XADD", key, f"{future}-{tail}", "f", "v")
        [(branded, stream_id)] = await mint(bus, key)
        parsed = ids.parse(branded)
        assert (parsed.unix_ms, parsed.tail) > (future, tail)
        assert parsed.unix_ms - future <= 1
        assert (parsed.stream_id, parsed.node) == (stream_id, NODE)


async def test_a_trimmed_record_still_counts_as_the_last_one(bus: Connector, queue: str) -> None:
    key = keyspace.of(queue).stream("s")
    future = await server_ms(bus) + 50_000
    await bus.execute("XADD", key, f"{future}-5", "f", "v")
    await bus.execute("XTRIM", key, "MAXLEN", "=", 0)
    [(branded, _)] = await mint(bus, key)
    assert ids.parse(branded).unix_ms == future


async def test_with_a_cell_no_two_streams_of_the_slot_share_an_id(bus: Connector, queue: str) -> None:
    keys = keyspace.of(queue)
    cell = keys.key("stream:cell")
    minted = [
        pair for n in range(40) for pair in await mint(bus, keys.stream(f"s{n % 4}"), cell, n=50, append=n % 3 != 0)
    ]
    assert [i for i, _ in minted] == sorted({i for i, _ in minted})
    assert 86_000_000 < await bus.execute("PTTL", cell) <= 86_400_100


async def test_with_a_cell_no_two_ids_of_one_run_are_equal_either(bus: Connector, queue: str) -> None:
    keys = keyspace.of(queue)
    names = [keys.stream("a"), keys.stream("b"), keys.key("stream:cell")]
    places = [place.decode().split("-") for place in await bus.run(PROBES.script("pair_probe"), names, [NODE, 9])]
    assert [int(tail) for _, tail in places] == list(range(FIRST, FIRST + 9))
    assert len({ms for ms, _ in places}) == 1


async def test_one_event_has_one_id_in_every_stream_greater_than_the_last_of_all(bus: Connector, queue: str) -> None:
    game, feed = keyspace.of(queue).stream("GAM00000000000"), keyspace.of(queue).stream("feed")
    future = await server_ms(bus) + 9_000
    await bus.execute("XADD", feed, f"{future}-3", "f", "v")
    replies = await bus.run(PROBES.script("append_probe"), [game, feed], [NODE, 3])
    in_game = await bus.execute("XRANGE", game, "-", "+")
    assert (await bus.execute("XRANGE", feed, "-", "+"))[1:] == in_game
    assert [entry_id for entry_id, _ in in_game] == [stream_id for _, stream_id in replies]
    assert in_game[0][1] == [
        b"id", replies[0][0], b"kind", b"probe.done", b"v", b"1", b"game", b"GAM00000000000", b"data", b'{"n":1}',
    ]  # fmt: skip
    assert ids.parse(replies[0][0].decode()).unix_ms == future


LASTS = list(
    itertools.product([(0, 3), (0, FIRST), (0, FIRST + 9), (0, LAST), (-1, LAST - 1), (1, FIRST - 1)], repeat=2)
)


def following(ms: int, tail: int) -> str:
    """The first place of the node behind another place."""
    if tail < FIRST:
        return f"{ms}-{FIRST}"
    return f"{ms}-{tail + 1}" if tail < LAST else f"{ms + 1}-{FIRST}"


async def test_the_id_is_the_next_one_behind_the_last_of_all_streams_and_of_the_cell(
    bus: Connector, queue: str
) -> None:
    keys = keyspace.of(queue)
    future = await server_ms(bus) + 600_000
    for n, lasts in enumerate(LASTS):
        places = [(future + ms, tail) for ms, tail in lasts]
        one, two, cell = keys.stream(f"one{n}"), keys.stream(f"two{n}"), keys.key(f"cell{n}")
        for stream, (ms, tail) in zip((one, two), places, strict=True):
            await bus.execute("XADD", stream, f"{ms}-{tail}", "f", "v")
        await bus.execute("SET", cell, "-".join(map(str, places[0])))
        wanted = following(*max(places))
        [(_, stream_id)] = await mint(bus, two, cell)
        assert (stream_id, await bus.execute("GET", cell)) == (wanted, wanted.encode()), lasts
        [(branded, stream_id)] = await bus.run(PROBES.script("append_probe"), [one, two], [NODE, 1])
        ms, tail = map(int, wanted.split("-"))
        assert stream_id.decode() == ids.parse(branded.decode()).stream_id == following(ms, tail), lasts
        assert 86_400_000 < await bus.execute("PTTL", cell) - 590_000 <= 86_411_000, "it outlives the id by a day"


async def test_the_last_millisecond_that_an_id_can_name_is_used(bus: Connector, queue: str) -> None:
    key = keyspace.of(queue).stream("s")
    await bus.execute("XADD", key, "3903090455551-5", "f", "v")
    [(_, stream_id)] = await mint(bus, key)
    assert stream_id == f"3903090455551-{FIRST}"


async def test_a_stream_ahead_of_all_ids_is_refused_and_nothing_is_written(bus: Connector, queue: str) -> None:
    key, cell = keyspace.of(queue).stream("s"), keyspace.of(queue).key("stream:cell")
    await bus.execute("XADD", key, "3903090455551-4194303", "f", "v")
    with pytest.raises(ServerError, match="no id can be minted"):
        await mint(bus, key, cell)
    assert await bus.execute("XLEN", key) == 1
    assert await bus.execute("EXISTS", cell) == 0
