"""One server's connections: a pool for commands, a pool for blocking waits, and every fault by its right name.

Each new socket passes the version fence before any user command. Nothing is ever sent twice here: what the server
refused is `Unavailable`, what it may have done is `UnknownOutcome`. Who asks again, and where, is decided above.
Replies are raw RESP3 values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import redis.exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .addresses import Address
from .errors import EngineError, Unavailable, UnknownOutcome, VersionFence, from_reply
from .keyspace import VERSION_KEY, WIRE_VERSION

Arg = str | bytes | int | float
Command = Sequence[Arg]
Ask = Callable[..., Awaitable[Any]]
Check = Callable[[Ask], Awaitable[None]]

# Error replies of a server that did nothing and may do it later, or elsewhere. A write inside a script meets them at
# the script's first write only.
_NOT_NOW = {"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "BUSY", "UNBLOCKED"}


class Moved(Unavailable):
    """Another node serves the slot."""

    def __init__(self, text: str, address: Address) -> None:
        super().__init__(text)
        self.address = address


class Moving(Unavailable):
    """The slot's keys are on their way to another node."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`timeout_s` bounds every command; the rest bounds the two pools of each server."""

    timeout_s: float
    max_connections: int
    max_blocking: int


class _Client(Protocol):
    """What is used of the client, with the types that the client leaves open."""

    connection_pool: _Pool

    def execute_command(self, *args: Arg) -> Awaitable[Any]: ...
    def pipeline(self, transaction: bool) -> Any: ...
    async def aclose(self) -> None: ...


class _Socket(Protocol):
    """What the fence needs of the client's connection."""

    async def on_connect(self) -> None: ...
    async def send_command(self, *args: Arg) -> None: ...
    async def read_response(self) -> Any: ...  # a reply has no narrower type
    async def disconnect(self, nowait: bool = False) -> None: ...


