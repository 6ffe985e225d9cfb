"""Runs scenarios one after the other, each on a queue of its own, and says which of them held.

A scenario that fails or hangs is reported and the next one runs. Its keys go in every case, and no others. What cannot
be judged next to other clients, or would harm them, is skipped with a reason.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from codemojex.engine.errors import InvalidValue
from codemojex.engine.ids import Minter
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.protocol.conformance.fixture import ScenarioFixture
from codemojex.engine.protocol.conformance.neighbours import look, named
from codemojex.engine.transport.connector import Connector

Body = Callable[[ScenarioFixture], Awaitable[None]]
TIMEOUT_S = 60.0
_CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A rule of the protocol with the exercise that proves it.

    `quiet`: it counts the commands of the whole server, so others make it fail. `flushes`: it empties the server's
    cache of scripts, which is everybody's.
    """

    name: str
    body: Body
    quiet: bool = False
    flushes: bool = False

    @property
    def rule(self) -> str:
        """The rule in one sentence: the exercise's docstring."""
        return " ".join((self.body.__doc__ or "").split())


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """How one scenario went; it held when `failure` and `skipped` are empty, and these say why it did not."""

    name: str
    seconds: float
    failure: str = ""
    skipped: str = ""


def choose(scenarios: Sequence[Scenario], only: str | None) -> Sequence[Scenario]:
    """The scenarios named `only`, comma-separated; a trailing `*` stands for any ending. All for None.

    Raises InvalidValue for a name that no scenario has.
    """
    if only is None:
        return scenarios
    chosen: set[str] = set()
    for name in (part.strip() for part in only.split(",")):
        found = {s.name for s in scenarios if s.name == name or (name.endswith("*") and s.name.startswith(name[:-1]))}
        if not found:
            raise InvalidValue(f"there is no scenario {name!r}: leave the option out to run and see all")
        chosen |= found
    return [s for s in scenarios if s.name in chosen]


async def run(
    url: str, scenarios: Sequence[Scenario], *, base: str | None = None, flush: bool = False
) -> AsyncGenerator[ScenarioResult]:
    """Run `scenarios` in order against the server at `url`; a result each as soon as it is known.

    With `flush` scripts are flushed although other clients are connected. Queues are named `<base>.<scenario>`; without
    `base` it is a random name. Raises the engine's errors when the server cannot be reached at all.
    """
    base = base or f"conformance-{secrets.token_hex(4)}"
    bus = await Connector.connect(named(url, base))
    try:
        async with NodeLease(bus) as lease:
            for scenario in scenarios:
                yield await play(scenario, bus, url, base, lease.minter, flush=flush)
    finally:
        await bus.close()


async def play(
    scenario: Scenario, bus: Connector, url: str, base: str, mint: Minter, *, flush: bool = False
) -> ScenarioResult:
    """Run one scenario and purge its keys. The sockets of `bus` must have names that begin with `base`."""
    stage = ScenarioFixture(bus, url, f"{base}.{scenario.name}", mint)
    before = time.monotonic()
    failure = skipped = ""
    neighbours = None
    if scenario.quiet or scenario.flushes:
        neighbours = await look(bus, stage.space.prefix, base)
        if scenario.flushes and neighbours.commands and not flush:
            reason = f"it flushes the server's scripts, and {len(neighbours.commands)} other clients are connected"
            return ScenarioResult(scenario.name, 0.0, skipped=f"{reason}: allow it with --flush-scripts")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await scenario.body(stage)
    except TimeoutError:
        failure = f"no end within {TIMEOUT_S:g} s"
    except Exception as error:  # whatever it is, the scenario did not hold
        failure = _sentence(error)
    seconds = time.monotonic() - before
    if failure and scenario.quiet and neighbours is not None:
        noise = (await look(bus, stage.space.prefix, base)).since(neighbours)
        failure, skipped = ("", f"it counts the commands of the whole server, and {noise}") if noise else (failure, "")
    try:
        async with asyncio.timeout(_CLOSE_S):
            await stage.close()
    except Exception as error:  # keys that stay are a failure of the run
        failure = failure or f"at its end: {_sentence(error)}"
    return ScenarioResult(scenario.name, seconds, failure, "" if failure else skipped)


def _sentence(error: BaseException) -> str:
    while inner := cast("tuple[BaseException, ...]", getattr(error, "exceptions", ())):
        error = inner[0]
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{kind}{error}" or type(error).__name__
