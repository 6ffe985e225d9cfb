"""The part of the runs of mutants that lives inside pytest: `pytest -p tests.mutants.plugin`.

With `MUTANT_PIPE` (a file descriptor) it runs no test by itself: it forks for every request that comes from a `Suite`
and answers with the first test that failed. With `MUTANT_MAP` (a file) the tests run as ever, and the file is written
with the seconds and the Lua lines of those that hold.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.mutants.override import original, override, paths
from tests.mutants.probes import Lines, Trail, probed
from tests.mutants.suite import NO_END
from tests.support.valkey import ValkeyServer

_failed: list[str] = []
_seconds: dict[str, float] = {}
_ran: dict[str, Lines] = {}


def pytest_configure(config: pytest.Config) -> None:
    if target := os.environ.get("MUTANT_MAP"):
        changed = override({path: probed(path, original(path)) for path in paths()})
        changed.__enter__()
        config.add_cleanup(lambda: changed.__exit__(None, None, None))
        log = Path(target).with_name("log")
        command = ValkeyServer.command
        ValkeyServer.command = lambda self: [*command(self), "--logfile", str(log)]  # type: ignore[method-assign]
        config.pluginmanager.register(_Map(Trail(log), Path(target)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failed.append(report.nodeid)


class _Map:
    """Writes down what each test runs."""

    def __init__(self, trail: Trail, target: Path) -> None:
        self._trail = trail
        self._target = target

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        _ran[nodeid] = self._trail.lines()

    def pytest_sessionfinish(self) -> None:
        good = {test: (_seconds[test], sorted(lines)) for test, lines in _ran.items() if lines and test not in _failed}
        self._target.write_text(json.dumps(good), encoding="utf-8")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if "MUTANT_PIPE" not in os.environ:
        return None
    items = {item.nodeid: item for item in session.items}
    with Connection(int(os.environ["MUTANT_PIPE"])) as pipe:
        pipe.send("ready")
        while True:  # until the other side closes
            try:
                path, text, tests, seconds = pipe.recv()
            except EOFError:
                return True
            pipe.send(_in_a_fork(session, path, text, [items[test] for test in tests], seconds))


def _in_a_fork(session: pytest.Session, path: str, text: str, items: Sequence[pytest.Item], seconds: float) -> str:
    here, there = Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            there.send(_first_failure(session, path, text, items))
        finally:
            os._exit(0)
    there.close()
    os.setpgid(child, child)  # with the servers that it starts
    try:
        return here.recv() if here.poll(seconds) else NO_END
    except EOFError:
        raise RuntimeError("a run of tests ended without a word") from None
    finally:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        here.close()


def _first_failure(session: pytest.Session, path: str, text: str, items: Sequence[pytest.Item]) -> str:
    with override({path: text}):
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if _failed:
                break
        session._setupstate.teardown_exact(None)
    return _failed[0] if _failed else ""
