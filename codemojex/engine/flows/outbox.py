"""Carries what became of children to parents in other queues.

A child's end is an entry in the outbox of its own queue, written by the script that ended it. Here entries are told to
the parents, in order, and taken off only afterwards: at least once, and a parent counts each child once. Several pumps
may work on one outbox; none takes off what it has not delivered. An entry that nobody can read is set aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import InvalidInput, ServerError, from_reply
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

LIMIT = 100
_SEPARATOR = b"\0"
_COMPLETION_PARTS = 4
_FAILURE_PARTS = 7


@dataclass(frozen=True, slots=True)
class Delivered:
    """How many entries this call took off, how many of them nobody could read, and whether the batch was full."""

    entries: int = 0
    rejected: int = 0
    full: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """One entry: what became of `child`. `policy`: None if it completed, else `fp` or `id`; `text`: result or error."""

    queue: str
    parent: str
    child: str
    policy: str | None
    text: bytes


def parse(entry: bytes) -> Signal | None:
    """Read an entry; None for what is none. The last field is the rest, whatever bytes it holds."""
    failed = entry.startswith(_SEPARATOR)
    parts = entry.split(_SEPARATOR, (_FAILURE_PARTS if failed else _COMPLETION_PARTS) - 1)
    if len(parts) != (_FAILURE_PARTS if failed else _COMPLETION_PARTS) or (failed and parts[1] != b"fail"):
        return None
    queue, parent, child, *rest = [part.decode(errors="replace") for part in (parts[2:6] if failed else parts[:3])]
    try:
        keyspace.of(queue)
    except InvalidInput:
        return None
    if not ids.is_valid(parent) or not ids.is_valid(child):
        return None
    return Signal(queue, parent, child, rest[0] if failed else None, parts[-1])


async def deliver(bus: Connector, queue: str, limit: int = LIMIT) -> Delivered:
    """Tell the parents of other queues what stands in this queue's outbox, oldest first.

    Stops at the first entry that cannot be told, keeps it, and raises why.
    """
    validation.integer("limit", limit, 1, 500)
    prefix = keyspace.of(queue).prefix
    first, entries = await bus.run(ENGINE.script("flow_outbox"), (prefix,), (limit,))
    if not entries:
        return Delivered()
    done, rejected = 0, list[bytes]()
    try:
        while done < len(entries):
            signals = _run(entries[done:])
            codes = await _tell(bus, signals) if signals else [b"ERR WRONGTYPE unreadable"]
            told = sum(not code.startswith(b"ERR ") for code in codes)
            done += told
            if told < len(codes):
                error = from_reply(codes[told].removeprefix(b"ERR ").decode(errors="replace"))
                if "WRONGTYPE" not in str(error):
                    raise error
                rejected.append(entries[done])  # it would stand in the way for ever
                done += 1
    finally:
        taken = await _acknowledge(bus, prefix, first, rejected, entries[:done]) if done else 0
    return Delivered(taken, len(rejected), len(entries) == limit)


def _run(entries: Sequence[bytes]) -> list[Signal]:
    """The first entries that go to one queue; none when the first cannot be read."""
    signals: list[Signal] = []
    for entry in entries:
        signal = parse(entry)
        if signal is None or (signals and signal.queue != signals[0].queue):
            break
        signals.append(signal)
    return signals


async def _tell(bus: Connector, signals: Sequence[Signal]) -> list[bytes]:
    args: list[Arg] = []
    for signal in signals:
        kind = "done" if signal.policy is None else "fail"
        args += [kind, signal.parent, signal.child, signal.policy or "", signal.text]
    return await bus.run(ENGINE.script("flow_deliver"), (keyspace.of(signals[0].queue).prefix,), args)


async def _acknowledge(
    bus: Connector, prefix: str, first: bytes, rejected: Sequence[bytes], delivered: Sequence[bytes]
) -> int:
    args: list[Arg] = [first, len(rejected), *rejected, *delivered]
    try:
        return await bus.run(ENGINE.script("flow_ack"), (prefix,), args)
    except ServerError:
        return 0  # told again next time, which changes nothing
