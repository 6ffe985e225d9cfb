"""One server connection for everybody: commands, pipelines, scripts and blocking waits.

Each new socket passes the version fence before any user command. A command is never sent twice: a lost answer is
`UnknownOutcome`, a command that never left is `Unavailable`, and the caller, who knows whether it is idempotent,
decides. Replies are raw RESP3 values: bytes, ints, lists, dicts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, cast

import redis.exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .errors import EngineError, InvalidValue, ServerError, Unavailable, UnknownOutcome, VersionFence, from_reply
from .keyspace import VERSION_KEY, WIRE_VERSION
from .scripts import Script

Arg = str | bytes | int | float
_SCHEMES = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://")


class _Client(Protocol):
    """What the connector uses of the client, with the types that the client leaves open."""

    def execute_command(self, *args: Arg) -> Awaitable[Any]: ...
    def pipeline(self, transaction: bool) -> Any: ...
    async def aclose(self) -> None: ...


class _Socket(Protocol):
    """What the fence needs of the client's connection."""

    async def on_connect(self) -> None: ...
    async def send_command(self, *args: Arg) -> None: ...
    async def read_response(self) -> Any: ...  # a reply has no narrower type


class Connector:
    """A pool of fenced connections to one server. Create it with `connect`, end it with `close`."""

    def __init__(self, client: _Client, blocking: _Client, timeout_s: float) -> None:
        self._client = client
        self._blocking = blocking
        self._timeout_s = timeout_s

    @classmethod
    async def connect(
        cls, url: str, *, timeout_s: float = 5.0, max_connections: int = 32, max_blocking: int = 64
    ) -> Connector:
        """Connect to `redis://`, `rediss://`, `valkey://` or `unix://` and prove it by a round trip.

        `timeout_s` bounds every command; `max_connections` and `max_blocking` bound the two pools, a caller beyond
        them waits. Raises Unavailable, VersionFence, or InvalidValue for another kind of URL.
        """
        if not url.startswith(_SCHEMES):
            raise InvalidValue(f"the server URL must start with one of {', '.join(_SCHEMES)}")
        url = url.replace("valkey://", "redis://", 1).replace("valkeys://", "rediss://", 1)
        self = cls(
            _client(url, timeout_s, max_connections, timeout_s), _client(url, None, max_blocking, timeout_s), timeout_s
        )
        try:
            await self.execute("PING")
        except BaseException:
            await self.close()
            raise
        return self

    async def execute(self, *command: Arg) -> Any:  # a reply has no narrower type
        """Run one command and return its raw reply. Raises the engine's errors only."""
        return await _translated(self._client.execute_command(*command))

    async def blocking(self, *command: Arg, wait_s: float) -> Any:  # as above
        """Run one blocking command whose own time-out is `wait_s`, on a connection of its own."""
        try:
            async with asyncio.timeout(wait_s + self._timeout_s):
                return await _translated(self._blocking.execute_command(*command))
        except TimeoutError as error:
            raise UnknownOutcome(f"no answer to {command[0]!s} in {wait_s + self._timeout_s:g} s") from error

    async def pipeline(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """Run independent commands in one round trip; an error reply stands in the list as a `ServerError`."""
        if not commands:
            return []
        pipe = self._client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        replies: list[Any] = await _translated(pipe.execute(raise_on_error=False))
        return [_as_error(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:  # as above
        """Run a script by its digest; a server that does not know it is taught once and asked again."""
        command = ("EVALSHA", script.sha, len(keys), *keys, *args)
        try:
            return await self.execute(*command)
        except ServerError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        await self.teach(script)
        return await self.execute(*command)

    async def run_many(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Any]:
        """Run one script many times in one round trip; an error reply stands in the list as a `ServerError`."""
        commands = [("EVALSHA", script.sha, len(keys), *keys, *args) for keys, args in calls]
        replies = await self.pipeline(commands)
        unknown = [i for i, r in enumerate(replies) if isinstance(r, ServerError) and str(r).startswith("NOSCRIPT")]
        if unknown:
            await self.teach(script)
            for i, reply in zip(unknown, await self.pipeline([commands[i] for i in unknown]), strict=True):
                replies[i] = reply
        return replies

    async def teach(self, script: Script) -> None:
        """Load a script and check that the server computes the same digest."""
        sha = await self.execute("SCRIPT", "LOAD", script.source)
        if sha.decode() != script.sha:
            raise ServerError(f"the server's digest of script {script.name!r} differs: {sha.decode()}")

    def subscriber(self) -> Any:  # the client's own type; see `redis.asyncio.Redis.pubsub`
        """The client for long-lived subscriptions (`.pubsub()`); its connections pass the fence as well."""
        return self._blocking

    async def close(self) -> None:
        """Close every connection. Further calls fail."""
        await self._client.aclose()
        await self._blocking.aclose()


def _client(url: str, read_timeout_s: float | None, max_connections: int, timeout_s: float) -> _Client:
    pool = cast(Any, _Pool).from_url(  # its keyword arguments carry no types
        url,
        protocol=3,
        decode_responses=False,
        max_connections=max_connections,
        timeout=timeout_s,
        socket_timeout=read_timeout_s,
        socket_connect_timeout=min(3.0, timeout_s),
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=_fence,
    )
    client = Redis(connection_pool=pool)
    client.response_callbacks.clear()  # replies stay as the wire has them
    client.auto_close_connection_pool = True
    return cast(_Client, client)


async def _fence(connection: _Socket) -> None:
    """Refuse a server that belongs to another protocol version; claim one that belongs to none."""
    await connection.on_connect()
    await connection.send_command("GET", VERSION_KEY)
    found = await connection.read_response()
    if found is None:
        await connection.send_command("SET", VERSION_KEY, WIRE_VERSION, "NX")
        await connection.read_response()
        await connection.send_command("GET", VERSION_KEY)
        found = await connection.read_response()
    if found is None or found.decode() != WIRE_VERSION:
        raise _FenceError(found.decode(errors="replace") if found else "nothing")


class _FenceError(faults.RedisError):
    """Carries the found version through the client's connect path."""


class _NeverSent(faults.ConnectionError):
    """No connection could be had, so the command did not leave."""


class _Pool(BlockingConnectionPool):
    """A pool that tells faults before a command from faults after it."""

    async def get_connection(self, *args: Any, **options: Any) -> Any:  # the client leaves the types open
        try:
            return await cast(Any, super()).get_connection(*args, **options)
        except (faults.ConnectionError, faults.TimeoutError) as error:
            raise _NeverSent(f"no connection to the server: {error}") from error


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
    except (_NeverSent, faults.BusyLoadingError, faults.AuthenticationError) as error:
        raise Unavailable(str(error)) from error
    except (faults.ConnectionError, faults.TimeoutError) as error:
        raise UnknownOutcome(f"no answer: {error}") from error
    except faults.RedisError as error:
        raise _as_error(error) from error
    finally:
        if task and task.cancelling() > asked:
            raise asyncio.CancelledError


def _as_error(error: Exception) -> EngineError:
    if isinstance(error, faults.ResponseError):
        text = str(error)
        if isinstance(error, faults.NoScriptError) and not text.startswith("NOSCRIPT"):
            text = f"NOSCRIPT {text}"
        elif isinstance(error, faults.OutOfMemoryError) and not text.startswith("OOM"):
            text = f"OOM {text}"
        elif isinstance(error, faults.ReadOnlyError):
            return Unavailable(text)
        return from_reply(text)
    return cast(EngineError, from_reply(str(error)))
