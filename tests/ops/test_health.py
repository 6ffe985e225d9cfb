"""The health probe: beats, deadlines, and answers without passwords."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from codemojex.ops.health import Finding, checks_for, examine
from codemojex.ops.heartbeat import STALE_S, Heartbeat, age_s
from tests.support.valkey import ValkeyServer


class Time:
    """Monotonic seconds that move only when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def test_a_role_that_beats_is_well_and_one_that_never_ran_is_not(tmp_path: Path) -> None:
    Heartbeat(tmp_path, ["score"]).beat()
    score, send = await examine(checks_for(directory=tmp_path, roles=["score", "send"]))
    assert score.well
    assert send == Finding("send", False, "not running here")


async def test_a_role_whose_last_beat_is_old_hangs(tmp_path: Path) -> None:
    import time

    Heartbeat(tmp_path, ["score"], lambda: time.monotonic() - STALE_S - 5).beat()
    (score,) = await examine(checks_for(directory=tmp_path, roles=["score"]))
    assert not score.well
    assert "hangs" in score.detail


def test_the_age_of_a_beat_counts_from_the_last_one(tmp_path: Path) -> None:
    clock = Time()
    heart = Heartbeat(tmp_path / "new", ["score"], clock)
    heart.beat()
    clock.now += 5
    assert age_s(tmp_path / "new", "score", clock) == 5
    heart.beat()
    assert age_s(tmp_path / "new", "score", clock) == 0


def test_a_beat_is_not_from_the_future_however_soon_it_is_read(tmp_path: Path) -> None:
    clock = Time(1000.0006)
    Heartbeat(tmp_path, ["score"], clock).beat()
    assert age_s(tmp_path, "score", clock) == 0


def test_a_beat_from_before_the_machine_restarted_counts_as_none(tmp_path: Path) -> None:
    Heartbeat(tmp_path, ["score"], Time(9000)).beat()
    assert age_s(tmp_path, "score", Time(10)) is None


async def test_the_beat_goes_with_the_process(tmp_path: Path) -> None:
    heart = asyncio.get_running_loop().create_task(Heartbeat(tmp_path, ["score"]).run())
    await asyncio.sleep(0)
    assert age_s(tmp_path, "score") is not None
    heart.cancel()
    await asyncio.wait([heart])
    assert age_s(tmp_path, "score") is None


async def test_a_server_that_answers_is_well(tmp_path: Path, valkey_url: str) -> None:
    (found,) = await examine(checks_for(valkey_url=valkey_url, directory=tmp_path))
    assert (found.name, found.well) == ("valkey", True)
    assert found.detail.startswith("answers; ")


async def test_a_server_that_hangs_is_found_within_the_deadline(
    tmp_path: Path, start_valkey: Callable[..., ValkeyServer]
) -> None:
    server = start_valkey()
    server.pause()
    try:
        (found,) = await examine(checks_for(valkey_url=server.url, directory=tmp_path), deadline_s=0.2)
    finally:
        server.resume()
    assert found == Finding("valkey", False, "no answer in 0.2 s")


async def test_what_cannot_be_reached_is_one_line_without_the_password(tmp_path: Path) -> None:
    checks = checks_for(
        valkey_url=f"unix://me:hunter2@{tmp_path}/nobody",
        database_url="postgresql://me:hunter2@127.0.0.1:1/x",
        directory=tmp_path,
    )
    found = await examine(checks)
    assert [finding.well for finding in found] == [False, False]
    for finding in found:
        assert finding.detail
        assert "hunter2" not in finding.detail
        assert "\n" not in finding.detail


async def test_a_missing_database_file_is_found_and_not_created(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    (found,) = await examine(checks_for(database_url=f"sqlite:///{path}", directory=tmp_path))
    assert not found.well
    assert not path.exists()
