"""Reads a database URL and turns it into the one driver that the store uses for it.

It accepts SQLite files and PostgreSQL in the spellings that people and hosting services use, and refuses the rest with
a sentence that never shows the password. It opens nothing.
"""

from typing import Any, cast

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from codemojex.store.errors import StoreUnavailable

_EXAMPLES = "use sqlite:///path/to/file or postgresql://user:password@host/database"
_OPTIONS = {"host", "port", "user", "password", "passfile", "service", "servicefile", "ssl"} | {
    "target_session_attrs", "krbsrvname", "gsslib", "prepared_statement_cache_size",
}  # fmt: skip
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}


def parse_address(url: str) -> URL:
    """Return the URL with its driver.

    Raises `StoreUnavailable` for anything but a SQLite file or PostgreSQL, and for what the driver would trip over.
    """
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
        if parsed.host:
            raise StoreUnavailable(shown(parsed), "a SQLite file is on no host", _EXAMPLES)
        if not parsed.database or ":memory:" in parsed.database:
            raise StoreUnavailable(shown(parsed), "a database in memory remembers nothing", _EXAMPLES)
        if parsed.query:
            raise StoreUnavailable(shown(parsed), "a SQLite file takes no options behind a ?", _EXAMPLES)
        return parsed
    if not parsed.database:
        raise StoreUnavailable(shown(parsed), "the URL names no database", _EXAMPLES)
    if "sslmode" in parsed.query:  # libpq's word; the driver says ssl
        mode = parsed.query["sslmode"]
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    _check(parsed)
    return parsed


def _check(url: URL) -> None:
    """Raise `StoreUnavailable` for options, hosts and ports of PostgreSQL that the driver would trip over."""
    if not _OPTIONS.issuperset(url.query):  # the name is not shown: it may be the rest of a password
        takes = ", ".join(sorted({*_OPTIONS, "sslmode"}))
        raise StoreUnavailable(shown(url), f"behind the ? it takes {takes} only", "in a password write ? as %3F")
    try:
        _, given = url.get_dialect()().create_connect_args(url)
        hosts, ports = _listed(given.get("host")), _listed(given.get("port"))
        for host in hosts:
            _ = host.startswith("/") or host.encode("idna")  # a directory of sockets, or a name
    except (ArgumentError, ValueError):  # their texts may show the URL
        raise StoreUnavailable(shown(url), "its hosts or options cannot be read", _EXAMPLES) from None
    if not all(0 < port < 65536 for port in ports):
        raise StoreUnavailable(shown(url), "a port is a number from 1 to 65535", _EXAMPLES)


def _listed(value: Any) -> list[Any]:  # Any: of a driver's arguments, one, several or none
    return cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]


def shown(url: URL) -> str:
    """The URL as messages may show it: without its password, and without its query, which can hold one too."""
    return url.set(query={}).render_as_string(hide_password=True)
