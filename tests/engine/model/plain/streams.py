"""A stream: records in the order of their ids, groups that read it, an archive that lags behind, and retention.

A record's id is its place. Trimming stops before what a group has yet to read or acknowledge, and before what the
archive does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

Place = tuple[int, int]
Fields = dict[str, str]


def place(text: str) -> Place:
    ms, tail = text.split("-")
    return int(ms), int(tail)


def text(at: Place) -> str:
    return f"{at[0]}-{at[1]}"


@dataclass
class Group:
    """`pending`: what was handed out and not acknowledged, with its consumer and how often."""

    last: Place = (0, 0)
    pending: dict[Place, tuple[str, int]] = field(default_factory=dict)
    consumers: set[str] = field(default_factory=set)


@dataclass
class Stream:
    records: dict[Place, Fields] = field(default_factory=dict)
    last: Place = (0, 0)
    trimmed: bool = False
    groups: dict[str, Group] = field(default_factory=dict)
    quarantine: list[Fields] = field(default_factory=list)
    archived: Place | None = None
    exists: bool = False

    def append(self, at: Place, fields: Fields) -> str:
        """`appended`, `repeated` (word for word), `conflict` (other words), or `behind`."""
        if at > self.last:
            self.records[at] = fields
            self.last, self.exists = at, True
            return "appended"
        if at in self.records:
            return "repeated" if self.records[at] == fields else "conflict"
        return "behind"

    def between(self, low: Place, high: tuple[float, float], count: int) -> list[tuple[Place, Fields]]:
        return [(at, fields) for at, fields in sorted(self.records.items()) if low <= at <= high][:count]

    def group(self, name: str, *, new: bool) -> None:
        """A group begins with the head of the stream, or with what comes."""
        self.groups[name] = Group(self.last if new else (0, 0))

    def read(self, name: str, consumer: str, count: int) -> list[Place]:
        """New records for a consumer of the group."""
        group = self.groups[name]
        group.consumers.add(consumer)
        fresh = [at for at in sorted(self.records) if at > group.last][:count]
        for at in fresh:
            group.last = at
            group.pending[at] = (consumer, 1)
        return fresh

    def needed(self, nothing_archived: bool) -> list[tuple[Place, str]]:
        """The first record that each of them still needs, and who it is."""
        needs: list[tuple[Place, str]] = []
        if nothing_archived:
            needs.append(((0, 1), "archive"))
        elif self.archived:
            needs.append(((self.archived[0], self.archived[1] + 1), "archive"))
        for name, group in sorted(self.groups.items()):
            needs.append(((group.last[0], group.last[1] + 1), f"group:{name}"))
            if group.pending:
                needs.append((min(group.pending), f"group:{name}"))
        return needs

    def trim(
        self, keep: int | None, start: Place, force: bool, *, nothing_archived: bool = False
    ) -> tuple[int, str | None, str | None]:
        """Keep the newest `keep`, or those from `start` on: how many went, who held back which one."""
        old = sorted(self.records)
        old = old[: max(0, len(old) - keep)] if keep is not None else [at for at in old if at < start]
        bound, holder = min(self.needed(nothing_archived), key=lambda need: need[0], default=(None, None))  # type: ignore[arg-type]
        if force or bound is None:
            bound, holder = (inf, 0), None
        held = [at for at in old if at >= bound]
        for at in old[: len(old) - len(held)]:
            del self.records[at]
            self.trimmed = True
        return len(old) - len(held), holder if held else None, text(held[0]) if held else None

    def put_aside(self, name: str, at: Place, error: str, deliveries: int, keep: int) -> bool:
        """A poison record goes to the quarantine, and is acknowledged; whether it was still there."""
        fields = self.records.get(at)
        if fields is not None:
            said = {"stream_id": text(at), "group": name, "error": error, "deliveries": str(deliveries)}
            self.quarantine.append(said | {f"field:{key}": value for key, value in fields.items()})
            del self.quarantine[:-keep]
        self.groups[name].pending.pop(at, None)
        return fields is not None

    def drop_consumers(self, name: str, me: str) -> list[str]:
        """Consumers that hold nothing are forgotten; they were silent long enough."""
        group = self.groups[name]
        busy = {consumer for consumer, _ in group.pending.values()}
        dropped = sorted(group.consumers - busy - {me})
        group.consumers -= set(dropped)
        return dropped
