"""Rules of what lies beside the queues: entries of a near-cache's second layer, and leases of node numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from codemojex.engine import keyspace
from codemojex.engine.scripts import ENGINE
from tests.engine.model.machine.story import HOUR, PICK, Story
from tests.engine.model.plain.caches import Entry, Frame
from tests.engine.model.plain.nodes import Numbers
from tests.engine.model.plain.state import PAST, Fresh
from tests.engine.model.plain.stored import agree

TABLE = "t"
ENTRIES = st.sampled_from(["a", "b"])
TOKENS = st.sampled_from(["w1", "w2"])
LOG_LENGTH = 4
DAY = 86_400_000
# Two versions on either side of the place where the server's numbers are split into two halves.
VERSIONS = st.sampled_from([1, 2, 3, 9_999_999_999, 10_000_000_000])
NUMBERS = 3


class Keeping(Story):
    """Two entries, and three node numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = {"a": Entry(), "b": Entry()}
        self.told: list[tuple[str, str]] = []
        self.numbers = Numbers()
        self.ends: dict[str, float] = {}
        self.now = 0.0

    def _keys(self, name: str) -> list[str]:
        return [keyspace.cache(TABLE, name), keyspace.cache_lease(TABLE, name), keyspace.cache_log(TABLE)]

    @rule(name=ENTRIES, token=st.sampled_from(["", "w1", "w2"]))
    def cache_read(self, name: str, token: str) -> None:
        """An entry that is broken is dropped and reads as absent."""
        entry, keys = self.entries[name], self._keys(name)
        entry.broken = False
        frame, left_ms, turn = self.do(self.buses[0].run(ENGINE.script("cache_read"), keys[:2], [token, HOUR]))
        assert turn.decode() == entry.read(token)
        assert (frame and _payload(frame)) == (entry.frame and entry.frame.payload.encode())
        assert (left_ms > 0) == (entry.frame is not None)
        if turn == b"lease":
            self.ends[keys[1]] = Fresh(self.now + HOUR)

    @rule(
        name=ENTRIES,
        mode=st.sampled_from(["put", "put", "fill", "fill", "cas", "release"]),
        kind=st.sampled_from(["V", "V", "N", "T"]),
        version=VERSIONS,
        token=TOKENS,
        knows=st.booleans(),
    )
    def cache_write(  # noqa: PLR0917
        self, name: str, mode: str, kind: str, version: int, token: str, knows: bool
    ) -> None:
        entry, keys = self.entries[name], self._keys(name)
        if (mode, kind) == ("put", "N"):
            kind = "T"
        there = entry.frame.version if entry.frame else 0
        expected = there if knows else version
        args = [mode, kind, f"{version:020d}", HOUR, f"p{self.serial}", name]
        args += [LOG_LENGTH, DAY, token, f"{expected:020d}"]
        verdict, value = self.do(self.buses[0].run(ENGINE.script("cache_write"), keys, args))
        before = entry.frame
        if mode == "cas":
            # The next one, or the server's time where nothing was.
            version = before.version + 1 if before else int(value or 0)
            assert before or verdict != b"applied" or self.now <= version <= self.now + 60_000
        elif kind == "N" and before:
            version = before.version
        frame = Frame(kind, version, f"p{self.serial}", Fresh(self.now + HOUR))
        counted, told = entry.write(mode, frame, token, expected)
        if entry.lease is None:
            self.ends.pop(keys[1], None)
        assert (verdict == b"applied") == counted
        if not counted:
            assert (value and _payload(value)) == (before and before.payload.encode())
            return
        assert int(value) == version
        self.ends[keys[0]] = Fresh(frame.ends)
        if told:
            self.told = [*self.told, (name, f"{version:020d}")][-LOG_LENGTH:]
            self.ends[keys[2]] = Fresh(self.now + DAY)

    @rule(name=ENTRIES, what=st.sampled_from(["break", "drop", "drop other", "end lease", "end"]))
    def cache_loses(self, name: str, what: str) -> None:
        """A frame is broken, dropped by a reader who cannot use it, or comes to its end."""
        entry, keys = self.entries[name], self._keys(name)
        wire = self.wires[0]
        match what:
            case "break":
                wire.now("SET", keys[0], "EC1V junk")
                entry.frame, entry.broken = None, True
                self.ends.pop(keys[0], None)
            case "drop" | "drop other":
                raw = wire.now("GET", keys[0]) if what == "drop" else b"other"
                gone = self.do(self.buses[0].run(ENGINE.script("cache_drop"), keys[:1], [raw or b"none"]))
                assert gone == (what == "drop" and (entry.frame is not None or entry.broken))
                if gone:
                    entry.frame, entry.broken = None, False
                    self.ends.pop(keys[0], None)
            case "end lease":
                wire.now("DEL", keys[1])
                entry.lease = None
                self.ends.pop(keys[1], None)
            case _:
                wire.now("DEL", keys[0], keys[2])
                entry.frame, entry.broken, self.told = None, False, []
                self.ends.pop(keys[0], None)
                self.ends.pop(keys[2], None)

    # node numbers

    @rule(token=TOKENS, first=st.integers(0, 5))
    def lease_number(self, token: str, first: int) -> None:
        args = [token, HOUR, HOUR, first, NUMBERS]
        got = self.do(self.buses[0].run(ENGINE.script("node_lease"), [keyspace.NODES_KEY], args))
        assert got == self.numbers.lease(self.now, Fresh(self.now + HOUR), token, HOUR, first, NUMBERS)
        if got >= 0:
            self.ends[keyspace.NODES_KEY] = Fresh(self.now + 4 * HOUR)

    @rule(token=TOKENS, number=st.integers(0, NUMBERS - 1), lease_ms=st.sampled_from([0, HOUR, 2 * HOUR]))
    def renew_number(self, token: str, number: int, lease_ms: int) -> None:
        args = [number, token, lease_ms, HOUR]
        got = self.do(self.buses[0].run(ENGINE.script("node_renew"), [keyspace.NODES_KEY], args))
        end = Fresh(self.now + lease_ms)
        assert got == self.numbers.renew(number, token, end, over=lease_ms == 0)
        life = Fresh(self.now + 2 * (lease_ms + HOUR))
        if got and life >= self.ends[keyspace.NODES_KEY]:
            self.ends[keyspace.NODES_KEY] = life

    @precondition(lambda self: self.numbers.leases)
    @rule(pick=PICK)
    def number_has_rested(self, pick: int) -> None:
        number = sorted(self.numbers.leases)[pick % len(self.numbers.leases)]
        token = self.numbers.leases[number][1]
        self.wires[0].now("HSET", keyspace.NODES_KEY, number, f"1:{token}")
        self.numbers.leases[number] = (PAST, token)

    # the comparison

    def agree_beside(self, found: dict[str, Any], ends: dict[str, float], now: int) -> None:
        """Take what is of this module out of `found` and `ends`, and compare it."""
        slack = now - self.now
        for name, entry in self.entries.items():
            frame, lease, _ = self._keys(name)
            raw = found.pop(frame, "")
            if entry.frame is None:
                assert bool(raw) == entry.broken
            else:
                said = entry.frame
                assert (raw[:4], int(raw[4:24]), raw[40:]) == (f"EC1{said.kind}", said.version, said.payload)
                assert abs(int(raw[24:40]) - ends[frame]) <= 1
            assert found.pop(lease, None) == entry.lease
        log = found.pop(keyspace.cache_log(TABLE), [[]])[0]
        assert [(flat[1], flat[3]) for _, flat in log] == self.told
        places = [tuple(map(int, at.split("-"))) for at, _ in log]
        assert all(b == (a[0], a[1] + 1) for a, b in pairwise(places)), places
        table = {int(number): text.split(":") for number, text in found.pop(keyspace.NODES_KEY, {}).items()}
        assert {number: token for number, (_, token) in table.items()} == {
            number: token for number, (_, token) in self.numbers.leases.items()
        }
        until = {str(number): end for number, (end, _) in self.numbers.leases.items()}
        agree(until, {str(number): float(end) for number, (end, _) in table.items()}, slack, "lease of a number")
        self.numbers.leases = {int(number): (end, self.numbers.leases[int(number)][1]) for number, end in until.items()}
        agree(self.ends, {key: ends.pop(key) for key in self.ends if key in ends}, slack, "life", give=1)


def _payload(frame: bytes) -> bytes:
    return frame[40:]
