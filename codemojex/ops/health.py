"""Answers one question of a container's health check: is this process well, and what it depends on?

Every check has the same deadline and all run side by side, so the answer comes in time also when nothing else does. A
check says in one line what it saw; it never raises and never shows a URL with its password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codemojex.engine.transport.connector import Connector
from codemojex.ops import server
from codemojex.ops.heartbeat import STALE_S, age_s
from codemojex.play.archive import backlog
from codemojex.play.context import Options
from codemojex.store.engine import close, open_store

DEADLINE_S = 3.0

Probe = Callable[[], Awaitable[str]]


class Unwell(Exception):
    """What a check found wrong, as one line."""


class Doubtful(Exception):
    """What a check found well for now, and what may be lost, as one line."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; a `doubtful` one is well, and somebody should look at it."""

    name: str
    well: bool
    detail: str
    doubtful: bool = False


async def examine(checks: Mapping[str, Probe], *, deadline_s: float = DEADLINE_S) -> list[Finding]:
    """Run every check side by side, each within `deadline_s`; the answers come in the order of `checks`."""

    async def one(name: str, check: Probe) -> Finding:
        try:
            async with asyncio.timeout(deadline_s):
                return Finding(name, True, await check())
        except TimeoutError:
            return Finding(name, False, f"no answer in {deadline_s:g} s")
        except Doubtful as error:
            return Finding(name, True, str(error), doubtful=True)
        except Exception as error:  # whatever a check meets is its finding
            lines = str(error).splitlines()
            return Finding(name, False, lines[0] if lines else type(error).__name__)

    return list(await asyncio.gather(*(one(name, check) for name, check in checks.items())))


def checks_for(
    *,
    valkey_url: str | None = None,
    database_url: str | None = None,
    directory: Path,
    roles: Sequence[str] = (),
    queues: Iterable[str] = (),
    options: Options | None = None,
) -> dict[str, Probe]:
    """The checks of a process with these roles: the servers of its queues, its database, and the beat of every role.

    With `options` also the finished games that wait for the archive. A backlog is told; only a full one is not well,
    for a process that is well is not to be restarted because another one is away.
    """
    checks: dict[str, Probe] = {}
    if valkey_url:
        checks["valkey"] = lambda: _valkey(valkey_url, list(queues))
    if database_url:
        checks["database"] = lambda: _database(database_url)
    if valkey_url and options:
        checks["finished games"] = lambda: _unarchived(valkey_url, options)
    for role in roles:
        checks[role] = _beating(directory, role)
    return checks


async def _valkey(url: str, queues: Sequence[str]) -> str:
    bus = await Connector.connect(url, timeout_s=DEADLINE_S, max_connections=1, max_blocking=1)
    try:
        found = await server.look(bus, queues)
    finally:
        await bus.close()
    if found.broken:
        raise Unwell(found.text)
    if found.doubts or found.unknown:
        raise Doubtful(f"answers; {found.text}")
    return f"answers; {found.text}"


async def _unarchived(url: str, options: Options) -> str:
    bus = await Connector.connect(url, timeout_s=DEADLINE_S, max_connections=1, max_blocking=1)
    try:
        seen = backlog.total(list((await backlog.read(bus, options)).values()))
    finally:
        await bus.close()
    if seen.full:
        raise Unwell(backlog.sentence(seen))
    return backlog.sentence(seen)


async def _database(url: str) -> str:
    store = await open_store(url)
    await close(store)
    return "answers, its tables are current"


def _beating(directory: Path, role: str) -> Probe:
    async def check() -> str:
        age = age_s(directory, role)
        if age is None:
            raise Unwell("not running here")
        if age > STALE_S:
            raise Unwell(f"hangs: its last beat is {age:.0f} s old")
        return f"beat {age:.0f} s ago"

    return check
