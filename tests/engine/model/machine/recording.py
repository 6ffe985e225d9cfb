"""Rules of streams: writers ahead and behind, groups, quarantine, the archive, trimming."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from codemojex.engine import ids, keyspace
from codemojex.engine.clock import Clock
from codemojex.engine.ids import Minter
from codemojex.engine.scripts import ENGINE
from codemojex.engine.streams import consumer, retention, streams
from codemojex.engine.streams.retention import MaxLen, MinId, Trimmed
from codemojex.engine.streams.streams import AppendConflict, Appended, NewRecord, Nonmonotonic
from tests.engine.model.machine.story import PICK, Story, one_of
from tests.engine.model.plain.state import Fresh
from tests.engine.model.plain.stored import agree
from tests.engine.model.plain.streams import Place, Stream, place, text

QUEUE, NAME = "m.side", "s"
WHO = st.integers(0, 2)
GROUPS = ("g1", "g2")
READERS = st.sampled_from(["c1", "c2", "c3"])
KEEP_POISON = 3
DAY = 86_400_000


class Stopped(Clock):
    """A writer's clock that stands still: it is always behind."""

    def now_ms(self) -> int:
        return ids.EPOCH_MS + DAY


class Recording(Story):
    """One stream, three writers."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream()
        self.prefix = keyspace.of(QUEUE).prefix
        self.key = f"{self.prefix}stream:{NAME}"
        self.lives: dict[str, float] = {}
        self.writers = [self.minter, Minter(2), Minter(3, Stopped())]
        self.now = 0.0

    def fields(self) -> dict[str, str]:
        return {"n": str(self.serial)}

    @rule(who=WHO, n=st.integers(1, 3))
    def append(self, who: int, n: int) -> None:
        """Whoever is behind mints a fresh id; the order of a batch is kept."""
        new = [NewRecord({"n": f"{self.serial}.{i}"}) for i in range(n)]
        if n == 1:
            got = [self.do(streams.append(self.buses[who], QUEUE, NAME, new[0].fields, self.writers[who]))]
        else:
            verdicts = self.do(streams.append_batch(self.buses[who], QUEUE, NAME, new, self.writers[who]))
            assert all(isinstance(verdict, Appended) and not verdict.repeated for verdict in verdicts)
            got = [verdict.id for verdict in verdicts]
        for record_id, record in zip(got, new, strict=True):
            at = place(ids.parse(record_id).stream_id)
            assert self.stream.append(at, {"id": record_id, **record.fields}) == "appended"  # type: ignore[dict-item]

    @rule(who=WHO, pick=PICK, how=st.sampled_from(["ahead", "again", "other", "between"]), raw=st.booleans())
    def append_given(self, who: int, pick: int, how: str, raw: bool) -> None:
        """Under the caller's id: in the future, one that is or was there, or one that comes too late."""
        stream, fields = self.stream, self.fields()
        at: Place = (int(self.now) + 1000 * self.serial, 1)
        if how != "ahead" and stream.records:
            at = sorted(stream.records)[pick % len(stream.records)]
            fields = stream.records[at] if how == "again" else fields
            at = (at[0], at[1] + 1) if how == "between" else at
        elif how != "ahead":
            at = (ids.EPOCH_MS + pick, 1)
        record_id = ids.from_stream_id("EVT", text(at))
        fields = {"id": record_id, **{name: value for name, value in fields.items() if name != "id"}}
        before = text(stream.last)
        said = stream.append(at, fields)
        if raw:
            pairs = [part for pair in fields.items() for part in pair]
            (reply,) = self.do(
                self.buses[who].run(ENGINE.script("stream_append"), [self.key], [text(at), "given", len(pairs), *pairs])
            )
            first = min(stream.records, default=None)
            never = not stream.trimmed or (first is not None and first < at)
            expected = [said] if said != "behind" else [said, before, "1" if never else "0"]
            assert [part.decode() for part in reply] == expected
            return
        bare = {name: value for name, value in fields.items() if name != "id"}
        verdict = self.do(streams.append_id(self.buses[who], QUEUE, NAME, record_id, bare))
        assert verdict == {
            "appended": Appended(record_id),
            "repeated": Appended(record_id, repeated=True),
            "conflict": AppendConflict(record_id),
            "behind": Nonmonotonic(record_id, before),
        }.get(said)

    @rule(who=WHO, pick=PICK, count=st.sampled_from([1, 3, 100]))
    def look(self, who: int, pick: int, count: int) -> None:
        bus, stream = self.buses[who], self.stream
        since = sorted(stream.records)[pick % len(stream.records)][0] if stream.records else 0
        for got, expected in (
            (self.do(streams.read(bus, QUEUE, NAME, count=count)), stream.between((0, 0), (9e15, 0), count)),
            (
                self.do(streams.read_since(bus, QUEUE, NAME, since, count=count)),
                stream.between((since, 0), (9e15, 0), count),
            ),
            (
                self.do(streams.read_window(bus, QUEUE, NAME, since, since + 2, count=count)),
                stream.between((since, 0), (since + 2, 1 << 22), count),
            ),
        ):
            assert [(r.id, place(r.stream_id)) for r in got] == [(fields["id"], at) for at, fields in expected]
            assert [r.text("n") for r in got] == [fields["n"] for _, fields in expected]
        found = self.do(consumer.read_quarantine(bus, QUEUE, NAME, 2))
        assert [r.text("stream_id") for r in found] == [r["stream_id"] for r in self.stream.quarantine[::-1][:2]]

    # groups

    @rule(name=st.sampled_from(GROUPS), reader=READERS, new=st.booleans(), count=st.integers(1, 3))
    def read_as_group(self, name: str, reader: str, new: bool, count: int) -> None:
        """A group reads on; it begins with the head or with what comes."""
        stream = self.stream
        if name not in stream.groups:
            self.wires[0].now("XGROUP", "CREATE", self.key, name, "$" if new else "0", "MKSTREAM")
            stream.exists = True
            stream.group(name, new=new)
        reply = self.wires[0].now("XREADGROUP", "GROUP", name, reader, "COUNT", count, "STREAMS", self.key, ">")
        got = [entry[0].decode() for entry in reply[self.key.encode()]] if reply else []
        assert got == [text(at) for at in stream.read(name, reader, count)]

    @precondition(lambda self: any(group.pending for group in self.stream.groups.values()))
    @rule(pick=PICK, poison=st.booleans(), reader=READERS)
    def acknowledge(self, pick: int, poison: bool, reader: str) -> None:
        """An entry is done, or goes to the quarantine; then silent readers without entries are forgotten."""
        stream = self.stream
        name = one_of([name for name, group in stream.groups.items() if group.pending], pick)
        at = sorted(stream.groups[name].pending)[pick % len(stream.groups[name].pending)]
        if poison:
            args = [name, text(at), "broken", 5, KEEP_POISON, DAY, 1023]
            keys = [self.key, f"{self.key}:quarantine"]
            got = self.do(self.buses[0].run(ENGINE.script("stream_quarantine"), keys, args))
            assert bool(got) == stream.put_aside(name, at, "broken", 5, KEEP_POISON)
            if got:
                self.lives[keys[1]] = Fresh(self.now + DAY)
        else:
            assert self.wires[0].now("XACK", self.key, name, text(at)) == 1
            del stream.groups[name].pending[at]

    @rule(name=st.sampled_from(GROUPS), reader=READERS, idle_ms=st.sampled_from([0, 0, DAY]))
    def drop_consumers(self, name: str, reader: str, idle_ms: int) -> None:
        verb = self.buses[0].run(ENGINE.script("stream_drop_consumers"), [self.key], [name, reader, idle_ms])
        got = [who.decode() for who in self.do(verb)]
        known = name in self.stream.groups and not idle_ms
        assert got == (self.stream.drop_consumers(name, reader) if known else [])

    # retention

    @rule(who=WHO, pick=PICK, clear=st.booleans())
    def archive(self, who: int, pick: int, clear: bool) -> None:
        bus, stream, key = self.buses[who], self.stream, f"{self.key}:archived"
        known = ids.from_stream_id("EVT", text(stream.archived)) if stream.archived else None
        assert self.do(retention.get_archived(bus, QUEUE, NAME)) == known
        if clear or not stream.records:
            self.do(retention.clear_archived(bus, QUEUE, NAME))
            stream.archived = None
            self.lives.pop(key, None)
        else:
            stream.archived = sorted(stream.records)[pick % len(stream.records)]
            record_id = ids.from_stream_id("EVT", text(stream.archived))
            self.do(retention.set_archived(bus, QUEUE, NAME, record_id))
            self.lives[key] = Fresh(self.now + 90 * DAY)

    @rule(who=WHO, keep=st.integers(0, 4), pick=PICK, by_id=st.booleans(), how=st.integers(0, 5))
    def trim(self, who: int, keep: int, pick: int, by_id: bool, how: int) -> None:
        """Now and then by force, or only what the archive has."""
        bus, stream = self.buses[who], self.stream
        at = sorted(stream.records)[pick % len(stream.records)] if stream.records else (ids.EPOCH_MS, 0)
        window = MinId(ids.from_stream_id("EVT", text(at))) if by_id else MaxLen(keep)
        force, archived = how == 0, how == 1
        got = self.do(retention.trim(bus, QUEUE, NAME, window, force=force, require_archived=archived))
        nothing = archived and not force and stream.archived is None
        expected = stream.trim(None if by_id else keep, at, force, nothing_archived=nothing)
        assert got == Trimmed(*expected)

    # the comparison

    def agree(self, found: dict[str, Any], ends: dict[str, float], now: int) -> None:
        stream = self.stream
        there = found.pop(self.key, None)
        assert (there is not None) == stream.exists
        if there:
            records, last, said = there
            assert [(at, _named(flat)) for at, flat in records] == [
                (text(at), fields) for at, fields in sorted(stream.records.items())
            ]
            assert place(last) == stream.last
            for name, seen, pending, readers in said:
                group = stream.groups[name]
                assert place(seen) == group.last
                assert {place(at): (who, n) for at, who, _, n in pending} == group.pending
                assert set(readers) == group.consumers
            assert len(said) == len(stream.groups)
        poison = [_named(flat) for _, flat in found.pop(f"{self.key}:quarantine", [[]])[0]]
        minted = [record.pop("id") for record in poison]
        assert (poison, minted) == (stream.quarantine, sorted(set(minted)))
        archived = found.pop(f"{self.key}:archived", None)
        assert archived == (ids.from_stream_id("EVT", text(stream.archived)) if stream.archived else None)
        agree(self.lives, {key: ends.pop(key) for key in self.lives if key in ends}, now - self.now, "life", give=1)
        assert not found, found
        assert not ends, ends
        self.now = now


def _named(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
