"""Clusters and replica sets for tests, from the same wheel as the single server.

The wheel brings one program, and it can be all of them: a cluster is formed by commands, a Sentinel is the server
with another configuration. Every process listens on a free port of this machine and ends with its test.
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from codemojex.engine import keyspace
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

SLOTS = 16384


_SHARES = 32  # so many test processes take no port from each other


def _free_ports() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = range(10_000 + worker % _SHARES, 32_000, _SHARES)
    while True:
        for port in random.sample(share, len(share)):
            with closing(socket.socket()) as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            yield port


_ports = _free_ports()


def free_port() -> int:
    """A port that nobody uses, out of the range that outgoing connections take theirs from."""
    return next(_ports)


class PortServer(ValkeyServer):
    """A server that also listens on a port."""

    def __init__(self, *options: str, aof: bool = False) -> None:
        self.port = free_port()
        super().__init__("--port", str(self.port), "--bind", "127.0.0.1", *options, aof=aof)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def do(self, *command: Any) -> Any:
        """One bare command, past the engine."""
        client = Redis(unix_socket_path=str(self.socket_path), protocol=3)
        client.response_callbacks.clear()
        try:
            return await client.execute_command(*command)
        finally:
            await client.aclose()


class ClusterNode(PortServer):
    """A node of a cluster; not part of one until `Cluster` introduces it."""

    def __init__(self) -> None:
        bus = free_port()
        super().__init__(
            *("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "1500"),
            *("--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"),
        )
        self.bus_port = bus
        self.id = ""


class Cluster:
    """Primaries with an equal share of the slots each, and replicas for some of them."""

    def __init__(self, primaries: int = 3, replicas: int = 0) -> None:
        self.nodes = [ClusterNode() for _ in range(primaries)]
        self.replicas = [ClusterNode() for _ in range(replicas)]

    @property
    def url(self) -> str:
        return "cluster://" + ",".join(node.address for node in self.nodes)

    async def start(self) -> Cluster:
        everybody = [*self.nodes, *self.replicas]
        for node in everybody:
            node.start()
            node.id = (await node.do("CLUSTER", "MYID")).decode()
        share = SLOTS // len(self.nodes)
        for i, node in enumerate(self.nodes):
            last = SLOTS - 1 if node is self.nodes[-1] else (i + 1) * share - 1
            await node.do("CLUSTER", "ADDSLOTSRANGE", i * share, last)
            await node.do("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in everybody[1:]:
            await self.nodes[0].do("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        await until(lambda: self._agree(len(everybody)), "the cluster has formed")
        for i, replica in enumerate(self.replicas):
            await replica.do("CLUSTER", "REPLICATE", self.nodes[i].id)
        for replica in self.replicas:
            await until(lambda replica=replica: _linked(replica), "the replica follows")
        return self

    def owner(self, slot: int) -> ClusterNode:
        """Who got the slot at the start."""
        return self.nodes[min(slot // (SLOTS // len(self.nodes)), len(self.nodes) - 1)]

    def close(self) -> None:
        for node in [*self.nodes, *self.replicas]:
            node.close()

    async def _agree(self, size: int) -> bool:
        for node in [*self.nodes, *self.replicas]:
            info = (await node.do("CLUSTER", "INFO")).decode()
            if "cluster_state:ok" not in info or f"cluster_slots_assigned:{SLOTS}" not in info:
                return False
            if len((await node.do("CLUSTER", "NODES")).splitlines()) != size:
                return False
        return True

    # two ways to move a slot

    async def move_at_once(self, slot: int, target: ClusterNode) -> None:
        """Atomically: the slot's keys are copied behind the scenes and the slot changes hands in one step."""
        source = self.owner(slot)
        await source.do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        await until(lambda: _owns(target, slot), "the slot has moved")

    async def begin_move(self, slot: int, target: ClusterNode) -> None:
        """Key by key, first step: the slot lies open between two nodes."""
        await target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", self.owner(slot).id)
        await self.owner(slot).do("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    async def move_keys(self, slot: int, target: ClusterNode, limit: int = 1000) -> int:
        """Key by key: up to `limit` keys; how many went."""
        source = self.owner(slot)
        names = await source.do("CLUSTER", "GETKEYSINSLOT", slot, limit)
        if names:
            await source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *names)
        return len(names)

    async def finish_move(self, slot: int, target: ClusterNode) -> None:
        """Key by key, last step: everybody is told."""
        for node in [target, self.owner(slot), *self.nodes]:
            await node.do("CLUSTER", "SETSLOT", slot, "NODE", target.id)


class ReplicaSet:
    """A primary, one replica and three Sentinels that fail over after a second."""

    SERVICE = "jobs"

    def __init__(self, *options: str) -> None:
        self.primary = PortServer("--repl-diskless-sync-delay", "0", *options)
        self.replica = PortServer("--repl-diskless-sync-delay", "0", *options)
        self.sentinels = [_Sentinel() for _ in range(3)]

    @property
    def url(self) -> str:
        return "sentinel://" + ",".join(s.address for s in self.sentinels) + f"/{self.SERVICE}"

    async def start(self) -> ReplicaSet:
        self.primary.start()
        self.replica.start()
        await self.replica.do("REPLICAOF", "127.0.0.1", self.primary.port)
        await until(lambda: _linked(self.replica), "the replica follows")
        for sentinel in self.sentinels:
            sentinel.start()
            await sentinel.do("SENTINEL", "MONITOR", self.SERVICE, "127.0.0.1", self.primary.port, 2)
            for name, value in (("down-after-milliseconds", 1000), ("failover-timeout", 5000)):
                await sentinel.do("SENTINEL", "SET", self.SERVICE, name, value)
        await until(self._know_each_other, "the Sentinels know each other and the replica")
        return self

    async def failed_over(self) -> None:
        """Wait until the replica is the primary."""
        await until(lambda: _is_primary(self.replica), "the replica was promoted")

    def close(self) -> None:
        for server in [*self.sentinels, self.primary, self.replica]:
            server.close()

    async def _know_each_other(self) -> bool:
        for sentinel in self.sentinels:
            known: dict[bytes, bytes] = await sentinel.do("SENTINEL", "PRIMARY", self.SERVICE)
            if known[b"num-other-sentinels"] != b"2" or known[b"num-slaves"] != b"1":
                return False
        return True


class _Sentinel(PortServer):
    def command(self) -> list[str]:
        config: Path = self.directory / "sentinel.conf"
        config.write_text(f"port {self.port}\nunixsocket {self.socket_path}\ndir {self.directory}\n")
        return [self.program, str(config), "--sentinel"]


def queue_on(cluster: Cluster, node: ClusterNode) -> str:
    """A fresh queue whose slot the node has."""
    while True:
        queue = f"t{uuid.uuid4().hex[:12]}"
        if cluster.owner(slot_of(queue)) is node:
            return queue


def slot_of(queue: str) -> int:
    """The slot of all keys of a queue."""
    return keyspace.slot(keyspace.of(queue).prefix)


async def _linked(replica: PortServer) -> bool:
    return b"master_link_status:up" in await replica.do("INFO", "replication")


async def _is_primary(server: PortServer) -> bool:
    return (await server.do("ROLE"))[0] == b"master"


async def _owns(node: ClusterNode, slot: int) -> bool:
    for first, last, primary, *_ in await node.do("CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return primary[1] == node.port
    return False
