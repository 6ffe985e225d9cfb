"""The connection: fenced on every socket, nothing sent twice, and every fault by its right name."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from codemojex.engine import errors
from codemojex.engine.errors import (
    EngineError,
    InvalidValue,
    ServerError,
    ServerFull,
    Unavailable,
    UnknownOutcome,
    VersionFence,
)
from codemojex.engine.keyspace import VERSION_KEY, WIRE_VERSION
from codemojex.engine.scripts import ENGINE, Library
from codemojex.engine.transport.connector import Connector
from tests.support.topologies import PortServer
from tests.support.valkey import ValkeyServer

Start = Callable[..., ValkeyServer]
PROBES = Library("tests.engine")


async def set_version(server: ValkeyServer, version: str) -> None:
    client = Redis(unix_socket_path=str(server.socket_path))
    await client.set(VERSION_KEY, version)
    await client.aclose()


async def test_a_fresh_server_is_claimed_for_this_version(start_valkey: Start, connect: Any) -> None:
    bus = await connect(start_valkey().url)
    assert await bus.execute("GET", VERSION_KEY) == WIRE_VERSION.encode()


async def test_a_server_of_another_version_is_refused_with_both_versions(start_valkey: Start) -> None:
    server = start_valkey()
    await set_version(server, "echomq:2.4.2")
    with pytest.raises(VersionFence, match=r"echomq:2\.4\.2.*echomq:3\.0\.0.*\{emq\}:version") as caught:
        await Connector.connect(server.url)
    assert (caught.value.found, caught.value.expected) == ("echomq:2.4.2", WIRE_VERSION)


async def test_every_new_socket_passes_the_fence_again(start_valkey: Start, connect: Any) -> None:
    server = start_valkey()
    bus = await connect(server.url)
    server.kill()
    server.start()
    await set_version(server, "echomq:4.0.0")
    for attempt in (
        bus.execute("SET", "k", "v"),
        bus.blocking("BLPOP", "k", 1, wait_s=1),
        bus.pipeline([("SET", "k", "v")]),
    ):
        with pytest.raises(VersionFence):
            await attempt
    await set_version(server, WIRE_VERSION)
    assert await bus.execute("EXISTS", "k") == 0


async def test_a_server_that_is_not_there_is_unavailable(start_valkey: Start, connect: Any) -> None:
    server = start_valkey()
    bus = await connect(server.url)
    server.kill()
    with pytest.raises((Unavailable, UnknownOutcome)):
        await bus.execute("SET", "k", "v")  # may have reached the socket that is no more
    for _ in range(3):
        with pytest.raises(Unavailable):
            await bus.execute("SET", "k", "v")
    with pytest.raises(Unavailable):
        await bus.blocking("BLPOP", "k", 1, wait_s=1)
    with pytest.raises(Unavailable):
        await Connector.connect("redis://127.0.0.1:1")
    server.start()
    assert await bus.execute("SET", "k", "v") == b"OK"


async def test_a_server_that_takes_the_connection_and_says_nothing_is_unavailable() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        with pytest.raises(Unavailable):
            await Connector.connect(f"redis://127.0.0.1:{port}", timeout_s=0.1)
    finally:
        listener.close()


async def test_a_lost_answer_is_an_unknown_outcome_and_the_command_is_not_sent_twice(
    start_valkey: Start, connect: Any
) -> None:
    server = start_valkey()
    bus = await connect(server.url, timeout_s=0.5)
    await bus.execute("PING")
    server.pause()
    with pytest.raises(UnknownOutcome):
        await bus.execute("INCR", "n")
    with pytest.raises(Unavailable):
        await bus.execute("INCR", "n")  # needs a new socket, and the fence on it gets no answer
    server.resume()
    assert await bus.execute("GET", "n") == b"1"


async def test_a_socket_that_breaks_while_the_command_runs_is_an_unknown_outcome(
    start_valkey: Start, connect: Any
) -> None:
    server = start_valkey()
    bus = await connect(server.url)
    waiting = asyncio.create_task(bus.blocking("BLPOP", "k", 30, wait_s=30))
    async with asyncio.timeout(15):
        while b"blocked_clients:1" not in await bus.execute("INFO", "clients"):
            await asyncio.sleep(0.01)
    server.kill()
    with pytest.raises(UnknownOutcome):
        await waiting


async def test_a_blocking_wait_has_a_deadline_of_its_own(start_valkey: Start, connect: Any) -> None:
    server = start_valkey()
    bus = await connect(server.url, timeout_s=0.5)
    assert await bus.blocking("BLPOP", "k", 0.15, wait_s=0.15) is None
    server.pause()
    with pytest.raises(UnknownOutcome, match="no answer to BLPOP"):
        await bus.blocking("BLPOP", "k", 0.05, wait_s=0.05)
    server.resume()


async def test_a_cancelled_wait_leaves_a_usable_connection(start_valkey: Start, connect: Any) -> None:
    bus = await connect(start_valkey().url, max_blocking=1)
    waiting = asyncio.create_task(bus.blocking("BLPOP", "k", 30, wait_s=30))
    async with asyncio.timeout(15):
        while b"blocked_clients:1" not in await bus.execute("INFO", "clients"):
            await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(15):  # until then the server would serve the one that left
        while b"blocked_clients:0" not in await bus.execute("INFO", "clients"):
            await asyncio.sleep(0.01)
    await bus.execute("RPUSH", "k", "v")
    assert await bus.blocking("BLPOP", "k", 1, wait_s=1) == [b"k", b"v"]


async def test_a_caller_beyond_the_pool_waits_and_then_is_told(start_valkey: Start, connect: Any) -> None:
    bus = await connect(start_valkey().url, timeout_s=1.0, max_blocking=1)
    first = asyncio.create_task(bus.blocking("BLPOP", "k", 5, wait_s=5))
    async with asyncio.timeout(15):
        while b"blocked_clients:1" not in await bus.execute("INFO", "clients"):
            await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="No connection available"):
        await bus.blocking("BLPOP", "k", 5, wait_s=5)
    await bus.execute("RPUSH", "k", "v")
    assert await first == [b"k", b"v"]


async def test_replies_are_raw(bus: Connector, queue: str) -> None:
    await bus.execute("HSET", queue, "f", b"\xff\x00")
    assert await bus.execute("HGETALL", queue) == {b"f": b"\xff\x00"}
    assert await bus.execute("EXISTS", queue) == 1
    assert await bus.execute("GET", queue + "none") is None
    assert await bus.execute("PING") == b"PONG"


async def test_an_error_stands_in_its_place_in_a_pipeline(bus: Connector, queue: str) -> None:
    replies = await bus.pipeline([("SET", queue, "text"), ("LPUSH", queue, "x"), ("GET", queue)])
    assert [replies[0], replies[2]] == [b"OK", b"text"]
    assert isinstance(replies[1], ServerError)
    assert str(replies[1]).startswith("WRONGTYPE")
    assert await bus.pipeline([]) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("EMQKIND job id must be JOB-namespaced", errors.WrongKind),
        ("EMQSTALE complete token mismatch", errors.StaleToken),
        ("EMQSTATE not paused", errors.WrongState),
        ("EMQLOCK job is locked", errors.Locked),
        ("EMQRATE at concurrency ceiling", errors.AtCeiling),
        ("WRONGTYPE of a script", ServerError),
    ],
)
async def test_the_first_word_of_an_error_reply_decides_its_class(
    bus: Connector, text: str, kind: type[EngineError]
) -> None:
    with pytest.raises(ServerError) as caught:
        await bus.execute("EVAL", f"return redis.error_reply('{text}')", 0)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text.partition(" ")[0])
    [reply] = await bus.pipeline([("EVAL", f"return redis.error_reply('{text}')", 0)])
    assert type(reply) is kind


async def test_a_full_server_says_what_to_do(start_valkey: Start, connect: Any) -> None:
    bus = await connect(start_valkey().url)
    await bus.execute("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(ServerFull, match=r"^OOM .*free memory or raise maxmemory"):
        await bus.execute("SET", "k", "v")
    [reply] = await bus.pipeline([("SET", "k", "v")])
    assert isinstance(reply, ServerFull)
    with pytest.raises(ServerFull):
        await bus.execute("EVAL", "return redis.call('SET', 'k', 'v')", 0)


async def test_a_replica_cannot_take_writes_now(start_valkey: Start, connect: Any) -> None:
    bus = await connect(start_valkey().url)
    await bus.execute("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(Unavailable, match="read only"):
        await bus.execute("SET", "k", "v")
    [reply] = await bus.pipeline([("SET", "k", "v")])
    assert isinstance(reply, Unavailable)


async def test_a_server_that_forgot_its_scripts_is_taught_again(start_valkey: Start, connect: Any, queue: str) -> None:
    bus = await connect(start_valkey().url)
    probe = PROBES.script("mint_probe")
    for _ in range(2):
        assert len(await bus.run(probe, [queue], [1008, 1, "1"])) == 1
        await bus.execute("SCRIPT", "FLUSH")
    replies = await bus.run_many(probe, [([f"{queue}:{n}"], [1008, 1, "1"]) for n in range(5)])
    assert [len(r) for r in replies] == [1] * 5
    assert await bus.execute("XLEN", f"{queue}:0") == 1


async def test_one_failing_script_in_a_pipeline_does_not_touch_the_others(bus: Connector, queue: str) -> None:
    await bus.execute("SET", queue, "text")
    probe = PROBES.script("mint_probe")
    replies = await bus.run_many(probe, [([queue], [1008, 1, "1"]), ([queue + "s"], [1008, 1, "1"])])
    assert isinstance(replies[0], ServerError)
    assert len(replies[1]) == 1


async def test_a_digest_that_the_server_does_not_share_is_refused(bus: Connector) -> None:
    wrong = dataclasses.replace(ENGINE.script("stream_append"), sha="0" * 40)
    with pytest.raises(ServerError, match="digest"):
        await bus.run(wrong, ["k"])


@pytest.mark.parametrize("url", ["", "http://x", "localhost:6379", "memcached://x"])
async def test_another_kind_of_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="valkey://"):
        await Connector.connect(url)


@pytest.mark.parametrize("who", ["", "nobody:wrong@", ":wrong@"])
async def test_a_refused_password_is_an_error_of_its_own_that_shows_none(
    start_valkey: Start, connect: Any, who: str
) -> None:
    server = start_valkey()
    bus = await connect(server.url)
    await bus.execute("CONFIG", "SET", "requirepass", "right")
    with pytest.raises(errors.AccessDenied, match="refuses the user or the password") as refusal:
        await connect(server.url.replace("://", f"://{who}"))
    assert "wrong" not in str(refusal.value)
    right = await connect(server.url.replace("://", "://:right@"))
    assert await right.execute("PING") == b"PONG"


@pytest.mark.parametrize("who", ["", "nobody:wrong@", ":wrong@"])
async def test_so_it_is_when_those_are_asked_who_know_where_the_servers_are(who: str) -> None:
    server = PortServer()
    try:
        server.start()
        await server.do("CONFIG", "SET", "requirepass", "right")
        for url, remedy in (
            (f"cluster://{who}{server.address}", "user:password@"),
            (f"sentinel://{who}{server.address}/jobs", "sentinel_password=…"),
        ):
            with pytest.raises(errors.AccessDenied) as refusal:
                await Connector.connect(url)
            assert remedy in str(refusal.value)
            assert "wrong" not in str(refusal.value)
    finally:
        server.close()
