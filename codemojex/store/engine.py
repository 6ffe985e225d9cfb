"""Opens the durable store and hands out its transactions.

Every transaction is a session that commits when its block ends and rolls back on any exception. Whatever goes wrong
between the program and the database is raised as `StoreUnavailable`. SQLite runs in WAL mode with full
synchronisation, because a game's live copy is trimmed as soon as its commit has returned.
It creates no tables: `migrate` does.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from codemojex.store.address import parse_address, shown
from codemojex.store.errors import StoreUnavailable
from codemojex.store.schema import check_schema

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_S = 30
BUSY_TIMEOUT_MS = 5_000

_UNREACHABLE = "check that the database runs and that its address is right"


@dataclass(frozen=True, slots=True)
class Store:
    """An open durable store; pass it first to everything in this package."""

    engine: AsyncEngine

    @property
    def where(self) -> str:
        """The database as messages may show it."""
        return shown(self.engine.url)


async def open_store(url: str) -> Store:
    """Open the database at `url` and check that its schema is this program's.

    Raises `StoreUnavailable` if the address is wrong, the database does not answer, or its schema is missing or of
    another version. Creates nothing.
    """
    address = parse_address(url)
    check_file(address)
    store = Store(connect(address))
    try:
        async with reading(store) as session:
            connection = await session.connection()
            await connection.run_sync(partial(check_schema, where=store.where))
    except BaseException:
        await close(store)
        raise
    return store


async def close(store: Store) -> None:
    """Close every connection; a second call does nothing."""
    await store.engine.dispose()


@asynccontextmanager
async def reading(store: Store) -> AsyncGenerator[AsyncSession]:
    """A transaction for reading: one consistent view on SQLite, read committed on PostgreSQL."""
    async with _transaction(store, "DEFERRED") as session:
        yield session


@asynccontextmanager
async def writing(store: Store) -> AsyncGenerator[AsyncSession]:
    """A transaction for writing: all of it is committed at the end of the block, or nothing.

    On SQLite it takes the write lock at once: a reader that turns writer would fail where a writer only waits.
    """
    async with _transaction(store, "IMMEDIATE") as session:
        yield session


def connect(address: URL, *, migrating: bool = False) -> AsyncEngine:
    """An engine for an address of `parse_address`; it connects at the first use.

    `migrating` lifts what would stand in a migration's way: the time limit per statement and SQLite's foreign keys.
    """
    if address.get_backend_name() == "sqlite":
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY_TIMEOUT_MS / 1000}}
    else:
        statement_timeout = None if migrating else STATEMENT_TIMEOUT_S
        options = {
            "connect_args": {"timeout": CONNECT_TIMEOUT_S, "command_timeout": statement_timeout},
            "pool_pre_ping": True,
        }
    engine = create_async_engine(
        address,
        hide_parameters=True,  # a statement's parameters are names and secrets
        json_serializer=partial(dumps, ensure_ascii=False, sort_keys=True, separators=(",", ":")),
        pool_timeout=CONNECT_TIMEOUT_S,
        **options,
    )
    if address.get_backend_name() == "sqlite":
        event.listen(engine.sync_engine, "connect", partial(_prepare_sqlite, foreign_keys=not migrating))
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def check_file(address: URL, *, created: bool = False) -> None:
    """Raise `StoreUnavailable` if SQLite's file (or, if it is to be `created`, its directory) does not exist.

    SQLite would create what it does not find, and a mistyped path would look like an empty database.
    """
    if address.get_backend_name() != "sqlite":
        return
    path = Path(address.database or "")
    if created and not path.parent.is_dir():
        raise StoreUnavailable(shown(address), f"there is no directory {path.parent}", "create it")
    if not created and not path.is_file():
        raise StoreUnavailable(shown(address), "there is no such file", "run `codemojex migrate` to create it")


@asynccontextmanager
async def connecting(where: str) -> AsyncGenerator[None]:
    """Turn every refusal of a connection (address, password, database, file) into `StoreUnavailable`."""
    try:
        yield
    except PoolTimeout as error:
        raise StoreUnavailable(where, "every connection of the pool is busy", "try again later") from error
    except TimeoutError as error:
        raise StoreUnavailable(where, "it does not answer in time", _UNREACHABLE) from error
    except (SQLAlchemyError, OSError, ValueError, TypeError) as error:  # the latter of an option's value
        raise StoreUnavailable(where, first_line(error), _UNREACHABLE) from error


@asynccontextmanager
async def working(where: str) -> AsyncGenerator[None]:
    """Turn what breaks a running transaction from outside (connection, lock, time limit) into `StoreUnavailable`."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StoreUnavailable(where, first_line(error), _UNREACHABLE) from error
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise StoreUnavailable(where, "the connection broke", _UNREACHABLE) from error
    except (TimeoutError, OSError) as error:
        raise StoreUnavailable(where, first_line(error), _UNREACHABLE) from error


def first_line(error: BaseException) -> str:
    """What a driver says, without its class names and without the lines after the first, which may repeat the row."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    # The drivers' adapters write the class of the original error before its text.
    lines = re.sub(r"^(<class '[^']*'>: )+", "", str(cause)).splitlines()
    return lines[0] if lines else type(cause).__name__


@asynccontextmanager
async def _transaction(store: Store, sqlite_begin: str) -> AsyncGenerator[AsyncSession]:
    engine = store.engine.execution_options(sqlite_begin=sqlite_begin)
    async with working(store.where), AsyncSession(engine, expire_on_commit=False) as session, session.begin():
        async with connecting(store.where):
            await session.connection()  # a session would wait with it until its first statement
        yield session


def _prepare_sqlite(connection: Any, _record: object, *, foreign_keys: bool) -> None:  # Any: the driver's connection
    try:
        connection.isolation_level = None  # the driver begins nothing by itself, `_begin_sqlite` does
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        cursor.close()
    except BaseException:
        connection.close()  # the pool has not taken it yet; its thread would outlive the event loop
        raise


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('sqlite_begin', 'IMMEDIATE')}")
