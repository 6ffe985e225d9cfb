"""Which queues exist on this server, for tools that should not scan its keys.

A queue is noted when a process first admits to it, and again every minute, for servers that lose their data. The note
lies in the deployment's own slot, so it is not atomic with the admission and may outlive the queue; it is a list of
names to look at, nothing more.
"""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from codemojex.engine import keyspace
from codemojex.engine.errors import EngineError
from codemojex.engine.transport.connector import Connector

_KNOWN_MAX = 1000
_AGAIN_S = 60.0
_known: WeakKeyDictionary[Connector, dict[str, float]] = WeakKeyDictionary()


async def note(bus: Connector, queue: str) -> None:
    """Note the queue, once a minute per connection; a failure leaves it for the next time."""
    known, now = _known.setdefault(bus, {}), time.monotonic()
    if now - known.get(queue, -_AGAIN_S) < _AGAIN_S or (queue not in known and len(known) >= _KNOWN_MAX):
        return
    known[queue] = now
    try:
        await bus.execute("SADD", keyspace.QUEUES_KEY, keyspace.of(queue).queue)
    except EngineError:
        known.pop(queue, None)


async def queues(bus: Connector) -> list[str]:
    """Every noted queue, sorted."""
    return sorted(name.decode() for name in await bus.execute("SMEMBERS", keyspace.QUEUES_KEY))


async def forget(bus: Connector, queue: str) -> None:
    """Take the queue off the list, after it was obliterated, say."""
    _known.get(bus, {}).pop(queue, None)
    await bus.execute("SREM", keyspace.QUEUES_KEY, queue)
