"""Who else uses the server that is examined, so that nobody's scripts are flushed and nobody's commands are counted.

A run names its sockets; every other client is a neighbour. Replicas do not count: they do what their primary does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codemojex.engine.transport.connector import Connector


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other clients of one server at one instant: id to what grows with each of its commands."""

    commands: Mapping[str, int]

    def since(self, before: Neighbours) -> str:
        """What they did since `before`, in words; empty when nothing."""
        met = self.commands.keys() - before.commands.keys()
        gone = before.commands.keys() - self.commands.keys()
        busy = [i for i, n in self.commands.items() if before.commands.get(i, n) != n]
        if not (met or gone or busy):
            return ""
        return f"other clients worked meanwhile: {len(busy)} sent commands, {len(met)} came, {len(gone)} went"


def named(url: str, name: str) -> str:
    """The address with which the server knows a socket by `name`."""
    return f"{url}{'&' if '?' in url else '?'}client_name={name}"


async def look(bus: Connector, key: str, name: str) -> Neighbours:
    """The clients of the server of `key` whose names do not begin with `name`."""
    lines = (await bus.at(key, "CLIENT", "LIST")).decode(errors="replace").splitlines()
    clients = [dict(part.partition("=")[::2] for part in line.split(" ")) for line in lines]
    others = [
        client
        for client in clients
        if not client.get("name", "").startswith(name) and not set(client.get("flags", "")) & set("SM")
    ]
    return Neighbours({client["id"]: _work(client) for client in others})


def _work(client: Mapping[str, str]) -> int:
    """How many commands; of a server that does not say, the second of the last one."""
    if "tot-cmds" in client:
        return int(client["tot-cmds"])
    return int(client.get("age", "0")) - int(client.get("idle", "0"))
