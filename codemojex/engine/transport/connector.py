"""One way to the servers for everybody: commands, pipelines, scripts and blocking waits.

A single server, a cluster or a replica set behind Sentinel: the URL says which, and nothing else differs. A command
is never sent twice unless the server refused it: a lost answer is `UnknownOutcome`, a command that did not run is
`Unavailable`, and the caller, who knows whether it is idempotent, decides. Each new socket passes the version fence
before any user command. Replies are raw RESP3 values: bytes, ints, lists, dicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codemojex.engine import validation
from codemojex.engine.errors import EngineError, ScriptDefect, ServerError
from codemojex.engine.observer import Observe, observer
from codemojex.engine.scripts import Script
from codemojex.engine.transport.error_mapping import translated
from codemojex.engine.transport.node import Limits, fence, run_id
from codemojex.engine.transport.pool import Arg
from codemojex.engine.transport.timed import Timed
from codemojex.engine.transport.topology import Transport, open_transport
from codemojex.engine.transport.url import ServerAddress, parse_address

__all__ = ["Arg", "Connector", "OpenedWith", "connector"]

_TEACH = 3  # lessons per call: a server may forget its scripts, or hand its slots on, in between


@dataclass(frozen=True, slots=True)
class OpenedWith:
    """Where a connector leads to, and its time limit: enough to open the same way in another event loop."""

    where: ServerAddress
    timeout_s: float


class Connector:
    """Fenced connections to the servers of one URL. Create it with `connect`, end it with `close`."""

    def __init__(self, transport: Transport, opened: OpenedWith | None = None) -> None:
        self._transport = transport
        self.opened = opened

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        timeout_s: float = 5.0,
        max_connections: int = 32,
        max_blocking: int = 64,
        observe: Observe | None = None,
    ) -> Connector:
        """Connect and prove it by a round trip.

        `valkey://host:port/db` (also `redis://`, `rediss://`, `valkeys://`, `unix://`), `cluster://host:port,…` or
        `sentinel://host:port,…/service`; an s behind the last two means TLS. `timeout_s` bounds every command;
        `max_connections` and `max_blocking` bound the two pools of each server, a caller beyond them waits. `observe`
        hears of sockets and round trips (`connector.…`). Raises Unavailable (AccessDenied for a wrong user or
        password), VersionFence, or InvalidValue for another kind of URL.
        """
        where = parse_address(url)
        way = open_transport(where, Limits(timeout_s, max_connections, max_blocking, observer(observe)))
        self = cls(Timed(way, observe) if observe else way, OpenedWith(where, timeout_s))
        try:
            await self.execute("PING")
        except BaseException:
            await self.close()
            raise
        return self

    @classmethod
    def thin(cls, opened: OpenedWith) -> Connector:
        """A second way to the same servers, with one socket to each, for another event loop. It connects when used."""
        return cls(open_transport(opened.where, Limits(opened.timeout_s, 1, 1)), opened)

    async def execute(self, *command: Arg) -> Any:  # a reply has no narrower type
        """Run one command and return its raw reply. Raises the engine's errors only.

        In a cluster a command without a key is answered by any primary; `at` says by which.
        """
        return await self._transport.execute(command)

    async def blocking(self, *command: Arg, wait_s: float) -> Any:  # as above
        """Run one blocking command whose own time-out is `wait_s`, on a connection of its own."""
        return await self._transport.blocking(command, wait_s)

    async def pipeline(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """Run independent commands in one round trip per server; an error reply stands in the list as its exception."""
        return await self._transport.pipeline(commands) if commands else []

    async def all(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """`pipeline` for those who need every reply: the first error is raised, also that of one server of many."""
        replies = await self.pipeline(commands)
        for reply in replies:
            if isinstance(reply, EngineError):
                raise reply
        return replies

    async def at(self, key: str, *command: Arg) -> Any:  # a reply has no narrower type
        """Run a command without a key on the server of `key`: its time, its numbers."""
        return await self._transport.at(key, command)

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:  # as above
        """Run a script by its digest; a server that does not know it is taught and asked again."""
        command = ("EVALSHA", script.sha, len(keys), *keys, *args)
        for lesson in range(_TEACH + 1):
            try:
                return await self.execute(*command)
            except ServerError as error:
                if lesson == _TEACH or not _unknown(error):
                    raise
            await self.teach(script, keys[0] if keys else None)

    async def run_many(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Any]:
        """Run one script many times in one round trip per server; an error reply stands in the list."""
        commands = [("EVALSHA", script.sha, len(keys), *keys, *args) for keys, args in calls]
        replies = await self.pipeline(commands)
        for _ in range(_TEACH):
            unknown = [i for i, reply in enumerate(replies) if _unknown(reply)]
            if not unknown:
                break
            for key in dict.fromkeys(calls[i][0][0] for i in unknown):
                await self.teach(script, key)
            for i, reply in zip(unknown, await self.pipeline([commands[i] for i in unknown]), strict=True):
                replies[i] = reply
        return replies

    async def teach(self, script: Script, key: str | None = None) -> None:
        """Load a script and check that the server computes the same digest: where `key` lives, or everywhere.

        Raises ScriptDefect, with what the server says, for one that does not compile.
        """
        try:
            sha = await self._transport.teach(("SCRIPT", "LOAD", script.source), key)
        except ServerError as error:
            if "compiling script" in str(error):
                raise ScriptDefect(f"script {script.name!r} with its effects does not compile: {error}") from error
            raise
        if sha.decode() != script.sha:
            raise ServerError(f"the server's digest of script {script.name!r} differs: {sha.decode()}")

    async def identity(self, key: str) -> bytes:
        """Names the server process that serves `key` now: another one, or one that was restarted, differs."""
        return run_id(await self.at(key, "INFO", "server"))

    async def fence(self) -> None:
        """Pass the version fence again, as every new socket does: a server that lost its data is claimed again.

        Raises VersionFence when another version of the protocol has claimed it since.
        """
        await translated(fence(self.execute))

    async def renew(self, key: str) -> None:
        """Drop every socket to the server of `key`, and find it anew.

        Whoever waits for one of its answers gets `UnknownOutcome`; subscriptions to it end.
        """
        await self._transport.renew(key)

    def subscriber(self, channel: str | None = None) -> Any:  # the client's own type; see `redis.asyncio.Redis.pubsub`
        """The client for long-lived subscriptions (`.pubsub()`); its connections pass the fence as well.

        In a cluster every server hears every channel, but a publisher is told of listeners on its own server only:
        name the `channel` to listen where its publishers are. Make a new `pubsub()` after a lost connection: its
        server may be gone.
        """
        return self._transport.subscriber(channel)

    async def close(self) -> None:
        """Close every connection. Further calls fail."""
        await self._transport.close()


def connector(what: str, given: object) -> Connector:
    """`given` itself when it is a connector; raises InvalidValue otherwise."""
    if not isinstance(given, Connector):
        raise validation.kind(what, given, "a Connector, as `await Connector.connect(url)` gives it")
    return given


def _unknown(reply: object) -> bool:
    return isinstance(reply, ServerError) and str(reply).startswith("NOSCRIPT")
