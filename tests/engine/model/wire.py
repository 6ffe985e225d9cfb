"""A client whose every call to the server is a step of its own, so that a story decides who speaks next.

It is a transport for the engine's `Connector` over one blocking socket, without an event loop: a verb pauses before
each call, and `Call` lets it go on, one call at a time. What is published on its channels arrives behind its replies.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Generator, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import hiredis

from codemojex.engine.errors import from_reply

T = TypeVar("T")
Command = Sequence[Any]
READ = 1 << 16


class Pause:
    def __await__(self) -> Generator[None, None, None]:
        yield


class Wire:
    """One connection.

    `heard`: channel and text of what was published since it was emptied; `scripts`: the digests of those that ran.
    """

    def __init__(self, url: str, database: int) -> None:
        place = urlsplit(url)
        if place.scheme == "unix":
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(place.path)
        else:
            self._socket = socket.create_connection((place.hostname, place.port or 6379))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(60)
        self._reader: Any = hiredis.Reader()
        self.heard: list[tuple[bytes, bytes]] = []
        self.scripts: set[str] = set()
        self.now("HELLO", 3)
        self.now("SELECT", database)

    def now(self, *command: Any) -> Any:
        """Run a command at once."""
        self._socket.sendall(_packed(command))
        return _good(self._reply())

    def all_now(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in one round trip; an error stands in its place."""
        self.scripts.update(command[1] for command in commands if command[0] == "EVALSHA")
        self._socket.sendall(b"".join(map(_packed, commands)))
        return [_as_error(self._reply()) for _ in commands]

    async def execute(self, command: Command) -> Any:
        await Pause()
        if command[0] == "EVALSHA":
            self.scripts.add(command[1])
        return self.now(*command)

    async def blocking(self, command: Command, wait_s: float) -> Any:
        return await self.execute(command)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        await Pause()
        return self.all_now(commands)

    async def teach(self, command: Command, key: str | None) -> Any:
        return self.now(*command)

    async def at(self, key: str, command: Command) -> Any:
        return await self.execute(command)

    def subscriber(self) -> Any:
        raise NotImplementedError("a story listens with `heard`")

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self._socket.close()

    def _reply(self) -> Any:
        while True:
            reply = self._reader.gets()
            if reply is False:
                data = self._socket.recv(READ)
                assert data, "the server closed the connection"
                self._reader.feed(data)
            elif isinstance(reply, hiredis.PushNotification):
                if reply[0] == b"message":
                    self.heard.append((reply[1], reply[2]))
            else:
                return reply

    def listen(self, *channels: str) -> None:
        """Hear these channels from now on; the confirmations come as pushes."""
        self._socket.sendall(_packed(("SUBSCRIBE", *channels)))
        self.now("PING")


class Call(Generic[T]):
    """A verb, or its model, under way. `step` lets it make its next call; True when it has come to its end."""

    def __init__(self, verb: Awaitable[T] | Generator[None, None, T]) -> None:
        self._steps: Any = verb if isinstance(verb, Generator) else verb.__await__()
        self.result: T | None = None
        self.error: Exception | None = None
        self._steps.send(None)

    def step(self) -> bool:
        try:
            self._steps.send(None)
        except StopIteration as end:
            self.result = end.value
            return True
        except Exception as error:
            self.error = error
            return True
        return False

    def give_up(self) -> None:
        self._steps.close()


def run(verb: Awaitable[T]) -> T:
    """Let a verb make all its calls."""
    steps = verb.__await__()
    while True:
        try:
            steps.send(None)
        except StopIteration as end:
            return end.value


def _packed(command: Command) -> bytes:
    out = [b"*%d\r\n" % len(command)]
    for part in command:
        data = part if isinstance(part, bytes) else part.encode() if isinstance(part, str) else repr(part).encode()
        out += (b"$%d\r\n" % len(data), data, b"\r\n")
    return b"".join(out)


def _as_error(reply: Any) -> Any:
    return from_reply(str(reply)) if isinstance(reply, Exception) else reply


def _good(reply: Any) -> Any:
    reply = _as_error(reply)
    if isinstance(reply, Exception):
        raise reply
    return reply