class Node:
    """One server. `check` is asked on every new socket before it may be used."""

    def __init__(self, url: str, limits: Limits, check: Check) -> None:
        self._timeout_s = limits.timeout_s
        self._client = _client(url, limits.timeout_s, limits.max_connections, limits.timeout_s, check)
        self._blocking = _client(url, None, limits.max_blocking, limits.timeout_s, check)

    async def execute(self, command: Command) -> Any:  # as above
        return await _translated(self._client.execute_command(*command))

    async def blocking(self, command: Command, wait_s: float) -> Any:  # as above
        try:
            async with asyncio.timeout(wait_s + self._timeout_s):
                return await _translated(self._blocking.execute_command(*command))
        except TimeoutError as error:
            raise UnknownOutcome(f"no answer to {command[0]!s} in {wait_s + self._timeout_s:g} s") from error

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """All commands in one round trip; error replies stand in the list as the engine's errors."""
        pipe = self._client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        try:
            replies: list[Any] = await _translated(pipe.execute(raise_on_error=False))
        except _Loading as error:  # of some command; those before it may have run
            raise UnknownOutcome(str(error)) from error
        return [as_error(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def ask(self, *command: Arg) -> Any:
        """`execute` with the client's own errors: for checks, which run inside the client's connect."""
        return await self._client.execute_command(*command)

    def subscriber(self) -> Any:  # the client's own type
        return self._blocking

    async def rest(self) -> None:
        """Close the idle sockets: the next command finds its server anew."""
        await self._client.connection_pool.rest()
        await self._blocking.connection_pool.rest()

    async def close(self) -> None:
        """Close every socket. Whoever still waits for an answer gets `UnknownOutcome`, further calls `Unavailable`."""
        for client in (self._client, self._blocking):
            client.connection_pool.closed = True
            await client.aclose()


async def fence(ask: Ask) -> None:
    """Refuse a server that belongs to another protocol version; claim one that belongs to none."""
    found = await ask("GET", VERSION_KEY)
    if found is None:
        await ask("SET", VERSION_KEY, WIRE_VERSION, "NX")
        found = await ask("GET", VERSION_KEY)
    if found is None or found.decode() != WIRE_VERSION:
        raise _FenceError(found.decode(errors="replace") if found else "nothing")


async def primary_fence(ask: Ask) -> None:
    """The fence of a server that must be a primary: a replica answers reads, and answers them late."""
    role = (await ask("ROLE"))[0]
    if role != b"master":
        raise NeverSent(f"the server is a {role.decode()}, not the primary")
    await fence(ask)


async def ask_once(url: str, timeout_s: float, *command: Arg) -> Any:
    """One question about the topology, on a socket of its own and without the fence. Raises the engine's errors."""
    client = _client(url, timeout_s, 1, timeout_s, None)
    try:
        async with asyncio.timeout(timeout_s):
            return await _translated(client.execute_command(*command))
    except TimeoutError as error:
        raise Unavailable(f"no answer to {command[0]!s} in {timeout_s:g} s") from error
    finally:
        await client.aclose()


def run_id(info: bytes) -> bytes:
    """What names a server process, in the text of `INFO server`."""
    return next((line for line in info.splitlines() if line.startswith(b"run_id:")), b"run_id:")


def _client(
    url: str, read_timeout_s: float | None, max_connections: int, timeout_s: float, check: Check | None
) -> _Client:
    pool = cast(Any, _Pool).from_url(  # its keyword arguments carry no types
        url,
        protocol=3,
        decode_responses=False,
        max_connections=max_connections,
        timeout=timeout_s,
        socket_timeout=read_timeout_s,
        socket_connect_timeout=min(3.0, timeout_s),
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=_passing(check) if check else None,
    )
    client = Redis(connection_pool=pool)
    client.response_callbacks.clear()  # replies stay as the wire has them
    client.auto_close_connection_pool = True
    return cast(_Client, client)


def _passing(check: Check) -> Callable[[_Socket], Awaitable[None]]:
    async def connect(socket: _Socket) -> None:
        async def ask(*command: Arg) -> Any:
            await socket.send_command(*command)
            return await socket.read_response()

        try:
            await socket.on_connect()
            await check(ask)
        except BaseException:  # the pool keeps the connection object: it must not look connected
            await socket.disconnect(nowait=True)
            raise

    return connect


class _FenceError(faults.RedisError):
    """Carries the found version through the client's connect path."""


class NeverSent(faults.ConnectionError):
    """No connection could be had, so the command did not leave."""


class _Loading(Unavailable):
    """The server answered that it is still loading its data."""


class _Pool(BlockingConnectionPool):
    """A pool that tells faults before a command from faults after it."""

    closed = False

    async def get_connection(self, *args: Any, **options: Any) -> Any:  # the client leaves the types open
        try:
            connection = await cast(Any, super()).get_connection(*args, **options)
        except (faults.ConnectionError, faults.TimeoutError) as error:
            raise NeverSent(f"no connection to the server: {error}") from error
        except faults.ResponseError as error:  # of the fence, which could not be read
            if isinstance(as_error(error), Unavailable):
                raise NeverSent(f"no connection to the server: {as_error(error)}") from error
            raise
        if self.closed:
            await connection.disconnect(nowait=True)
            await self.release(connection)
            raise NeverSent("no connection to the server: it was closed")
        return connection

    async def rest(self) -> None:
        """Close the idle connections, out of everybody's reach."""
        idle = list(self._available_connections)
        self._available_connections.clear()
        for connection in idle:
            await connection.disconnect(nowait=True)


class _Guided(_Pool):
    """Connections of whichever pool `guide` names when one is asked for."""

    guide: Callable[[], Awaitable[_Pool]]

    def __init__(self) -> None:
        cast(Any, super()).__init__()
        self._homes: dict[Any, _Pool] = {}

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        try:
            home = await self.guide()
        except EngineError as error:
            raise NeverSent(str(error)) from error
        connection = await home.get_connection()
        self._homes[connection] = home
        return connection

    async def release(self, connection: Any) -> None:
        await self._homes.pop(connection).release(connection)


def guided_subscriber(guide: Callable[[], Awaitable[Node]]) -> Any:  # the client's own type
    """A client for subscriptions only, each of them on a server that `guide` has found well."""

    async def pool() -> _Pool:
        return (await guide()).subscriber().connection_pool

    guided = _Guided()
    guided.guide = pool
    return Redis(connection_pool=guided)


async def _translated(call: Awaitable[Any]) -> Any:  # as above
    """The client's call with the engine's errors, and with every cancellation kept.

    Python 3.11's `asyncio.wait_for`, which the client writes through, swallows a cancellation that comes together with
    its result; a loop that is told to end would then go on for ever.
    """
    task = asyncio.current_task()
    asked = task.cancelling() if task else 0
    try:
        return await call
    except _FenceError as error:
        raise VersionFence(str(error), WIRE_VERSION, VERSION_KEY) from None
    except (NeverSent, faults.AuthenticationError) as error:
        raise Unavailable(str(error)) from error
    except faults.BusyLoadingError as error:
        raise _Loading(f"LOADING {error}") from error
    except (faults.ConnectionError, faults.TimeoutError) as error:
        raise UnknownOutcome(f"no answer: {error}") from error
    except faults.RedisError as error:
        raise as_error(error) from error
    finally:
        if task and task.cancelling() > asked:
            raise asyncio.CancelledError


def as_error(error: Exception) -> EngineError:
    """The engine's error for an error reply; its text begins with the reply's code, which the client takes off."""
    text = str(error)
    code = getattr(error, "status_code", None)
    if code and code != "ERR" and not text.startswith(code):
        text = f"{code} {text}"
    if isinstance(error, faults.MovedError):
        host, _, port = text.rpartition(" ")[2].rpartition(":")
        return Moved(text, Address(host, int(port)))
    first = text.partition(" ")[0]
    if first in ("ASK", "TRYAGAIN"):
        return Moving(f"{text}: the queue's slot is being moved")
    return Unavailable(text) if first in _NOT_NOW else from_reply(text)
