"""What every story is: clients, a database that is emptied first, and a comparison after every step.

A rule calls a verb of the engine, applies the model's function of the same meaning, and compares what they answer; the
invariant then hands the whole database to `agree`. `verbs` notes which verbs ran.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy, invariant

from codemojex.engine.ids import Minter
from codemojex.engine.transport.connector import Connector
from tests.engine.model.wire import Call, Wire, run

T = TypeVar("T")
CLIENTS = 3
HOUR = 3_600_000
PICK = st.integers(0, 1000)

# Every key of the database in one message: the time, then key, type, value, when it ends, when its field `lock` ends.
# A stream's value is its records, its last id, and per group: name, last id, pending entries, consumers.
DUMP = """
local time = redis.call('TIME')
local out = { time[1] * 1000 + math.floor(time[2] / 1000) }
local read = { string = { 'GET' }, hash = { 'HGETALL' }, zset = { 'ZRANGE', 0, -1, 'WITHSCORES' },
  list = { 'LRANGE', 0, -1 }, set = { 'SMEMBERS' }, stream = { 'XRANGE', '-', '+' } }
local function named(flat)
  local out = {}
  for i = 1, #flat, 2 do out[flat[i]] = flat[i + 1] end
  return out
end
local function stream(key, records)
  local groups = {}
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local group, consumers = named(flat), {}
    for _, one in ipairs(redis.call('XINFO', 'CONSUMERS', key, group.name)) do
      consumers[#consumers + 1] = named(one).name
    end
    groups[#groups + 1] = { group.name, group['last-delivered-id'],
      redis.call('XPENDING', key, group.name, '-', '+', 1000), consumers }
  end
  return { records, named(redis.call('XINFO', 'STREAM', key))['last-generated-id'], groups }
end
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local how, n = read[kind], #out
  out[n + 1], out[n + 2], out[n + 3] = key, kind, redis.call(how[1], key, unpack(how, 2))
  if kind == 'stream' then out[n + 3] = stream(key, out[n + 3]) end
  out[n + 4] = redis.call('PEXPIRETIME', key)
  out[n + 5] = kind == 'hash' and redis.call('HPEXPIRETIME', key, 'FIELDS', 1, 'lock')[1] or -2
end
return cmsgpack.pack(out)
"""
DUMP_SHA = sha1(DUMP.encode(), usedforsecurity=False).hexdigest()


class Choice(RuleStrategy):
    """The next rule: those of `often` so many times as often as the others.

    Hypothesis leaves a random half of the rules out of each story, but never those.
    """

    def __init__(self, machine: Story) -> None:
        super().__init__(machine)
        rules = [rule for rule in self.rules for _ in range(machine.often.get(rule.function.__name__, 1))]
        self._enabled_rules_strategy = st.sampled_from(rules).filter(self._rule_is_enabled)

    def _rule_is_enabled(self, r: Rule) -> bool:
        often: Mapping[str, int] = self.machine.often  # type: ignore[attr-defined]
        return self.is_valid(r) if r.function.__name__ in often else super()._rule_is_enabled(r)


class Story(RuleBasedStateMachine):
    """Set the class variables before a story begins; see `telling`."""

    wires: ClassVar[Sequence[Wire]]
    verbs: ClassVar[set[str]]
    steps: ClassVar[list[int]]  # of each story that was told
    often: ClassVar[Mapping[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self._rules_strategy = Choice(self)
        self.wires[0].now("FLUSHDB")
        self.buses = [Connector(wire) for wire in self.wires]
        self.minter = Minter(1)
        self.serial = self._hours = 0
        self.steps.append(-1)  # the invariant is asked before the first step, too

    def audits(self) -> list[tuple[Any, ...]]:
        """Commands that find nothing when all is well."""
        return []

    def agree(self, found: dict[str, Any], ends: dict[str, float], now: int) -> None:
        """Compare every key with the model, and when it ends; the server said so at `now`."""
        raise NotImplementedError

    @invariant()
    def the_server_holds_what_the_model_says(self) -> None:
        self.serial += 1
        self.steps[-1] += 1
        packed, *complaints = self.wires[0].all_now([("EVALSHA", DUMP_SHA, 0), *self.audits()])
        now, *flat = msgspec.msgpack.decode(packed, strict=False)
        assert not any(complaints), complaints
        self.agree(*_plain(flat), now)

    def do(self, verb: Awaitable[T]) -> T:
        """Run a verb to its end."""
        self.noted(verb)
        return run(verb)

    def begin(self, verb: Awaitable[T]) -> Call[T]:
        self.noted(verb)
        return Call(verb)

    def noted(self, verb: Any) -> None:
        self.verbs.add(_name(verb.cr_code))

    def hour(self) -> int:
        """A time to wait that nobody else has, so that it is certain who is due first."""
        self._hours += 1
        return HOUR + self._hours * 1000

    @property
    def failing(self) -> bool:
        """Whether the story ends because a step failed; then nothing more is compared."""
        return sys.exception() is not None


@cache
def _name(code: CodeType) -> str:
    return f"{Path(code.co_filename).stem}.{code.co_name}"


def one_of(some: Iterable[str], pick: int) -> str:
    listed = sorted(some)
    return listed[pick % len(listed)]


def _plain(flat: list[Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """The keys as plain values, and when they end; a row's field `lock` under the row's key with a `!` behind."""
    found: dict[str, Any] = {}
    ends: dict[str, float] = {}
    for key, kind, value, until, marked_until in zip(*(flat[i::5] for i in range(5)), strict=True):
        match kind:
            case "hash":
                found[key] = dict(zip(value[::2], value[1::2], strict=True))
            case "zset":
                found[key] = {name: float(at) for name, at in zip(value[::2], value[1::2], strict=True)}
            case "set":
                found[key] = set(value)
            case _:
                found[key] = value
        if until >= 0:
            ends[key] = until
        if marked_until >= 0:
            ends[f"{key}!"] = marked_until
    return found, ends
