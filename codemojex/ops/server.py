"""Says what a server may lose of what it is given: it reads `INFO` only, which managed servers answer as well.

A doubt is one line: what it is, what may be lost, and how to set it. What the server does not tell is unknown, and is
said to be. A cluster is asked where the program's queues live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codemojex.engine import keyspace
from codemojex.engine.errors import ServerError
from codemojex.engine.transport.connector import Connector

OLDEST = 8  # major version of Valkey
_SLOTS = 16_384


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at the servers found.

    `broken`: nothing can work so; `doubts`: it works, and may lose data; `unknown`: the server does not say. `well`
    sums up the rest in a few words.
    """

    broken: Sequence[str]
    doubts: Sequence[str]
    unknown: Sequence[str]
    well: str

    @property
    def text(self) -> str:
        """Everything in one line."""
        unknown = [f"unknown: {', '.join(self.unknown)}"] if self.unknown else []
        return "; ".join([*self.broken, *self.doubts, *unknown]) or self.well


async def look(bus: Connector, queues: Iterable[str]) -> Looked:
    """Ask the server of every queue, each server once."""
    broken: dict[str, None] = {}  # in order, and each line once
    doubts: dict[str, None] = {}
    unknown: dict[str, None] = {}
    well: dict[str, None] = {}
    seen: set[str] = set()
    for key in (keyspace.VERSION_KEY, *(keyspace.of(queue).key("meta") for queue in queues)):
        try:
            info = _fields(await bus.at(key, "INFO"))
            if info.get("run_id", key) in seen:
                continue
            seen.add(info.get("run_id", key))
            cluster = _fields(await bus.at(key, "CLUSTER", "INFO")) if info.get("cluster_enabled") == "1" else {}
        except ServerError as error:
            unknown[f"what the server keeps ({str(error).partition(': ')[0]})"] = None
            continue
        broken.update(dict.fromkeys(_broken(info)))
        doubts.update(dict.fromkeys([*_version(info), *_memory(info), *_disk(info), *_coverage(cluster)]))
        unknown.update(dict.fromkeys(_unsaid(info, cluster)))
        well[f"{_name(info)}, noeviction, appendonly"] = None
    return Looked(list(broken), list(doubts), list(unknown), "; ".join(well))


def _broken(info: Mapping[str, str]) -> Iterator[str]:
    if info.get("role") == "slave":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        yield f"the server is a replica (of {primary}) and takes no writes: give the address of its primary"


def _version(info: Mapping[str, str]) -> Iterator[str]:
    version = info.get("valkey_version")
    if version is None and "redis_version" in info:
        yield f"the server is a Redis ({info['redis_version']}) and no Valkey, which is not tested: use Valkey {OLDEST}"
    elif version and (major := version.partition(".")[0]).isdecimal() and int(major) < OLDEST:
        yield f"Valkey {version} is too old, commands may be refused at work: use Valkey {OLDEST} or newer"


def _memory(info: Mapping[str, str]) -> Iterator[str]:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        limit = info.get("maxmemory", "?")
        when = "as soon as a maxmemory is set and reached" if limit == "0" else f"at {limit} bytes of memory"
        yield (
            f"maxmemory-policy is {policy}: {when} the server throws away games, jobs and limits without a word: set "
            "maxmemory-policy noeviction"
        )


def _disk(info: Mapping[str, str]) -> Iterator[str]:
    if info.get("aof_enabled", "1") == "0":
        yield "appendonly is no: what the server took since its last snapshot is lost when it ends: set appendonly yes"
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield "the server cannot write its append-only file and will lose what it takes: look at its disk and its log"


def _coverage(cluster: Mapping[str, str]) -> Iterator[str]:
    served = cluster.get("cluster_slots_ok", "")
    if served.isdecimal() and int(served) < _SLOTS:
        yield (
            f"the cluster serves {served} of {_SLOTS} slots: queues in the others stand still: give every slot to a "
            "living node (valkey-cli --cluster fix)"
        )


def _unsaid(info: Mapping[str, str], cluster: Mapping[str, str]) -> Iterator[str]:
    wanted = {
        "role": "primary or replica",
        "redis_version": "the version",
        "maxmemory_policy": "maxmemory-policy",
        "aof_enabled": "appendonly",
    }
    yield from (what for field, what in wanted.items() if field not in info)
    if info.get("cluster_enabled") == "1" and "cluster_slots_ok" not in cluster:
        yield "the coverage of the cluster"


def _name(info: Mapping[str, str]) -> str:
    return f"Valkey {info.get('valkey_version', '?')}"


def _fields(reply: bytes) -> dict[str, str]:
    """The fields of a reply in INFO's format."""
    lines = reply.decode(errors="replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}
