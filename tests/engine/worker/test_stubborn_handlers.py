"""A handler that cannot be ended is named, and the program ends without it."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.engine.bench import Bench


@pytest.mark.parametrize("which", ["stubborn", "hung"])
@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_the_program_ends_and_names_job_and_handler(bench: Bench, valkey_url: str, how: str, which: str) -> None:
    (job_id,) = await bench.fill([None])
    arguments = "-m", "tests.engine.worker.stubborn", valkey_url, bench.queue, how, which
    child = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(30):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, err.decode()
    (line,) = [line for line in out.decode().splitlines() if line.startswith("worker.")]
    assert job_id in line
    assert which in line, "the handler"
    assert b"destroyed" not in err
    row = await bench.row(job_id)
    assert row["state"] == ("pending" if how == "stop" else "active"), "given back, or its lease lapses"
    await bench.sound()
