"""What a server may lose is said in one line with the remedy, and what it does not tell is unknown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codemojex.engine.errors import ServerError
from codemojex.engine.transport.connector import Connector
from codemojex.ops.health import checks_for, examine
from codemojex.ops.server import Looked, look
from tests.support.topologies import Cluster, PortServer
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

Start = Callable[..., ValkeyServer]
QUEUES = ("cm.in", "cm", "cm.out")


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Connector]:
    bus = await Connector.connect(url, timeout_s=5.0)
    try:
        yield bus
    finally:
        await bus.close()


async def found(url: str) -> Looked:
    async with connected(url) as bus:
        return await look(bus, QUEUES)


async def test_a_server_that_keeps_everything_is_well(start_valkey: Start) -> None:
    seen = await found(start_valkey(aof=True).url)
    assert (seen.broken, seen.doubts, seen.unknown) == ([], [], [])
    assert seen.text.startswith("Valkey ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--maxmemory-policy", "allkeys-lru"), ("allkeys-lru", "as soon as", "set maxmemory-policy noeviction")),
        (("--maxmemory-policy", "volatile-ttl", "--maxmemory", "100mb"), ("volatile-ttl", "at 104857600 bytes")),
        (("--appendonly", "no"), ("snapshot", "set appendonly yes")),
    ],
)
async def test_a_server_that_may_lose_data_is_named_with_the_remedy(
    start_valkey: Start, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    seen = await found(start_valkey(*options, aof="--appendonly" not in options).url)
    (line,) = seen.doubts
    assert all(word in line for word in words)


async def test_a_replica_cannot_be_worked_with(start_valkey: Start, tmp_path: Path) -> None:
    primary = PortServer(aof=True)
    try:
        primary.start()
        async with connected(primary.url):
            pass  # the version is there, so the replica lets us in
        replica = start_valkey("--replicaof", f"127.0.0.1 {primary.port}", aof=True)

        async def linked() -> bool:
            try:
                return bool((await found(replica.url)).broken)
            except Exception:
                return False

        await until(linked)
        assert f"replica (of 127.0.0.1:{primary.port})" in (await found(replica.url)).broken[0]
        (finding,) = await examine(checks_for(valkey_url=replica.url, directory=tmp_path, queues=QUEUES))
        assert (finding.well, "primary" in finding.detail) == (False, True)
    finally:
        primary.close()


async def test_a_cluster_without_some_of_its_slots_is_named() -> None:
    cluster = Cluster()
    try:
        await cluster.start()
        async with connected(cluster.url) as bus:
            assert not any("slots" in line for line in (await look(bus, QUEUES)).doubts)
            for node in cluster.nodes:
                await node.do("CONFIG", "SET", "cluster-require-full-coverage", "no")
            await cluster.owner(0).do("CLUSTER", "DELSLOTS", 0)
            for node in cluster.nodes:
                if node is not cluster.owner(0):
                    await node.do("CLUSTER", "DELSLOTS", 0)
            seen = await look(bus, QUEUES)
        assert any("16383 of 16384 slots" in line for line in seen.doubts)
    finally:
        cluster.close()


class _Told:
    """A server that tells of itself only this."""

    def __init__(self, info: str | ServerError) -> None:
        self._info = info

    async def at(self, key: str, *command: str) -> bytes:
        if isinstance(self._info, ServerError):
            raise self._info
        return self._info.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("info", "doubts", "unknown"),
    [
        ("", [], ["primary or replica", "the version", "maxmemory-policy", "appendonly"]),
        ("role:master\nredis_version:7.2.4\nvalkey_version:7.2.9\nmaxmemory_policy:noeviction\naof_enabled:1",
         ["Valkey 7.2.9 is too old"], []),
        ("role:master\nredis_version:7.4.1\nmaxmemory_policy:noeviction\naof_enabled:1", ["a Redis (7.4.1)"], []),
        ("role:master\nredis_version:7.2.4\nvalkey_version:9.0.0\nmaxmemory_policy:noeviction\naof_enabled:1\n"
         "aof_last_write_status:err", ["cannot write its append-only file"], []),
        (ServerError("NOPERM no permissions to run the 'info' command"), [], ["NOPERM"]),
    ],
)  # fmt: skip
async def test_what_a_server_does_not_tell_is_unknown(
    info: str | ServerError, doubts: list[str], unknown: list[str]
) -> None:
    told: Any = _Told(info)
    seen = await look(told, QUEUES)
    assert len(seen.doubts) == len(doubts)
    assert len(seen.unknown) == len(unknown)
    assert all(words in line for words, line in zip(doubts, seen.doubts, strict=True))
    assert all(words in line for words, line in zip(unknown, seen.unknown, strict=True))


async def test_a_user_without_the_right_to_config_is_told_the_same(start_valkey: Start) -> None:
    server = start_valkey("--maxmemory-policy", "allkeys-lru")
    async with connected(server.url) as bus:
        await bus.execute("ACL", "SETUSER", "app", "on", ">secret-word", "~*", "&*", "+@all", "-config")
    user = f"unix://app:secret-word@{server.socket_path}"
    seen = await found(user)
    assert any("allkeys-lru" in line for line in seen.doubts)
    assert seen.unknown == []


async def test_health_shows_the_doubts_and_is_well(start_valkey: Start, tmp_path: Path) -> None:
    server = start_valkey("--maxmemory-policy", "allkeys-lru", aof=True)
    (finding,) = await examine(checks_for(valkey_url=server.url, directory=tmp_path, queues=QUEUES))
    assert (finding.well, finding.doubtful) == (True, True)
    assert "allkeys-lru" in finding.detail
