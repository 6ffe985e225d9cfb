"""Reads a database URL and turns it into the one driver that the store uses for it.

It accepts SQLite files and PostgreSQL in the spellings that people and hosting services use, and refuses the rest with
a sentence that never shows the password. It opens nothing.
"""

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from codemojex.store.errors import StoreUnavailable

_EXAMPLES = "use sqlite:///path/to/file or postgresql://user:password@host/database"
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}


def parse_address(url: str) -> URL:
    """Return the URL with its driver. Raises `StoreUnavailable` for anything but a SQLite file or PostgreSQL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The text is not shown: what cannot be parsed may hold a password anywhere.
        raise StoreUnavailable("(address)", "the database URL cannot be read", _EXAMPLES) from None
    family, _, driver = parsed.drivername.partition("+")
    if family not in _DRIVERS or driver not in ("", "aiosqlite", "asyncpg"):
        raise StoreUnavailable(
            shown(parsed), f"databases of the kind {parsed.drivername!r} are not supported", _EXAMPLES
        )
    parsed = parsed.set(drivername=_DRIVERS[family])
    if family == "sqlite":
        if not parsed.database or ":memory:" in parsed.database:
            raise StoreUnavailable(shown(parsed), "a database in memory remembers nothing", _EXAMPLES)
        return parsed
    if not parsed.database:
        raise StoreUnavailable(shown(parsed), "the URL names no database", _EXAMPLES)
    if "sslmode" in parsed.query:  # libpq's word; the driver says ssl
        mode = parsed.query["sslmode"]
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return parsed


def shown(url: URL) -> str:
    """The URL as messages may show it: without its password, and without its query, which can hold one too."""
    return url.set(query={}).render_as_string(hide_password=True)
