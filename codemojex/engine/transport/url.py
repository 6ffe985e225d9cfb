"""Where servers are: the addresses that people write, as data.

One server, the nodes of a cluster, or the Sentinels that know the primary of a service. Nothing is connected here.
An error never shows the address itself, which may hold a password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue

_SINGLE = ("redis", "rediss", "valkey", "valkeys", "unix")
_CLIENT = {"redis": "redis", "valkey": "redis", "rediss": "rediss", "valkeys": "rediss", "unix": "unix"}
_MANY: dict[str, tuple[Kind, int]] = {"cluster": ("cluster", 6379), "sentinel": ("sentinel", 26379)}
_WANTED = (
    "the server URL must start with one of redis://, rediss://, valkey://, valkeys://, unix://, "
    "cluster://, clusters://, sentinel://, sentinels://"
)
_TLS_FILES = {"ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_certfile", "ssl_keyfile", "ssl_password"}
_TLS_OPTIONS = _TLS_FILES | {"ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers"}
_SENTINEL_OPTIONS = {"sentinel_username", "sentinel_password"}
Kind = Literal["single", "cluster", "sentinel"]


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """What a URL says: the kind of topology, whom to ask about it, and how to speak to its servers."""

    kind: Kind
    single: str = ""  # the whole URL, in the client's words
    seeds: tuple[Address, ...] = ()
    service: str = ""
    scheme: str = "redis"
    login: str = ""  # `user:password@`, as it was written
    seed_login: str = ""
    tail: str = ""  # `/db?options`

    def url(self, address: Address) -> str:
        """The client's URL of a data server at `address`."""
        return f"{self.scheme}://{self.login}{_written(address)}{self.tail}"

    def seed_url(self, address: Address) -> str:
        """The client's URL of whom to ask: a node of the cluster, or a Sentinel."""
        if self.kind == "cluster":
            return self.url(address)
        options = self.tail.partition("?")[2]
        return f"{self.scheme}://{self.seed_login}{_written(address)}/0{'?' if options else ''}{options}"


def parse_address(url: str) -> ServerAddress:
    """Read a URL. Raises InvalidValue for another kind, or one that names no server."""
    if not isinstance(url, str) or not validation.encodable(url):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidValue(_WANTED)
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.removesuffix("s") not in _MANY:
        if not colon or scheme not in _SINGLE:
            raise InvalidValue(_WANTED)
        try:
            _ = scheme == "unix" or urlsplit(url).port
        except ValueError:  # its text shows the address
            raise InvalidValue("the port in the server URL must be a number from 0 to 65535") from None
        path, _, query = rest.partition("?")
        _check(scheme, query, "" if scheme == "unix" else path.partition("/")[2])
        return ServerAddress("single", single=f"{_CLIENT[scheme]}://{rest}")
    kind, port = _MANY[scheme.removesuffix("s")]
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    service, _, database = path.partition("/") if kind == "sentinel" else ("", "", path)
    options = _check(scheme, query, database)
    seed_login = ""
    if "sentinel_password" in options:
        user = options.pop("sentinel_username", "")
        seed_login = f"{quote(user, safe='')}:{quote(options.pop('sentinel_password'), safe='')}@"
    if kind == "sentinel" and not service:
        raise InvalidValue("the server URL names no service: write sentinel://host:port,host:port/service")
    if kind == "cluster" and database not in ("", "0"):
        raise InvalidValue("a cluster has database 0 only: write cluster://host:port,host:port")
    return ServerAddress(
        kind,
        seeds=tuple(_address(part, port) for part in hosts.split(",")),
        service=service,
        scheme="rediss" if scheme.endswith("s") else "redis",
        login=login + at,
        seed_login=seed_login,
        tail=f"/{database or 0}" + (f"?{urlencode(options)}" if options else ""),
    )


def shown(url: str) -> str:
    """The URL as messages may show it: no user, no password, no options but the number of the database."""
    where = parse_address(url)
    if where.kind != "single":
        servers = ",".join(sorted(_written(seed) for seed in where.seeds))
        database = where.tail.partition("?")[0].removesuffix("/0")
        return f"{where.kind}://{servers}" + (f"/{where.service}" if where.service else "") + database
    parts = urlsplit(where.single)
    options = dict(parse_qsl(parts.query))
    if parts.scheme == "unix":
        return f"unix://{parts.path}" + (f"?db={options['db']}" if options.get("db", "0") != "0" else "")
    server = Address(parts.hostname or "localhost", parts.port or 6379)
    return f"valkey://{_written(server)}/{options.get('db') or parts.path.strip('/') or 0}"


def _check(scheme: str, query: str, database: str) -> dict[str, str]:
    """The options behind the `?`. One that is unknown is not shown: it may be the rest of a password."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    known = {"db", "client_name"}
    if scheme in ("rediss", "valkeys", "clusters", "sentinels"):
        known |= _TLS_OPTIONS
    if scheme.startswith("sentinel"):
        known |= _SENTINEL_OPTIONS
    for name, value in options.items():
        if name not in known:
            takes = ", ".join(sorted(known))
            raise InvalidValue(f"behind the ? the server URL takes {takes} only; in a password write ? as %3F")
        if not value:
            raise InvalidValue(f"the option {name} in the server URL has no value")
    for number in (database.strip("/"), options.get("db", "")):
        if number and not (number.isascii() and number.isdigit()):
            raise InvalidValue("the database in the server URL must be a number from 0 on")
    return options


def _address(text: str, default: int) -> Address:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, str(default)
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or (":" in host and not host.startswith("[")):
        raise InvalidValue("the server URL must list its servers as host:port,host:port")
    return Address(host.strip("[]"), int(port))


def _written(address: Address) -> str:
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
