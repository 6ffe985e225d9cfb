"""`codemojex conformance` as a user meets it: lines, names, exit codes. What it refuses: `test_refusals`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT

_OWN = """
import os
from codemojex.engine.protocol.conformance import table
from codemojex.engine.protocol.conformance.runner import Scenario
async def own(stage):
    "A scenario of this test."
    {body}
table.SCENARIOS = {scenarios}
from codemojex.cli import main
main()
"""


def codemojex(directory: Path, *words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    start = ["-c", code] if code else ["-m", "codemojex"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *start, *words]
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=100, check=False)


def test_each_scenario_has_its_line_against_the_server_that_was_named(tmp_path: Path, valkey_url: str) -> None:
    ended = codemojex(tmp_path, "conformance", "--url", valkey_url, "--only", "retry,claim,ours.effect*")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [re.sub(r"\d+ ms$", "N ms", line) for line in lines] == [
        "✓ claim – N ms",
        "✓ retry – N ms",
        "✓ ours.effect – N ms",
        "✓ ours.effect_cross_slot – N ms",
        "4 scenarios hold",
    ]


def test_without_a_server_an_embedded_one_is_examined(tmp_path: Path) -> None:
    ended = codemojex(tmp_path, "conformance", "--only", "mint")
    assert (ended.returncode, ended.stdout.startswith("✓ mint")) == (0, True), ended.stderr
    assert ended.stdout.splitlines()[1:] == ["1 scenario holds"]
    assert list(tmp_path.iterdir()) == []


def _own(body: str, scenarios: str) -> str:
    return _OWN.format(body=body, scenarios=scenarios)


def test_a_failure_is_named_and_is_the_exit_code(tmp_path: Path, valkey_url: str) -> None:
    fails = "raise AssertionError('it is broken')"
    ended = codemojex(
        tmp_path,
        "conformance",
        "--url",
        valkey_url,
        code=_own(fails, "(*table.SCENARIOS[:2], Scenario('broken', own))"),
    )
    assert ended.returncode == 1
    lines = ended.stdout.splitlines()
    assert [line[:8] for line in lines[:3]] == ["✓ fence ", "✓ mint –", "✗ broken"]
    assert lines[2].endswith(": it is broken")
    assert lines[3] == "1 of 3 scenarios failed: broken"


def test_a_run_that_is_interrupted_ends_after_its_scenario_and_says_so(tmp_path: Path, valkey_url: str) -> None:
    code = _own("os.kill(os.getpid(), 2)", "(Scenario('one', own), Scenario('two', own))")
    ended = codemojex(tmp_path, "conformance", "--url", valkey_url, code=code)
    assert ended.returncode == 130, ended.stderr
    assert ended.stdout.splitlines()[1:] == ["interrupted: 1 of 2 scenarios ran"]
