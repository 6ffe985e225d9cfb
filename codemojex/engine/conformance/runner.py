"""Runs scenarios one after the other, each on a queue of its own, and says which of them held.

A scenario that fails or hangs is reported and the next one runs. Its keys go in every case, and no others.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from codemojex.engine.connector import Connector
from codemojex.engine.errors import InvalidValue
from codemojex.engine.ids import Minter
from codemojex.engine.nodes import NodeLease

from .stage import Stage

Body = Callable[[Stage], Awaitable[None]]
TIMEOUT_S = 60.0
_CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A rule of the protocol with the exercise that proves it."""

    name: str
    body: Body

    @property
    def rule(self) -> str:
        """The rule in one sentence: the exercise's docstring."""
        return " ".join((self.body.__doc__ or "").split())


@dataclass(frozen=True, slots=True)
class Result:
    """How one scenario went; `failure` is empty when it held."""

    name: str
    seconds: float
    failure: str = ""


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


async def run(url: str, scenarios: Sequence[Scenario], *, base: str | None = None) -> AsyncGenerator[Result]:
    """Run `scenarios` in order against the server at `url`; a result each as soon as it is known.

    Queues are named `<base>.<scenario>`; without `base` it is a random name. Raises the engine's errors when the
    server cannot be reached at all.
    """
    base = base or f"conformance-{secrets.token_hex(4)}"
    bus = await Connector.connect(url)
    try:
        async with NodeLease(bus) as lease:
            for scenario in scenarios:
                yield await play(scenario, bus, url, base, lease.minter)
    finally:
        await bus.close()


async def play(scenario: Scenario, bus: Connector, url: str, base: str, mint: Minter) -> Result:
    """Run one scenario and purge its keys."""
    stage = Stage(bus, url, f"{base}.{scenario.name}", mint)
    before = time.monotonic()
    failure = ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await scenario.body(stage)
    except TimeoutError:
        failure = f"no end within {TIMEOUT_S:g} s"
    except Exception as error:  # whatever it is, the scenario did not hold
        failure = _sentence(error)
    seconds = time.monotonic() - before
    try:
        async with asyncio.timeout(_CLOSE_S):
            await stage.close()
    except Exception as error:  # keys that stay are a failure of the run
        failure = failure or f"at its end: {_sentence(error)}"
    return Result(scenario.name, seconds, failure)


def _sentence(error: BaseException) -> str:
    while inner := cast("tuple[BaseException, ...]", getattr(error, "exceptions", ())):
        error = inner[0]
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{kind}{error}" or type(error).__name__
