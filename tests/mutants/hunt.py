"""Tries mutants: scenarios of the conformance table first, the tests that ran the command for what survives them.

A mutant is killed when a scenario or test that ran the changed file fails, twice, so that a hiccup of the machine
kills nothing. A scenario that does not end in its time counts as a failure, and the server it may have left busy is
replaced. The Lua files that scenarios and tests run are learned from a clean run, in which all of them must hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from codemojex.engine.conformance.runner import Scenario, play
from codemojex.engine.conformance.table import SCENARIOS
from codemojex.engine.connector import Connector
from codemojex.engine.errors import EngineError
from codemojex.engine.ids import Minter
from codemojex.engine.scripts import ENGINE
from tests.mutants.mutations import Mutant
from tests.mutants.override import commands_with, original, override, watched
from tests.support.valkey import ValkeyServer

ROOT = Path(__file__).parents[2]
SCENARIO_S = 8.0
TESTS_S = 240.0
MAP_S = 1800.0
_NO_END = -1  # no exit code of pytest
_CONFIRM = 3  # tests that fail once and hold the second time, at most, before the mutant counts as a survivor
_SERVER_BYTES = 2 << 30  # a loop without an end must not take the machine's memory
# Not asked: these look at texts and not at behaviour, start processes that a mutant does not reach, or take minutes.
_NO_TESTS_OF_BEHAVIOUR = (
    *("test_conformance", "test_export", "test_lua_bounds", "test_scripts", "test_polyglot", "test_zombie_workers"),
    *("test_topologies_cluster", "test_topologies_sentinel", "test_topologies_server", "test_flows_cluster"),
    "test_model",
)


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant, and by whom.

    `killed`, `survived`, `invalid` (no Lua) or `waits` (no scenario noticed it, the tests have yet to run).
    """

    end: str
    by: str = ""


class Hunter:
    """Tries mutants against a server of its own. `learn` first, `close` in the end."""

    def __init__(
        self, scenarios: Sequence[Scenario] = SCENARIOS, tests: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        self._scenarios = scenarios
        self._server = _server()
        self._runs: dict[str, set[str]] = {}  # the files of a scenario
        self._tests = dict(tests)  # the files of a test
        self._seconds: dict[str, float] = {}
        self._round = 0

    def close(self) -> None:
        """End the server."""
        self._server.close()

    async def learn(self) -> None:
        """Run every scenario once, unchanged. Raises RuntimeError when one fails."""
        for scenario in self._scenarios:
            names: set[str] = set()
            with watched(names.update):
                failure, seconds = await self._play(scenario)
            if failure:
                raise RuntimeError(f"the scenario {scenario.name} fails without any mutant: {failure}")
            self._runs[scenario.name], self._seconds[scenario.name] = names, seconds

    def learn_tests(self, place: Path) -> None:
        """Which Lua files each of the engine's tests runs; files that changed since are run once to find out.

        A test that fails without any mutant is not asked.
        """
        record = place / "tests.json"
        kept = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        digests = {
            str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((ROOT / "tests/engine").glob("test_*.py"))
            if path.stem not in _NO_TESTS_OF_BEHAVIOUR
        }
        changed = [name for name, digest in digests.items() if name not in kept or kept[name]["digest"] != digest]
        if changed:
            print(f"running {len(changed)} files of tests to see which Lua files they run ...", flush=True)
            found = place / "found.json"
            found.unlink(missing_ok=True)
            _pytest(changed, MAP_S, MUTANT_MAP=str(found))
            tests: dict[str, list[str]] = json.loads(found.read_text(encoding="utf-8"))
            for name in changed:
                mine = {test: names for test, names in tests.items() if test.partition("::")[0] == name}
                kept[name] = {"digest": digests[name], "tests": mine}
            record.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        self._tests = {test: names for name in digests for test, names in kept[name]["tests"].items()}

    async def scenarios_against(self, mutant: Mutant) -> Fate:
        """Run the scenarios that run the changed file, the quickest first, until one fails."""
        commands = commands_with(mutant.path)
        with override(mutant.path, mutant.text(original(mutant.path))):
            if not await self._compiles(commands):
                return Fate("invalid")
            mine = [s for s in self._scenarios if mutant.path in self._runs[s.name]]
            for scenario in sorted(mine, key=lambda s: self._seconds[s.name]):
                if (await self._play(scenario))[0] and (await self._play(scenario))[0]:
                    return Fate("killed", scenario.name)
        return Fate("waits")

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the changed file; those that run the fewest other files first."""
        mine = [test for test, paths in self._tests.items() if mutant.path in paths]
        return sorted(mine, key=lambda test: len(self._tests[test]))

    def tests_against(self, mutant: Mutant) -> Fate:
        """Run the engine's tests that run the changed file, until one fails."""
        tests = self.tests_of(mutant)
        with tempfile.TemporaryDirectory() as place:
            text, failed = Path(place, "text.lua"), Path(place, "failed")
            text.write_text(mutant.text(original(mutant.path)), encoding="utf-8")
            there = {"MUTANT_PATH": mutant.path, "MUTANT_TEXT": str(text), "MUTANT_FAILED": str(failed)}
            for _ in range(_CONFIRM):
                code = _pytest(tests, TESTS_S, **there) if tests else 0
                if code == 0:
                    break
                if code == _NO_END:
                    return Fate("killed", "tests that did not end")
                if code != 1 or not failed.exists():
                    raise RuntimeError(f"pytest ends with {code}: remove .mutants/tests.json when tests were renamed")
                culprit = failed.read_text(encoding="utf-8")
                failed.unlink()
                if _pytest([culprit], TESTS_S, **there):
                    return Fate("killed", culprit)
                failed.unlink(missing_ok=True)
                tests = tests[tests.index(culprit) + 1 :] if culprit in tests else []
        return Fate("survived")

    async def _compiles(self, commands: Iterable[str]) -> bool:
        bus = await Connector.connect(self._server.url)
        try:
            for name in commands:
                await bus.teach(ENGINE.script(name))
        except EngineError:
            return False
        finally:
            await bus.close()
        return True

    async def _play(self, scenario: Scenario) -> tuple[str, float]:
        self._round += 1
        url = self._server.url
        try:
            async with asyncio.timeout(SCENARIO_S):
                bus = await Connector.connect(url)
                try:
                    result = await play(scenario, bus, url, f"mutant{self._round}", Minter(1000))
                finally:
                    await bus.close()
                await self._tidy()
        except (TimeoutError, EngineError) as error:
            self._server.close()
            self._server = _server()
            return f"no end, or a server that does not answer: {error!r}", SCENARIO_S
        return result.failure, result.seconds

    async def _tidy(self) -> None:
        bus = await Connector.connect(self._server.url)
        try:
            await bus.execute("FLUSHALL")
            await bus.execute("SCRIPT", "FLUSH")
        finally:
            await bus.close()


def _server() -> ValkeyServer:
    server = ValkeyServer().start()
    resource.prlimit(server.pid, resource.RLIMIT_AS, (_SERVER_BYTES, _SERVER_BYTES))
    return server


def _pytest(tests: Sequence[str], seconds: float, **environment: str) -> int:
    """pytest's exit code; `_NO_END` when it does not end in time."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as chosen:
        chosen.write("\n".join(tests))
        chosen.flush()
        command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [*command, "--timeout=60", *([] if "MUTANT_MAP" in environment else ["-x"]), f"@{chosen.name}"],
            cwd=ROOT,
            env={**{name: value for name, value in os.environ.items() if name[:7] != "PYTEST_"}, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return _NO_END
