"""The tables: ratios of ours to each peer, and the raw figures below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.systems import OURS

Results = Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One measure: where it stands in a system's result, how it is written, and whether more is better."""

    title: str
    place: tuple[str, ...]
    more: bool
    form: str = ",.0f"
    ratio: bool = True

    def value(self, result: Mapping[str, Any]) -> float | None:
        """The figure, None when it was not measured."""
        found: Any = result
        for step in self.place:
            found = found.get(step) if found else None
        return found


ROWS = (
    Row("enqueue one by one, jobs/s", ("single", "jobs_per_s"), True),
    Row("enqueue in bulk, jobs/s", ("bulk", "jobs_per_s"), True),
    Row("work, jobs/s", ("work", "jobs_per_s"), True),
    Row("enqueue one by one, producer µs per job", ("single", "client_us"), False),
    Row("enqueue in bulk, server µs per job", ("bulk", "server_us"), False),
    Row("work, server µs per job", ("work", "server_us"), False),
    Row("work, worker µs per job", ("work", "client_us"), False),
    Row("work, server commands per job", ("work", "commands"), False, ".1f"),
    Row("work, messages to the server per job", ("work", "round_trips"), False, ".3f"),
    Row("enqueue to handler when idle, median ms", ("latency", "median_ms"), False, ".2f"),
    Row("enqueue to handler when idle, 99 % ms", ("latency", "p99_ms"), False, ".2f"),
    Row("server bytes per waiting job", ("memory",), False),
    Row("worker process, MiB", ("work", "rss_mib"), False),
    # A system that was stopped before has begun so many at least: the larger figure of two rounds says more.
    Row("flood's jobs begun before the other tenant's last", ("work", "flood_before_other"), True, ratio=False),
    Row("worker killed: jobs not done 20 s later", ("crash", "left"), False, ratio=False),
    Row("worker killed: jobs begun twice", ("crash", "twice"), False, ratio=False),
    Row("worker killed: seconds until all are done", ("crash", "seconds"), False, ".1f", ratio=False),
)


def ratios(results: Results) -> str:
    """How many times better ours is than each peer; below 1 the peer is better."""
    peers = [name for name in results if name != OURS]
    return _table(peers, results, lambda row, name: _ratio(row, results[OURS], results[name]))


def figures(results: Results) -> str:
    """Every figure as it was measured."""
    return _table(list(results), results, lambda row, name: _plain(row, row.value(results[name])))


def settings(results: Results) -> str:
    """Who was measured, and how each was set up."""
    lines = [f"- {name} {r['version']}: {r['settings']}; in bulk: {r['how']}" for name, r in results.items()]
    return "\n".join(lines)


def best(tries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best of several rounds, for each measure by itself: what else ran on the machine only makes it worse."""
    out = dict(tries[0])
    for row in ROWS:
        found = [value for value in map(row.value, tries) if value is not None]
        if not found:
            continue
        into = out
        for step in row.place[:-1]:
            into[step] = dict(into.get(step, {}))
            into = into[step]
        into[row.place[-1]] = max(found) if row.more else min(found)
    return out


def _ratio(row: Row, ours: Mapping[str, Any], peer: Mapping[str, Any]) -> str:
    mine, theirs = row.value(ours), row.value(peer)
    if not row.ratio:
        return "" if mine is None and theirs is None else f"{_plain(row, mine)} : {_plain(row, theirs)}"
    if not mine or not theirs:
        return "–"
    return f"{mine / theirs if row.more else theirs / mine:.2f}"


def _plain(row: Row, value: float | None) -> str:
    return "–" if value is None else format(value, row.form)


def _table(names: Sequence[str], results: Results, cell: Callable[[Row, str], str]) -> str:
    lines = [["", *names]]
    for row in ROWS:
        if any(row.value(result) is not None for result in results.values()):
            lines.append([row.title, *(cell(row, name) for name in names)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(names) + 1)]
    rows = [
        " | ".join(
            text.rjust(width) if i else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    rule = "|".join("-" * (width + 1) + (":" if i else "-") for i, width in enumerate(widths))
    return "\n".join([f"| {rows[0]} |", f"|{rule}|", *(f"| {row} |" for row in rows[1:])])
