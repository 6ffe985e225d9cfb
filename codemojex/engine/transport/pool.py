"""The sockets to one server: a pool that checks each new one, and tells when one opens, is lost or is missing.

A caller who finds all sockets in use waits, within the time limit. A fault before a command left is `NeverSent`, so
that it is told from one after it. The rest is the client's own pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

import redis.exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from codemojex.engine.errors import EngineError, Unavailable
from codemojex.engine.observer import Observe, ignore
from codemojex.engine.transport.error_mapping import Denied, NeverSent, as_error

Arg = str | bytes | int | float
Command = Sequence[Arg]
Ask = Callable[..., Awaitable[Any]]
Check = Callable[[Ask], Awaitable[None]]
Use = Literal["commands", "waits"]


class Client(Protocol):
    """What is used of the client, with the types that the client leaves open."""

    connection_pool: Pool

    async def aclose(self) -> None: ...


class _Socket(Protocol):
    """What the check needs of the client's connection."""

    is_connected: bool

    async def on_connect(self) -> None: ...
    async def send_command(self, *args: Arg) -> None: ...
    async def read_response(self) -> Any: ...  # a reply has no narrower type
    async def disconnect(self, nowait: bool = False) -> None: ...


class Pool(BlockingConnectionPool):
    """A pool that tells faults before a command from faults after it."""

    closed = False
    observe: Observe = staticmethod(ignore)

    def __init__(self, *args: Any, **options: Any) -> None:  # the client leaves the types open
        cast(Any, super()).__init__(*args, **options)
        self.about: dict[str, object] = {}
        self._open: set[Any] = set()  # the connections that have a socket, as far as anybody has noticed
        self._waiting = 0
        self._lost_at: float | None = None  # since when nobody has got a socket after one was lost

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        self._waiting += 1
        try:
            if self._waiting == 1 and self._available_connections:  # the short way of the usual case
                connection = await self._idle()
            else:
                connection = await cast(Any, super()).get_connection(*args, **options)
        except (faults.ConnectionError, faults.TimeoutError) as error:
            if isinstance(error.__cause__, asyncio.TimeoutError):  # of the wait for a free one
                self.observe("connector.overload", {**self.about, "pending": self._waiting})
            if any(isinstance(each, faults.AuthenticationError) for each in (error, error.__cause__)):
                raise Denied(str(error)) from error
            raise NeverSent(f"no connection to the server: {error}") from error
        except faults.ResponseError as error:  # of the check, which could not be made
            if isinstance(as_error(error), Unavailable):
                raise NeverSent(f"no connection to the server: {as_error(error)}") from error
            raise
        finally:
            self._waiting -= 1
        if self.closed:
            await connection.disconnect(nowait=True)
            await self.release(connection)
            raise NeverSent("no connection to the server: it was closed")
        return connection

    async def _idle(self) -> Any:
        connection = cast(Any, self).get_available_connection()
        try:
            await cast(Any, self).ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def round_trip(self, commands: Sequence[Command], timeout_s: float | None) -> list[Any]:
        """Send `commands` together and read an answer to each; error replies stand in the list as the client's errors.

        A caller who stops waiting, or waits longer than `timeout_s`, costs the socket: a late answer would be taken
        for somebody else's.
        """
        connection = await self.get_connection()
        usual, connection.socket_timeout = connection.socket_timeout, None  # one deadline for it all, not one per step
        try:
            async with asyncio.timeout(timeout_s):
                await connection.send_packed_command(connection.pack_commands(commands))
                return [await _reply(connection) for _ in commands]
        except TimeoutError as error:
            await connection.disconnect(nowait=True)
            raise faults.TimeoutError(f"none within {timeout_s:g} s") from error
        except (faults.DataError, UnicodeEncodeError):  # of the packing: nothing left, so no answer can come late
            raise
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            connection.socket_timeout = usual
            await self.release(connection)

    async def release(self, connection: Any) -> None:
        if not connection.is_connected and not self.closed:
            self._gone(connection)
        await cast(Any, super()).release(connection)

    async def rest(self) -> None:
        """Close the idle connections, out of everybody's reach."""
        idle = list(self._available_connections)
        self._available_connections.clear()
        for connection in idle:
            self._open.discard(connection)
            await connection.disconnect(nowait=True)

    def opened(self, connection: Any) -> None:
        """A new socket has passed the check."""
        self._gone(connection)  # the socket before this one, which the client found closed
        self._open.add(connection)
        self.observe("connector.connection", {**self.about})
        if self._lost_at is not None:
            down_ms = int((time.monotonic() - self._lost_at) * 1000)
            self._lost_at = None
            self.observe("connector.reconnect", {**self.about, "down_ms": down_ms})

    def _gone(self, connection: Any) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._lost_at = self._lost_at or time.monotonic()
            self.observe("connector.disconnection", {**self.about})


class _Guided(Pool):
    """Connections of whichever pool `guide` names when one is asked for."""

    guide: Callable[[], Awaitable[Pool]]

    def __init__(self) -> None:
        super().__init__()
        self._homes: dict[Any, Pool] = {}

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


def guided_client(guide: Callable[[], Awaitable[Pool]]) -> Any:  # the client's own type
    """A client for subscriptions only, each of them from the pool that `guide` has found well."""
    guided = _Guided()
    guided.guide = guide
    return Redis(connection_pool=guided)


def client(
    url: str,
    *,
    use: Use,
    read_timeout_s: float | None,
    max_connections: int,
    timeout_s: float,
    check: Check | None,
    observe: Observe = ignore,
) -> Client:
    """The client's client over a pool of ours. `check` is asked on every new socket before it may be used."""
    pool = cast(Any, Pool).from_url(  # its keyword arguments carry no types
        url,
        protocol=3,
        decode_responses=False,
        max_connections=max_connections,
        timeout=timeout_s,
        socket_timeout=read_timeout_s,
        socket_connect_timeout=min(3.0, timeout_s),
        retry=Retry(NoBackoff(), 0),
    )
    pool.observe = observe
    pool.about = {"server": _shown(url), "use": use}
    if check:
        pool.connection_kwargs["redis_connect_func"] = _passing(check, pool)
    made = Redis(connection_pool=pool)
    made.response_callbacks.clear()  # replies stay as the wire has them
    made.auto_close_connection_pool = True
    return cast(Client, made)


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except faults.ResponseError as error:
        return error


def _passing(check: Check, pool: Pool) -> Callable[[_Socket], Awaitable[None]]:
    async def connect(socket: _Socket) -> None:
        async def ask(*command: Arg) -> Any:
            await socket.send_command(*command)
            return await socket.read_response()

        try:
            await socket.on_connect()
            await check(ask)
            pool.opened(socket)
        except BaseException:  # the pool keeps the connection object: it must not look connected
            await socket.disconnect(nowait=True)
            raise

    return connect


def _shown(url: str) -> str:
    """Host and port, or the path of the socket: without a password."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or parts.path
