"""Tries mutants: the scenarios of the conformance table first, the engine's tests for what survives them.

Only who runs the changed line is asked, and who has killed mutants of the same file is asked first. A mutant is killed
when a scenario or test fails, twice, so that a hiccup of the machine kills nothing. A scenario that does not end in its
time counts as a failure, and the server it may have left busy is replaced.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from codemojex.engine.errors import EngineError
from codemojex.engine.ids import Minter
from codemojex.engine.protocol.conformance.runner import Scenario, play
from codemojex.engine.protocol.conformance.table import SCENARIOS
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector
from tests.mutants.mutations import Mutant
from tests.mutants.override import original, override, paths, sources
from tests.mutants.probes import Lines, Trail, probed, statements
from tests.mutants.suite import NO_END, STORIES, Suite, learn_tests
from tests.support.valkey import ValkeyServer

SCENARIO_S = 5.0
PATIENCE_S = 120.0
_SLOW_S, _PATIENT = 0.2, 3  # a scenario that takes longer has so many times the time: a busy machine kills nobody
_CONFIRM = 3  # tests that fail once and hold the second time, at most, before the mutant counts as a survivor
_SERVER_BYTES = 2 << 30  # a loop without an end must not take the machine's memory
NOBODY = "no scenario and no test runs this line"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant, and by whom.

    `killed`, `survived`, `invalid` (no Lua), `waits` (no scenario noticed it, the tests have yet to run) or
    `undecided` (the tests that held took all the time that a mutant has).
    """

    end: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A scenario or test without any mutant: how long it takes, and the lines that it runs."""

    seconds: float
    lines: Lines


class Hunter:
    """Tries mutants against servers of its own. `learn` first, `close` in the end.

    `kills` says who has killed how many mutants of a file before: path -> name -> number. `patience_s` is how long the
    tests of one mutant may take.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario] = SCENARIOS,
        tests: Mapping[str, Seen] = MappingProxyType({}),
        kills: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._scenarios = {scenario.name: scenario for scenario in scenarios}
        self._server = _server()
        self._seen: dict[str, Seen] = {}
        self._tests = dict(tests)
        self._suite: Suite | None = None
        self._kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for path, some in kills.items():
            self._kills[path].update(some)
        self._round = 0

    def close(self) -> None:
        """End the processes."""
        self._server.close()
        if self._suite:
            self._suite.close()

    async def learn(self) -> None:
        """Run every scenario once, unchanged. Raises RuntimeError when one fails."""
        trail = Trail(self._server.directory / "log")
        with override({path: probed(path, original(path)) for path in paths()}):
            for scenario in self._scenarios.values():
                failure, seconds = await self._play(scenario, 12 * SCENARIO_S)
                if failure:
                    raise RuntimeError(f"the scenario {scenario.name} fails without any mutant: {failure}")
                self._seen[scenario.name] = Seen(seconds, trail.lines())

    def learn_tests(self, place: Path) -> None:
        """What the engine's tests run; those that fail without any mutant are not asked. `place`: where it is kept."""
        self._tests = {name: Seen(seconds, lines) for name, (seconds, lines) in learn_tests(place).items()}

    async def scenarios_against(self, mutant: Mutant) -> Fate:
        """Run the scenarios that run the changed line, until one fails."""
        before = sources()
        with override({mutant.path: mutant.text(original(mutant.path))}):
            if not await self._compiles(name for name, source in sources().items() if source != before[name]):
                return Fate("invalid")
            for name in self._who(mutant, self._seen):
                scenario = self._scenarios[name]
                limit_s = SCENARIO_S * (_PATIENT if self._seen[name].seconds > _SLOW_S else 1)
                if (await self._play(scenario, limit_s))[0] and (await self._play(scenario, limit_s))[0]:
                    return self._killed(mutant, name)
        return Fate("waits")

    def tests_against(self, mutant: Mutant) -> Fate:
        """Run the engine's tests that run the changed line, until one fails."""
        tests = self._who(mutant, self._tests)
        if not tests:
            return Fate("survived", "" if self._who(mutant, self._seen) else NOBODY)
        self._suite = self._suite or Suite(sorted({test.partition("::")[0] for test in self._tests}))
        text = mutant.text(original(mutant.path))
        for _ in range(_CONFIRM):
            culprit = self._suite.first_failure(mutant.path, text, tests, self._patience_s)
            if culprit == NO_END:
                return Fate("undecided")
            if culprit and self._suite.first_failure(mutant.path, text, [culprit], self._patience_s):
                return self._killed(mutant, culprit)
            tests = tests[tests.index(culprit) + 1 :] if culprit else []
            if not tests:
                break
        return Fate("survived")

    def _who(self, mutant: Mutant, seen: Mapping[str, Seen]) -> list[str]:
        """Who runs the changed line: who killed mutants of this file first, then the model, then the quickest first."""
        place, kills = (mutant.path, statements(original(mutant.path))[mutant.line]), self._kills[mutant.path]
        mine = [name for name, one in seen.items() if place in one.lines]
        return sorted(mine, key=lambda name: (-kills[name], STORIES not in name, seen[name].seconds))

    def _killed(self, mutant: Mutant, by: str) -> Fate:
        self._kills[mutant.path][by] += 1
        return Fate("killed", by)

    async def _compiles(self, commands: Iterable[str]) -> bool:
        bus = await Connector.connect(self._server.url)
        try:
            await bus.execute("SCRIPT", "FLUSH")  # of earlier mutants
            for name in commands:
                await bus.teach(ENGINE.script(name))
        except EngineError:
            return False
        finally:
            await bus.close()
        return True

    async def _play(self, scenario: Scenario, limit_s: float) -> tuple[str, float]:
        self._round += 1
        url = self._server.url
        try:
            async with asyncio.timeout(limit_s):
                bus = await Connector.connect(url)
                try:
                    result = await play(scenario, bus, url, f"mutant{self._round}", Minter(1000))
                    await bus.execute("FLUSHALL")
                finally:
                    await bus.close()
        except (TimeoutError, EngineError) as error:
            self._server.close()
            self._server = _server()
            return f"no end, or a server that does not answer: {error!r}", limit_s
        return result.failure, result.seconds


def _server() -> ValkeyServer:
    server = ValkeyServer().start()
    resource.prlimit(server.pid, resource.RLIMIT_AS, (_SERVER_BYTES, _SERVER_BYTES))
    return server
