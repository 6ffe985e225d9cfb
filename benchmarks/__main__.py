"""`make bench`: our engine and its peers in one run, over one embedded Valkey, as ratios and as figures.

`ARGS="--quick"` takes less than a minute, `--only arq,saq` compares with these, `--json FILE` keeps the figures. The
figures say what this machine does today; the ratios are what may be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import engine, measures, report
from benchmarks.measures import QUICK, Server, Sizes
from benchmarks.probe import CONCURRENCY, ask, info
from benchmarks.systems import OURS, PEERS, Missing, python_of
from codemojex.embedded import embedded_valkey

Measure = Callable[[str], Awaitable[dict[str, Any]]]


async def main(names: Sequence[str], quick: bool, file: Path | None) -> None:
    """Measure the systems `names`, print the tables, and keep the figures in `file`."""
    sizes = QUICK if quick else Sizes()
    with tempfile.TemporaryDirectory(prefix="cmx-bench-") as directory:
        async with embedded_valkey(Path(directory)) as url:
            server = Server(url, url.removeprefix("unix://"))
            ask(server.path, "CONFIG SET auto-aof-rewrite-percentage 0")  # a rewrite in somebody's turn would be unfair
            print(machine(server), flush=True)
            run = Run(names)
            await run.systems(server, sizes, Path(directory))
            server.empty()
            _say("our engine alone")
            costs = await engine.costs(url, jobs=sizes.engine, many=sizes.lanes)
    if len(run.results) > 1:
        print(f"\nOurs against each peer: above 1 ours is better, below 1 the peer is. {CONCURRENCY} jobs at once.\n")
        print(report.ratios(run.results))
    print(f"\nFigures\n\n{report.figures(run.results)}\n\n{report.settings(run.results)}")
    for name, reason in run.missing.items():
        print(f"- {name}: {reason}")
    print(f"\n{engine.table(costs, sizes.lanes)}")
    if file:
        kept = {"machine": machine(None), "systems": run.results, "missing": run.missing, "engine": _plain(costs)}
        await asyncio.to_thread(file.write_text, json.dumps(kept, indent=2) + "\n")


def _plain(costs: Mapping[str, engine.Cost]) -> dict[str, dict[str, float]]:
    return {name: asdict(cost) for name, cost in costs.items()}


class Run:
    """Every measure of every system, in turn; who fails is left out from then on."""

    def __init__(self, names: Sequence[str]) -> None:
        self._left = list(names)
        self.results: dict[str, dict[str, Any]] = {}
        self.missing: dict[str, str] = {}

    async def systems(self, server: Server, sizes: Sizes, directory: Path) -> None:
        """Fill `results` and `missing`."""
        for name in list(self._left):
            await self._each(name, lambda name: asyncio.to_thread(lambda: {"python": python_of(name)}))
        await measures.throughput(server, OURS, QUICK)  # whoever is first would pay for what a server allocates once
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in self._left}
        for number in range(sizes.rounds):
            for name in list(self._left):
                _say(f"round {number + 1} of {sizes.rounds}: {name}")
                rounds[name].append(await self._each(name, lambda name: measures.throughput(server, name, sizes)))
                if number == 0:
                    waits = await self._each(name, lambda name: measures.latency(server, name, sizes))
                    rounds[name][0]["latency"] = waits
        self.results = {name: report.best(rounds[name]) for name in self._left}
        for name in list(self._left) if sizes.crash else ():
            _say(f"a killed worker: {name}")
            done = await self._each(name, lambda name: measures.crash(server, name, sizes, directory))
            self.results[name]["crash"] = done

    async def _each(self, name: str, measure: Measure) -> dict[str, Any]:
        if name not in self._left:
            return {}
        try:
            return await measure(name)
        except Missing as reason:
            if name == OURS:
                raise
            self._left.remove(name)
            self.missing[name] = str(reason)
            return {}


def machine(server: Server | None) -> str:
    """What the figures were taken on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    text = f"{model}, {os.cpu_count()} cores, load {load}, {platform.system()}, Python {platform.python_version()}"
    if server is None:
        return text
    return f"{text}, Valkey {info(server.path)['valkey_version']} on a unix socket, append-only file every second"


def _say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less than a minute; without the killed workers")
    parser.add_argument("--only", default=",".join(PEERS), help="peers to compare with, separated by commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures")
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name and name != OURS]
    if unknown := [name for name in options.only if name not in PEERS]:
        parser.error(f"unknown peer {unknown[0]!r}: choose from {', '.join(PEERS)}, or ours for none")
    return options


if __name__ == "__main__":
    chosen = _arguments()
    asyncio.run(main([OURS, *chosen.only], chosen.quick, chosen.json))
