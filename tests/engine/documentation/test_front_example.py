"""The program at the top of the page on the engine runs as it is pasted, and one signal ends it in order."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.support.pages import blocks

PAGE = ROOT / "docs/how-to/use-the-engine.md"


@pytest.mark.timeout(60)
async def test_the_pasted_program_works_and_ends_on_a_signal(valkey_url: str, queue: str, tmp_path: Path) -> None:
    program = blocks(PAGE.read_text(encoding="utf-8"), "text")[0].text
    program = program.replace("valkey://localhost:6379", valkey_url).replace('"mail"', f'"{queue}"')
    path = tmp_path / "program.py"
    path.write_text(program.replace("print(job.id, job.payload)", "print(job.id, job.payload, flush=True)"))
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(40):
            line = await child.stdout.readline()
            child.terminate()
            _, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert line.endswith(b"b'hello'\n"), err.decode()
    assert (child.returncode, err) == (0, b"")
