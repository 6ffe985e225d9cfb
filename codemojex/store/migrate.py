"""Brings a database's schema to a revision, up or down, in one transaction.

Two processes that migrate at once do it one after the other; the second finds nothing to do. The configuration is
built here, there is no ini file. What a revision does stands in the top-level directory `migrations`.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from codemojex.store.address import parse_address, shown
from codemojex.store.engine import check_file, connect, connecting, working
from codemojex.store.schema import alembic_config, current_revision

LOCK_TIMEOUT_S = 60

_LOCK_KEY = 0x636D_7831  # any constant number; every migrating process of this program uses the same one
_one_at_a_time = threading.Lock()  # alembic keeps its context in module globals


async def migrate(url: str, to: str = "head") -> str | None:
    """Bring the schema up to a revision and return the revision it has now; creates a missing SQLite file.

    Raises `StoreUnavailable` if the database cannot be reached or another process migrates for too long.
    """
    return await asyncio.to_thread(_run, url, command.upgrade, to)


async def roll_back(url: str, to: str = "base") -> str | None:
    """Take the schema down to a revision and return it (None: empty). The rows of dropped tables are lost."""
    return await asyncio.to_thread(_run, url, command.downgrade, to)


def _run(url: str, change: Callable[[Config, str], None], to: str) -> str | None:
    with _one_at_a_time:
        return asyncio.run(_change(url, change, to))


async def _change(url: str, change: Callable[[Config, str], None], to: str) -> str | None:
    address = parse_address(url)
    config = alembic_config()

    def work(connection: Connection) -> str | None:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        config.attributes["connection"] = connection
        change(config, to)
        return current_revision(connection)

    check_file(address, created=True)
    engine = connect(address, migrating=True)
    try:
        async with working(shown(address)):
            connection = engine.connect()
            async with connecting(shown(address)):
                await connection.start()
            async with aclosing(connection), connection.begin():
                return await connection.run_sync(work)
    finally:
        await engine.dispose()
