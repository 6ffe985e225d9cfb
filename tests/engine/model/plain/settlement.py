"""An attempt ends, once, under its token; leases are renewed, and lapse.

A batch is settled item by item; the seats in its lanes are given back at its end. A job that waits because its lease
lapsed may still be settled by its last holder, until somebody else holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Park, Retry
from codemojex.engine.jobs.settlement import Policy, Settlement
from tests.engine.model.plain import effects, flows
from tests.engine.model.plain.state import Queue

Verdict = tuple[str, str, object]  # the verdict, the new state, the effect's reply


def settle(q: Queue, items: Sequence[Settlement], policy: Policy) -> list[Verdict]:
    left: Counter[str] = Counter()
    gone: list[str] = []
    verdicts = [_settle(q, item, policy, left, gone) for item in items]
    for job_id in gone:
        del q.active[job_id]
    for lane, n in left.items():
        q.seats[lane] -= n
        q.changed(lane)
    q.totals["completed"] += sum(state == "completed" for _, state, _ in verdicts)
    return verdicts


def wake_for_seats(q: Queue) -> None:
    """Who settles without claiming has somebody else look for the free seats."""
    if "concurrency" in q.meta:
        q.wake()


def _settle(q: Queue, item: Settlement, policy: Policy, left: Counter[str], gone: list[str]) -> Verdict:
    job_id, token, outcome = item
    row, now = q.rows.get(job_id), q.world.now
    if row is None:
        return "gone", "", None
    late = row.state == "pending" and token != "0" and (row.get("counted") != token or row.get("lapsed") == token)
    if row.token != token or not (row.state == "active" or late):
        return "stale", "", None
    reply = None
    if isinstance(outcome, Complete) and outcome.effect:
        went, reply = effects.apply(q, outcome.effect)
        if not went:
            return "effect_failed", "", None
    was, lane, link = row.state, row.lane, flows.link_of(row)
    due = error = None
    match outcome:
        case Retry(text, delay_ms):
            row |= {"failures": str(row.count("failures") + 1), "last_error": text}
            if row.count("failures") >= int(row.get("max_attempts", policy.max_attempts)):
                error = text
            else:
                due = q.world.after(delay_ms if delay_ms is not None else _backoff(row, policy))
        case Delay(ms):
            due = q.world.after(ms)
        case Park(ms) if lane is None:
            due = q.world.after(ms)
        case Discard(text):
            error = text
        case Complete() | Park() | GiveBack():
            pass
    if isinstance(outcome, Complete):
        after = "completed"
        del q.rows[job_id]
    else:
        after = "dead" if error is not None else "scheduled" if due is not None else "pending"
        row |= {"state": after, "counted": token}
        row.pop("lapsed", None)
    if was == "active":
        gone.append(job_id)
        if lane:
            left[lane] += 1
    elif lane is None:
        q.pending.discard(job_id)
    else:
        q.lanes[lane].discard(job_id)
        q.changed(lane)
    if isinstance(outcome, Park) and lane:
        q.rest(lane, q.world.after(outcome.for_ms))
        q.visit(lane)
    if error is not None:
        flows.die(q, job_id, error)
    elif due is not None:
        q.put_off(job_id, due)
    elif after == "pending":
        q.put(job_id)
    if link and isinstance(outcome, Complete):
        flows.done(q, job_id, link, outcome.result.decode() if isinstance(outcome.result, bytes) else job_id)
    if "dedup_ms" in row:
        q.keep_key(row["dedup"], job_id, int(row["dedup_ms"]) + max(0, (due or now) - now))
        if isinstance(outcome, Complete):
            q.end_key(row["dedup"], job_id, int(row["dedup_ms"]))
    return "settled", after, reply


def _backoff(row: dict[str, str], policy: Policy) -> int:
    kind, first, *rest = row.get("backoff", policy.backoff.wire).split(":")
    return int(first) if kind == "fixed" else min(int(rest[0]), int(first) * 2 ** (int(row["failures"]) - 1))


def renew(q: Queue, job_id: str, token: str, lease_ms: int) -> str:
    """`ok`, `stale`, `gone`, or `cancel:<reason>` for a lease that is renewed although somebody asked to cancel."""
    row = q.rows.get(job_id)
    if row is None:
        return "gone"
    if row.token != token or job_id not in q.active:
        return "stale"
    q.active[job_id] = q.world.after(lease_ms)
    if "dedup_ms" in row:
        q.keep_key(row["dedup"], job_id, int(row["dedup_ms"]) + lease_ms)
    return f"cancel:{row['cancel']}" if "cancel" in row else "ok"


def recover(q: Queue, limit: int, max_stalled: int, lane: str | None = None) -> tuple[list[str], list[str]]:
    """Take back the lapsed leases; the jobs that wait again, and those that lapsed too often."""
    back: list[str] = []
    dead: list[str] = []
    for job_id in q.ripe(q.active)[:limit]:
        row = q.rows[job_id]
        if lane and row.lane != lane:
            continue
        del q.active[job_id]
        row["stalled"] = str(row.count("stalled") + 1)
        if row.lane:
            q.seats[row.lane] -= 1
        if row.count("stalled") >= max_stalled:
            q.changed(row.lane)
            flows.die(q, job_id, "stalled")
            dead.append(job_id)
        else:
            row["lapsed"] = row["counted"] = row.token
            q.put(job_id)
            back.append(job_id)
    return back, dead
