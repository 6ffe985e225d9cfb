"""A pytest plugin for the runs of mutants: `pytest -p tests.mutants.plugin`.

`MUTANT_PATH` and `MUTANT_TEXT` (a file) make this process run a mutant; `MUTANT_MAP` (a file) is written with the
Lua files that each test ran, but for tests that failed; `MUTANT_FAILED` (a file) with the first test that failed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.override import override, watched

_heard: dict[str, set[str]] = {}
_failed: set[str] = set()
_now = [""]


def pytest_configure(config: pytest.Config) -> None:
    path, text = os.environ.get("MUTANT_PATH"), os.environ.get("MUTANT_TEXT")
    if path and text:
        changed = override(path, Path(text).read_text(encoding="utf-8"))
        changed.__enter__()
        config.add_cleanup(lambda: changed.__exit__(None, None, None))
    if os.environ.get("MUTANT_MAP"):
        watching = watched(lambda paths: _heard.setdefault(_now[0], set()).update(paths))
        watching.__enter__()
        config.add_cleanup(lambda: watching.__exit__(None, None, None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _now[0] = item.nodeid
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    target = os.environ.get("MUTANT_FAILED")
    if report.failed:
        _failed.add(report.nodeid)
    if target and report.failed and not Path(target).exists():
        Path(target).write_text(report.nodeid, encoding="utf-8")


def pytest_sessionfinish() -> None:
    if target := os.environ.get("MUTANT_MAP"):
        found = {test: sorted(names) for test, names in _heard.items() if test and test not in _failed}
        Path(target).write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")
