"""The program as a fleet: every member is a process of its own that runs `codemojex run --roles …`.

Members share one Valkey, one PostgreSQL database and one local Telegram. A member that is killed is replaced at once,
as a supervisor does; one that ends by itself fails the test. Members are forked from one process that has imported
the program, because importing it takes seconds and starting a fleet must not; each runs the command line as a
user does, with arguments, environment, log and signals of its own. Nothing outlives the test.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import pytest

from codemojex.engine.clock import SystemClock
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.transport.connector import Connector
from codemojex.local_telegram import LocalTelegram
from codemojex.play.context import Play
from codemojex.store.engine import close, open_store
from tests.support.databases import PostgresServer

T = TypeVar("T")
POLL_S = 0.05
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.support.deferred_models", "codemojex.app", "codemojex.talking", "codemojex.cli"])


async def until(look: Callable[[], Awaitable[T | None]], deadline_s: float, what: Callable[[], object] | str) -> T:
    """Call `look` until it returns something true; return that. Fails after `deadline_s`, saying `what`."""
    end = time.monotonic() + deadline_s
    while True:
        if found := await look():
            return found
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what if isinstance(what, str) else what()}"
        await asyncio.sleep(POLL_S)


@dataclass
class Member:
    """One place in the fleet: the roles, and the process that has it at present."""

    name: str
    roles: str
    log: Path
    settings: dict[str, str]
    process: BaseProcess | None = None
    kills: int = 0

    @property
    def pid(self) -> int:
        assert self.process is not None
        assert self.process.pid is not None
        return self.process.pid

    def lines(self) -> list[dict[str, Any]]:
        """What the member's processes have logged."""
        if not self.log.exists():
            return []
        whole = self.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in whole if line.startswith("{") and line.endswith("}")]


@dataclass
class Fleet:
    """Members by name. `settings` are variables of the environment that all of them get."""

    directory: Path
    settings: dict[str, str]
    members: dict[str, Member] = field(default_factory=dict[str, Member])

    async def start(self, name: str, roles: str, **settings: object) -> Member:
        """Add a member and start it; `settings` are its own, without the prefix."""
        own = {f"CODEMOJEX_{key.upper()}": str(value) for key, value in settings.items()}
        member = Member(name, roles, self.directory / f"{name}.log", self.settings | own)
        self.members[name] = member
        await asyncio.to_thread(self._launch, member)
        return member

    async def ready(self, deadline_s: float = 120.0) -> None:
        """Wait until every member works."""

        async def look() -> bool:
            self.check()
            return all(any(e["event"] == "working" for e in member.lines()) for member in self.members.values())

        await until(look, deadline_s, self.report)

    async def replace(self, name: str) -> None:
        """Kill a member at once, as a power cut does, and start another in its place."""
        member = self.members[name]
        self.check()
        member.kills += 1
        old, member.process = member.process, None  # nobody takes it for one that ended by itself
        assert old is not None
        old.kill()
        await asyncio.to_thread(old.join)
        await asyncio.to_thread(self._launch, member)

    def freeze(self, name: str) -> None:
        """Stop a member's process without ending it."""
        os.kill(self.members[name].pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.kill(self.members[name].pid, signal.SIGCONT)

    async def dismiss(self, deadline_s: float = 30.0) -> dict[str, int | None]:
        """Ask every member to end in order; their exit codes."""
        for member in self.members.values():
            os.kill(member.pid, signal.SIGTERM)
        running = [member.process for member in self.members.values() if member.process is not None]
        for process in running:
            await asyncio.to_thread(process.join, deadline_s)
        return {name: member.process and member.process.exitcode for name, member in self.members.items()}

    def check(self) -> None:
        """Fail when a member has ended by itself."""
        for member in self.members.values():
            if member.process is not None and not member.process.is_alive():
                raise AssertionError(f"{member.name} ended with {member.process.exitcode}: {self.report()}")

    def report(self) -> str:
        """How often each member was killed, and the last words of each that are more than information."""
        told: list[str] = []
        for member in self.members.values():
            worse = [json.dumps(e, ensure_ascii=False) for e in member.lines() if e["level"] not in ("debug", "info")]
            told.append(f"{member.name}: {member.kills} kills, {len(worse)} warnings\n  " + "\n  ".join(worse[-5:]))
        return "\n" + "\n".join(told)

    def end(self) -> None:
        """End every process of the fleet at once."""
        for member in self.members.values():
            if member.process is not None:
                member.process.kill()
                member.process.join()

    def _launch(self, member: Member) -> None:
        home = self.directory / member.name
        home.mkdir(exist_ok=True)
        process = _forks.Process(
            target=live, args=(member.roles, member.settings, str(member.log), str(home)), name=member.name
        )
        process.start()
        member.process = process


def live(roles: str, settings: Mapping[str, str], log: str, home: str) -> None:
    """The life of a member: what `python -m codemojex run --roles …` does, in a process that has imported it."""

    def last_no_longer_than_the_test() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=last_no_longer_than_the_test, daemon=True).start()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(home)
    os.environ.update(settings)
    sys.argv[:] = ["codemojex", "run", "--roles", roles]
    from codemojex.cli import main

    main()


@dataclass
class Ground:
    """What a fleet stands on: the addresses of the servers, and this test's own access to the game."""

    play: Play
    telegram: LocalTelegram
    fleet: Fleet


@asynccontextmanager
async def ground(valkey_url: str, database_url: str, directory: Path, **settings: object) -> AsyncIterator[Ground]:
    """A fleet without members yet, around a local Telegram that does not enforce sending limits."""
    telegram = LocalTelegram(strict=False)
    await telegram.start()
    own = {f"CODEMOJEX_{key.upper()}": str(value) for key, value in settings.items()}
    fleet = Fleet(
        directory,
        {
            "BOT_TOKEN": telegram.token,
            "CODEMOJEX_TELEGRAM_API_URL": telegram.url,
            "CODEMOJEX_VALKEY_URL": valkey_url,
            "CODEMOJEX_DATABASE_URL": database_url,
            "CODEMOJEX_LOG_FORMAT": "json",
        }
        | own,
    )
    bus = await Connector.connect(valkey_url)
    store = await open_store(database_url)
    try:
        async with NodeLease(bus) as lease:
            yield Ground(Play(bus, lease.minter, SystemClock(), store), telegram, fleet)
    finally:
        fleet.end()
        await telegram.stop()
        await close(store)
        await bus.close()


@pytest.fixture
def fleet_database(postgres_server: PostgresServer, migrated_database: str) -> Iterator[str]:
    """The URL of a migrated PostgreSQL database of this test's own: several processes write to it."""
    with postgres_server.fresh_database(migrated_database) as url:
        yield url
