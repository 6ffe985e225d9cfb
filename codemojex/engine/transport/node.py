"""One server's connections: a pool for commands, a pool for blocking waits, and the fence before both.

Each new socket passes the version fence before any user command. Nothing is ever sent twice here: what the server
refused is `Unavailable`, what it may have done is `UnknownOutcome`. Who asks again, and where, is decided above.
Replies are raw RESP3 values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codemojex.engine.errors import Unavailable, UnknownOutcome
from codemojex.engine.keyspace import VERSION_KEY, WIRE_VERSION
from codemojex.engine.observer import Observe, ignore
from codemojex.engine.transport.error_mapping import FenceError, Loading, NeverSent, as_error, translated
from codemojex.engine.transport.pool import Arg, Ask, Check, Command, Pool, client, guided_client


@dataclass(frozen=True, slots=True)
class Limits:
    """`timeout_s` bounds every command; the rest bounds the two pools of each server. `observe` hears of sockets."""

    timeout_s: float
    max_connections: int
    max_blocking: int
    observe: Observe = ignore


class Node:
    """One server. `check` is asked on every new socket before it may be used."""

    def __init__(self, url: str, limits: Limits, check: Check) -> None:
        self._timeout_s = limits.timeout_s
        self.closed = False
        self._client = client(
            url,
            use="commands",
            read_timeout_s=limits.timeout_s,
            max_connections=limits.max_connections,
            timeout_s=limits.timeout_s,
            check=check,
            observe=limits.observe,
        )
        self._blocking = client(
            url,
            use="waits",
            read_timeout_s=None,
            max_connections=limits.max_blocking,
            timeout_s=limits.timeout_s,
            check=check,
            observe=limits.observe,
        )

    async def execute(self, command: Command) -> Any:  # a reply has no narrower type
        return await translated(_one(self._client.connection_pool, command, self._timeout_s))

    async def blocking(self, command: Command, wait_s: float) -> Any:  # as above
        try:
            async with asyncio.timeout(wait_s + self._timeout_s):
                return await translated(_one(self._blocking.connection_pool, command, None))
        except TimeoutError as error:
            raise UnknownOutcome(f"no answer to {command[0]!s} in {wait_s + self._timeout_s:g} s") from error

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """All commands in one round trip; error replies stand in the list as the engine's errors."""
        try:
            replies: list[Any] = await translated(self._client.connection_pool.round_trip(commands, self._timeout_s))
        except Loading as error:  # of some command; those before it may have run
            raise UnknownOutcome(str(error)) from error
        return [as_error(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def ask(self, *command: Arg) -> Any:
        """`execute` with the client's own errors: for checks, which run inside the client's connect."""
        return await _one(self._client.connection_pool, command, self._timeout_s)

    def subscriber(self) -> Any:  # the client's own type
        return self._blocking

    async def rest(self) -> None:
        """Close the idle sockets: the next command finds its server anew."""
        await self._client.connection_pool.rest()
        await self._blocking.connection_pool.rest()

    async def close(self) -> None:
        """Close every socket. Whoever still waits for an answer gets `UnknownOutcome`, further calls `Unavailable`."""
        self.closed = True
        for each in (self._client, self._blocking):
            each.connection_pool.closed = True
            await each.aclose()


async def fence(ask: Ask) -> None:
    """Refuse a server that belongs to another protocol version; claim one that belongs to none."""
    found = await ask("GET", VERSION_KEY)
    if found is None:
        await ask("SET", VERSION_KEY, WIRE_VERSION, "NX")
        found = await ask("GET", VERSION_KEY)
    if found is None or found.decode() != WIRE_VERSION:
        raise FenceError(found.decode(errors="replace") if found else "nothing")


async def primary_fence(ask: Ask) -> None:
    """The fence of a server that must be a primary: a replica answers reads, and answers them late."""
    role = (await ask("ROLE"))[0]
    if role != b"master":
        raise NeverSent(f"the server is a {role.decode()}, not the primary")
    await fence(ask)


async def ask_once(url: str, timeout_s: float, *command: Arg) -> Any:
    """One question about the topology, on a socket of its own and without the fence. Raises the engine's errors."""
    once = client(url, use="commands", read_timeout_s=timeout_s, max_connections=1, timeout_s=timeout_s, check=None)
    try:
        async with asyncio.timeout(timeout_s):
            return await translated(_one(once.connection_pool, command, timeout_s))
    except TimeoutError as error:
        raise Unavailable(f"no answer to {command[0]!s} in {timeout_s:g} s") from error
    finally:
        await once.aclose()


async def _one(pool: Pool, command: Command, timeout_s: float | None) -> Any:  # a reply has no narrower type
    """One command. Raises the client's errors, those of error replies too."""
    [reply] = await pool.round_trip((command,), timeout_s)
    if isinstance(reply, Exception):
        raise reply
    return reply


def run_id(info: bytes) -> bytes:
    """What names a server process, in the text of `INFO server`."""
    return next((line for line in info.splitlines() if line.startswith(b"run_id:")), b"run_id:")


def guided_subscriber(guide: Callable[[], Awaitable[Node]]) -> Any:  # the client's own type
    """A client for subscriptions only, each of them on a server that `guide` has found well."""

    async def pool() -> Any:
        return (await guide()).subscriber().connection_pool

    return guided_client(pool)
