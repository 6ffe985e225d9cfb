"""What happens to jobs, told to whoever listens at that moment.

Lifecycle events travel by publish/subscribe on the queue's channel, as one flat JSON object of strings with `event` and
`job` first. At most once: who does not listen misses them, and a listener that lost its connection misses what was
said meanwhile. Nothing here is kept; records that must not be lost are appended to streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import msgspec
import redis.exceptions as faults

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import ConnectionFault, InvalidName, ServerError, UnknownOutcome
from codemojex.engine.transport.connector import Connector, connector
from codemojex.engine.waiting import reconnect_s

UNKNOWN = "unknown"
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_RULE = "use 1 to 64 of a-z 0-9 _ . - and begin with a letter"
_SILENCE_S = 15.0  # after so long without a word the connection is asked whether it lives
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was heard. `name` is `unknown` for a message that is no event; `raw` is its text."""

    name: str
    job: str
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    raw: bytes = b""


async def publish(bus: Connector, queue: str, event: str, job_id: str, **data: str) -> int:
    """Tell the queue's listeners that `event` happened to a job; how many heard it."""
    return await bus.execute("PUBLISH", keyspace.of(queue).events(), encode(event, job_id, **data))


async def publish_many(bus: Connector, queue: str, texts: list[bytes]) -> None:
    """Publish events that `encode` made, in one round trip."""
    channel = keyspace.of(queue).events()
    await bus.pipeline([("PUBLISH", channel, text) for text in texts])


def encode(event: str, job_id: str, **data: str) -> bytes:
    """The text of an event: `{"event":"completed","job":"JOB…",…}`, extras in their order."""
    if not _NAME.fullmatch(validation.name("event", event, _RULE)):
        raise InvalidName("event", event, _RULE)
    for name, value in data.items():
        validation.text("the name of an extra", name)
        validation.text(f"extra {name!r}", value)
    return msgspec.json.encode({"event": event, "job": ids.require(job_id), **data})


def decode(raw: bytes) -> Event:
    """The event of a message; never raises."""
    try:
        data = msgspec.json.decode(raw, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Event(UNKNOWN, "", {}, raw)
    name, job_id = data.pop("event", UNKNOWN), data.pop("job", "")
    return Event(name, job_id, data, raw)


def subscribe(bus: Connector, queue: str) -> Subscription:
    """Listen to a queue: `async with subscribe(bus, queue) as heard: async for event in heard: …`."""
    return Subscription(bus, queue)


class Subscription:
    """An endless iterator of events that outlives its connection; `async with` subscribes and ends it.

    `reconnects` counts the times that it lost its connection and subscribed again: what was said between is lost.
    """

    def __init__(self, bus: Connector, queue: str) -> None:
        self._bus = connector("bus", bus)
        self._channel = keyspace.of(queue).events()
        self._client: Any = None  # the library's PubSub, which has no types
        self._closed = False
        self.reconnects = 0

    async def __aenter__(self) -> Subscription:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Subscription:
        return self

    async def open(self) -> None:
        """Subscribe now, and return when the server has confirmed it. Raises UnknownOutcome or Unavailable."""
        if self._client is not None:
            return
        client = self._bus.subscriber(self._channel).pubsub()
        try:
            await client.subscribe(self._channel)
            confirmed = await client.get_message(timeout=_ANSWER_S)
        except (faults.RedisError, OSError) as error:
            await _drop(client)
            raise UnknownOutcome(f"cannot listen to {self._channel}: {error}") from error
        except BaseException:
            await _drop(client)
            raise
        if confirmed is None:
            await _drop(client)
            raise UnknownOutcome(f"the server did not confirm the subscription to {self._channel} in {_ANSWER_S:g} s")
        self._client = client

    async def aclose(self) -> None:
        """End the subscription; the iterator stops."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await _drop(client)

    async def __anext__(self) -> Event:
        failures = 0
        while not self._closed:
            try:
                await self.open()
                message = await self._hear()
            except (faults.RedisError, OSError, ConnectionFault):
                client, self._client = self._client, None
                if client is not None:
                    await _drop(client)
                    self.reconnects += 1
                failures += 1
                if failures > 1:
                    await self._pause(failures)
                continue
            if message is not None:
                return decode(message)
        raise StopAsyncIteration

    async def _pause(self, failures: int) -> None:
        """Wait before the next try. Raises VersionFence when the server speaks another version by now."""
        await asyncio.sleep(reconnect_s(failures))
        with contextlib.suppress(ConnectionFault, ServerError):
            await self._bus.execute("PING")

    async def _hear(self) -> bytes | None:
        """The next message; None when the subscription was closed meanwhile."""
        client, asked, quiet_since = self._client, False, time.monotonic()
        while client is self._client and client is not None:
            message = await client.get_message(timeout=_ANSWER_S if asked else _SILENCE_S)
            if message is not None and message["type"] == "message":
                return message["data"]
            if message is not None:
                asked = False
            elif time.monotonic() - quiet_since < (_ANSWER_S if asked else _SILENCE_S) / 2:
                continue  # an empty read, not a silence
            elif asked:
                raise UnknownOutcome(f"no answer in {_ANSWER_S:g} s")
            else:
                await client.ping()
                asked = True
            quiet_since = time.monotonic()
        return None


async def _drop(client: Any) -> None:  # the library's PubSub, which has no types
    with contextlib.suppress(faults.RedisError, OSError):
        await client.aclose()
