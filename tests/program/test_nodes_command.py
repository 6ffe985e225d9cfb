"""`codemojex nodes`: list, reserve and release numbers as an operator does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.support.valkey import ValkeyServer


def nodes(url: str, directory: Path, *words: str, **more: str) -> tuple[int, str, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CODEMOJEX_VALKEY_URL": url, **more}
    command = [sys.executable, "-m", "codemojex", "nodes", *words]
    ended = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=100, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_numbers_are_reserved_listed_and_released(tmp_path: Path, start_valkey: Callable[..., ValkeyServer]) -> None:
    url = start_valkey().url
    assert nodes(url, tmp_path, "reserve", "300-302", "--note", "the shop") == (0, "reserved 300-302\n", "")
    code, shown, _ = nodes(url, tmp_path, "list", CODEMOJEX_NODE_NUMBERS="300-400")
    said = ["this program leases 300-400", "reserved 300-302: the shop", "leased now: none"]
    assert (code, shown.splitlines()) == (0, said)
    assert nodes(url, tmp_path, "release", "302-310") == (0, "released 1 of 302-310\n", "")
    for wrong in (("reserve",), ("list", "5"), ("reserve", "1005-1010")):
        code, shown, told = nodes(url, tmp_path, *wrong)
        assert (code, shown, len(told.splitlines())) == (2, "", 1)
