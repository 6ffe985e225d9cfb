"""No loop, no unpacking and no whole read in the engine's Lua without a bound that somebody has stated.

A list that is too long for the stack, or a loop as long as a queue, stops or crashes a server. What is bounded by its
own form (named fields, a slice of ARGV, a LIMIT) passes by itself; everything else needs a line here that says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import sources

_CHUNK = "the caller sends chunks of at most 500 jobs or 200 settlements"
_CLAIM = "a claim takes at most 500 jobs, and 2n + 200 steps"
# File -> text on the line -> what bounds it.
STATED: dict[str, dict[str, str]] = {
    "admit_many": {"cmsgpack.unpack(ARGV[1])": _CHUNK},
    "settle": {"cmsgpack.unpack(ARGV[1])": _CHUNK},
    "flow_add": {
        "cmsgpack.unpack(ARGV[1])": "flows.py bounds the jobs of one flow",
        "for from = 0, length, 500 do": "pages over the outbox of the same queue, for flows over several queues only",
    },
    "count_seats": {
        "redis.call('ZRANGE', P .. 'active', 0, -1)": "20000 jobs for an audit, 1000 for a visit",
        "redis.call('HGETALL', P .. 'gactive')": "a lane with jobs in flight each; 10000 for a visit",
    },
    "lane_portion": {"'SCAN', at[3]": "one page of 250 keys"},
    "tend_lanes": {
        "redis.call('LRANGE', P .. 'ring', 0, -1)": "once in as many beats as the ring has tens of thousands"
    },
    "repeat_due": {"for k = 1, math.min(limit, #due) do": "the limit, at most 500"},
    "flow_waiting": {"'HKEYS', row .. record": "the children of a flow, which has at most 1000 jobs"},
    "audit_lanes": {"redis.call('LRANGE', P .. 'ring', 0, -1)": "the audit's own cost; not for a hot path"},
    "node_lease": {
        "redis.call('HGETALL', KEYS[1])": "one field a node number, 1008 of them",
        "for offset = 0, count - 1 do": "1008 node numbers",
    },
    "obliterate": {
        "while g do": "each turn spends the budget",
        "while budget > 0 do": "each turn spends the budget",
        "redis.call('ZRANGE', set, 0, -1)": "repeat_set refuses more than 10000 in a queue",
    },
    "stream_append": {
        "while at <= #ARGV do": "the caller sends at most 128 records",
        "unpack(ARGV, at + 3, at + 2 + n)": "a record has at most 256 fields",
    },
    "stream_drop_consumers": {"'XINFO', 'CONSUMERS'": "silent consumers are dropped here, so few are left"},
    "stream_quarantine": {"unpack(fields)": "a record has at most 256 fields"},
    "stream_trim": {
        "'XINFO', 'GROUPS'": "a stream has a handful of groups",
        "while surplus > 0 and budget > 0 do": "each turn spends the budget",
    },
    "admit_one": {"unpack(fields)": "one pair a field that a row can have"},
    "claim": {"while c.served < c.want": _CLAIM, "unpack(c.active)": _CLAIM},
    "lane_turn": {"while k < quota": _CLAIM},
    "hand_out": {"unpack(MORE)": "named fields"},
    "limiter": {"unpack(META)": "named fields"},
    "mint_event": {"for i = 11, 1, -1 do": "the eleven digits of an id"},
    "rota": {"unpack(c.back)": _CLAIM, "unpack(front)": _CLAIM, "unpack(c.heads)": _CLAIM},
    "seats": {
        "unpack(names)": "the lanes of one chunk, see claim and settle",
        "unpack(keep)": "two entries a lane of one chunk",
        "unpack(drop)": "the lanes of one chunk",
        "unpack(fields)": "two entries a lane of one chunk",
    },
    "settle_one": {"unpack(b.ids)": "the ids of one chunk", "unpack(fields)": "at most four fields of a row"},
}
_SUSPECT = re.compile(
    r"\bwhile\b|\bunpack\(|\brepeat$|(?<!\d)0, -1\)|'(HGETALL|SMEMBERS|HKEYS|HVALS|KEYS|SCAN)'|'(GROUPS|CONSUMERS)'"
    r"|^\s*for \w+ = \d+, (?!#|\d+ do|n do|count do|bad)"
)
# Bounded by form: fields named in the call, and a slice whose both ends are offsets of one variable.
_SAFE = re.compile(
    r"unpack\(redis\.call\('HMGET', [^()]*(\([^()]*\)[^()]*)*('[a-z_]+'(, )?)+\)\)|unpack\(ARGV, i, i \+ \d\)"
)


def suspects(text: str) -> Iterator[str]:
    for line in text.splitlines():
        code = _SAFE.sub("", line.partition("--")[0])
        if _SUSPECT.search(code):
            yield line.strip()


LUA = {path.stem: text for path, text in sources(".lua", under="codemojex/engine/lua/")}


@pytest.mark.parametrize("name", sorted(LUA))
def test_every_loop_and_unpacking_has_a_stated_bound(name: str) -> None:
    stated = STATED.get(name, {})
    bare = [line for line in suspects(LUA[name]) if not any(text in line for text in stated)]
    assert not bare, f"{name}.lua: say in test_lua_bounds.py what bounds: {bare}"


def test_no_bound_is_stated_for_what_is_gone() -> None:
    gone = [(name, text) for name, texts in STATED.items() for text in texts if text not in LUA.get(name, "")]
    assert not gone


@pytest.mark.parametrize(
    "line",
    [
        "while true do",
        "redis.call('ZADD', k, unpack(list))",
        "local all = redis.call('ZRANGE', k, 0, -1)",
        "redis.call('SMEMBERS', k)",
        "for i = 1, total do",
    ],
)
def test_the_search_sees_what_has_no_bound(line: str) -> None:
    assert list(suspects(line))


@pytest.mark.parametrize(
    "line",
    [
        "local a, b = unpack(redis.call('HMGET', P .. 'job:' .. id, 'state', 'group'))",
        "local a, b = unpack(redis.call('HMGET', row, 'state', 'group'))",
        "for i = 1, #ids, 2 do erase(P, ids[i]) end",
        "local a = unpack(ARGV, i, i + 4)",
        "-- while unpack(",
    ],
)
def test_the_search_lets_pass_what_is_bounded_by_its_form(line: str) -> None:
    assert not list(suspects(line))
