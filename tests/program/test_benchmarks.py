"""`make bench`: our own part measures something, and the tables say what is better and what was not measured."""

from __future__ import annotations

import sys

import pytest

from benchmarks import measures, report, systems
from benchmarks.measures import Server, Sizes
from tests.architecture.sources import ROOT

SMALL = Sizes(flood=60, single=10, offers=5, crash=0, rounds=1, work_s=20.0)


async def test_our_own_part_runs_and_every_figure_of_it_is_there(valkey_url: str) -> None:
    server = Server(valkey_url, valkey_url.removeprefix("unix://"))
    result = await measures.throughput(server, systems.OURS, SMALL, empty=False)
    missing = [
        row.title for row in report.ROWS if row.place[0] not in ("latency", "crash") and row.value(result) is None
    ]
    assert not missing
    assert result["work"]["jobs_per_s"] > 0
    assert result["work"]["flood_before_other"] < SMALL.flood, "the other tenant has its turns while the flood waits"


def test_a_ratio_above_one_means_that_ours_is_better() -> None:
    ours = {"work": {"jobs_per_s": 300.0, "server_us": 10.0}, "memory": 50.0}
    peer = {"work": {"jobs_per_s": 100.0, "server_us": 40.0}, "memory": 25.0}
    lines = report.ratios({"ours": ours, "peer": peer}).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["3.00", "4.00", "0.50"]


def test_the_best_round_counts_for_each_measure_by_itself() -> None:
    tries = [{"work": {"jobs_per_s": 1.0, "server_us": 5.0}}, {"work": {"jobs_per_s": 2.0, "server_us": 9.0}}]
    assert report.best(tries) == {"work": {"jobs_per_s": 2.0, "server_us": 5.0}}


def test_every_peer_has_a_module_and_pins_of_its_own() -> None:
    peers = set(systems.PEERS)
    assert {path.stem for path in (ROOT / "requirements" / "bench").glob("*.txt")} == peers
    modules = {path.stem.removeprefix("with_") for path in (ROOT / "benchmarks" / "peers").glob("with_*.py")}
    assert modules == peers | {systems.OURS}


def test_a_peer_that_cannot_be_installed_is_named_with_the_reason() -> None:
    with pytest.raises(systems.Missing, match=r"^not installed: no network$"):
        systems.run(sys.executable, "-c", "raise SystemExit('no network')")
