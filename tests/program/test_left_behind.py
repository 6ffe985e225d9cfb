"""A program whose work is over ends, whatever of it does not end by itself, and says what that was."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys, time
from codemojex.run_command import carry_out
from codemojex.settings import Settings

async def deaf():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue

async def work(stop):
    loop = asyncio.get_running_loop()
    if sys.argv[1] == "task":
        work.task = loop.create_task(deaf())
    else:
        work.task = loop.run_in_executor(None, time.sleep, 600)
    await asyncio.sleep(0.1)

sys.exit(carry_out(Settings(), work))
"""


@pytest.mark.parametrize(("what", "named"), [("task", "deaf"), ("thread", "thread asyncio_0")])
def test_the_process_ends_and_names_what_is_left(what: str, named: str) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM, what], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    (line,) = [line for line in run.stderr.splitlines() if "did not end" in line]
    assert named in line
