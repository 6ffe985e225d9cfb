"""Every family of keys: how its keys are called, what type they have, what stands in them, how long they live.

The table is the grammar of the keyspace as data. The reference page and the exported files are made from it, and every
conformance scenario checks the keys that it left behind against it. It builds no keys: `keyspace` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from codemojex.engine import keyspace


@dataclass(frozen=True, slots=True)
class Family:
    """One family. `pattern` is what stands behind the prefix, with `<…>` for names.

    `ours`: the protocol does not know it, so a peer leaves it alone.
    """

    pattern: str
    type: str
    content: str
    life: str = "until it is empty"
    ours: bool = False


_ID = "[A-Z]{3}[0-9A-Za-z]{11}"
_WITH_JOB = "as long as its job"
_SETTING = "until it is changed"

QUEUE = (
    Family(
        "job:<id>",
        "hash",
        "the row: `state`, `attempts` (the token), `payload`; when used `group`, `last_error`, `progress`, `stalled`, "
        "`parent`, `parent_queue`, `parent_policy`, `lock`; ours when used `failures`, `max_attempts`, `backoff`, "
        "`timeout_ms`, `expires_at`, `dedup`, `dedup_ms`, `cancel`, `children`, `trace`, `lapsed`, `counted`, `flow`",
        "until its job completes or is removed",
    ),
    Family("job:<id>:logs", "list", "log lines, oldest first", "a week after its last line, or until removal"),
    Family("job:<id>:lock", "string", "the holder's token: protects from removal", "its own milliseconds"),
    Family("job:<id>:dependencies", "string", "a flow's parent: children still outstanding", _WITH_JOB),
    Family("job:<id>:processed", "hash", "a flow's parent: child to result, or to itself", _WITH_JOB),
    Family("job:<id>:failed", "hash", "a flow's parent: child to the error that was the parent's death", _WITH_JOB),
    Family("job:<id>:unsuccessful", "hash", "a flow's parent: child to its ignored error", _WITH_JOB),
    Family("job:<id>:part", "string", "a flow's part: the life of the parent it was added for", "an hour", ours=True),
    Family("pending", "zset", "the flat backlog: job id, score 0, so in the order of minting"),
    Family("active", "zset", "jobs in flight, flat and of lanes; score: the lease's end, server ms"),
    Family("schedule", "zset", "jobs that wait for a time; score: due, ms"),
    Family("dead", "zset", "dead letters, score 0", "until reprocessed, removed or trimmed"),
    Family("g:<lane>:pending", "zset", "a lane's backlog, score 0"),
    Family("ring", "list", "the rota of lanes that may be served, each once; the head is next"),
    Family("paused", "set", "lanes that are paused", _SETTING),
    Family("glimit", "hash", "lane to the most jobs in flight", "until changed; a default one until its lane is idle"),
    Family("gactive", "hash", "lane to jobs in flight; the field goes at zero"),
    Family("gweight", "hash", "lane to jobs per turn", _SETTING),
    Family("wake", "list", "tokens `1`, at most 64: a parked worker takes one", "until a worker finds no work left"),
    Family(
        "meta",
        "hash",
        "settings: `paused`, `concurrency`, `max`; ours `limiter`, `duration`, `rate`, `burst`, `lane_rate`, "
        "`lane_burst`, `lane_kinds`, `lane_rate:<kind>`, `lane_limit`, `repeats`; the program's `kept`",
        _SETTING,
    ),
    Family("limiter", "string", "window: units spent; bucket: the arrival time in ms", "its window"),
    Family("de:<dedup key>", "string", "a producer's key: the id of its job", "its window"),
    Family("done:<dedup key>", "string", "the id of the key's job, which we completed", "the key's window", ours=True),
    Family("metrics:completed", "hash", "field `count`", _SETTING),
    Family("metrics:failed", "hash", "field `count`", _SETTING),
    Family(
        "metrics:blocked", "hash", "field `count`: times that a handler blocked its event loop", _SETTING, ours=True
    ),
    Family("metrics:completed:data", "list", "reserved, never written"),
    Family("metrics:failed:data", "list", "reserved, never written"),
    Family("repeat", "zset", "repeated jobs that a peer reads, by name; score: the next slot, ms", "until cancelled"),
    Family(
        "repeat:<repeat>",
        "hash",
        "`every_ms`, `template`; ours `cron`, `zone`, `catch_up`, `until`, `lane`, `max_attempts`, `timeout`, `n`",
        "until cancelled",
    ),
    Family("flow:outbox", "list", "ends of children for parents in other queues, parts split by a zero byte"),
    Family("events", "channel", "lifecycle events, flat JSON objects of strings", "not a key"),
    Family("stream:<stream>", "stream", "records: `id`, then the producer's fields", "until trimmed or expired"),
    Family("stream:<stream>:archived", "string", "the last record that the archive has", "90 days"),
    Family("repeat_ours", "zset", "repeats that only we fire; score as in `repeat`", "until cancelled", ours=True),
    Family("resting", "zset", "lanes that rest; score: until, ms", ours=True),
    Family("parked", "zset", "lanes that were told to rest; score: until, ms", "until the rest ends", ours=True),
    Family("grate", "hash", "lane to its own pace, `rate:burst`", _SETTING, ours=True),
    Family("pace:<lane>", "string", "a paced lane's arrival time and rate, `ms:rate`", "until it is full", ours=True),
    Family("gdefault", "hash", "lane to the ceiling that was written by default", "until the lane is idle", ours=True),
    Family("tended", "hash", "how far the visits of lanes have come", "an hour", ours=True),
    Family("credit", "string", "a weighted turn that was cut short: `lane:jobs left`", "an hour", ours=True),
    Family("turns", "string", "turns of lanes since flat work had its own", "an hour", ours=True),
    Family("parents", "zset", "parents that wait for children; score: since, ms", ours=True),
    Family("kin", "zset", "parents whose rows and records stand, score 0", ours=True),
    Family("flow:sent", "string", "entries ever taken off the outbox", _SETTING, ours=True),
    Family("flow:rejected", "list", "outbox entries that nobody can read, the last 100", "a week", ours=True),
    Family("stream:<stream>:quarantine", "stream", "poison entries with error and fields", "30 days", ours=True),
    Family("stream:cell", "string", "the last id minted inside scripts", "a day", ours=True),
)
DEPLOYMENT = (
    Family(keyspace.VERSION_KEY, "string", "the wire version; every connection compares it", "for ever"),
    Family(keyspace.NODES_KEY, "hash", "node number to `lease end ms:token`", "twice the lease", ours=True),
    Family(keyspace.RESERVED_NODES_KEY, "hash", "node number to a note: nobody leases it", "until released", ours=True),
    Family(keyspace.QUEUES_KEY, "set", "names of queues, for tools", "until obliterated", ours=True),
)
CACHE = (
    Family("<entry>", "string", "a near-cache entry: a framed value", "its own milliseconds", ours=True),
    Family("<entry>!fill", "string", "the right to fill an entry", "the lease", ours=True),
    Family("log", "stream", "changes for every process's near-cache", "its own milliseconds", ours=True),
)


def queue_prefix() -> str:
    """`emq:{<queue>}:`, what stands before every pattern of `QUEUE`."""
    return keyspace.of("queue").prefix.replace("queue", "<queue>")


def cache_prefix() -> str:
    """`ecc:{<table>}:`, what stands before every pattern of `CACHE`."""
    return keyspace.cache_prefix("table").replace("table", "<table>")


def family_of(suffix: str) -> Family | None:
    """The family of a queue's key, by what stands behind the prefix; None for a key that nobody should have made."""
    return next((family for family, matches in _matchers() if matches.fullmatch(suffix)), None)


@cache
def _matchers() -> tuple[tuple[Family, re.Pattern[str]], ...]:
    """Patterns to match with, those without names first: `stream:cell` is no stream."""
    names = {**keyspace.NAME_RULES, "id": _ID, "lane": _ID}
    ordered = sorted(QUEUE, key=lambda family: family.pattern.count("<"))
    return tuple((f, re.compile(re.sub(r"<([^>]*)>", lambda name: names[name[1]], f.pattern))) for f in ordered)
