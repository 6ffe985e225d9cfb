"""Tells random stories of a machine against a server, and says which verbs and commands they reached.

The same seed tells the same stories. Without `shrink` a story that fails is printed as it was told; with it Hypothesis
looks for the shortest one that fails, which takes a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import run_state_machine_as_test

from codemojex.engine import keyspace
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector
from tests.engine.model.machine.both import QUEUES
from tests.engine.model.machine.queues import Queues
from tests.engine.model.machine.sides import Sides
from tests.engine.model.machine.story import CLIENTS, DUMP, Story
from tests.engine.model.plain.effects import BODIES
from tests.engine.model.wire import Wire, run

DATABASE = 9
MACHINES: dict[str, type[Story]] = {"queues": Queues, "sides": Sides}


class Anew(HypothesisProvider):
    """Hypothesis' own choices, made anew for each story: no five copies of one with some piece of it repeated."""


AVAILABLE_PROVIDERS["anew"] = f"{__name__}.Anew"


@dataclass(frozen=True)
class Told:
    """What a run was: the steps of each story, the verbs it called, the Lua commands that the server ran."""

    steps: list[int] = field(default_factory=list)
    verbs: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)


def tell(
    url: str,
    stories: int = 200,
    steps: int = 60,
    seed_: int = 0,
    machine: str = "queues",
    *,
    shrink: bool = False,
) -> Told:
    """Tell so many stories of so many steps. Raises where server and model differ.

    `url`: a server (`unix://…`, `valkey://host:port`) whose database 9 is emptied before each story. `machine`:
    `queues`, or `sides` for streams, near-cache entries and node numbers. No event loop may run in this thread.
    """
    told = Told()
    wires = [Wire(url, DATABASE) for _ in range(CLIENTS)]

    class Here(MACHINES[machine]):  # type: ignore[misc]
        pass

    Here.wires, Here.verbs, Here.steps = wires, told.verbs, told.steps
    Here.__qualname__ = Here.__name__ = MACHINES[machine].__name__
    try:
        wires[0].listen(*(keyspace.of(name).events() for name in QUEUES))
        # A verb that has to teach its script first would make one call more than its model.
        for script in (*map(ENGINE.script, ENGINE.names()), ENGINE.script("settle", BODIES)):
            run(Connector(wires[0]).teach(script))
        wires[0].now("SCRIPT", "LOAD", DUMP)
        run_state_machine_as_test(
            seed(seed_)(Here),
            settings=settings(
                max_examples=stories,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
                backend="anew",
                phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
                report_multiple_bugs=False,
            ),
        )
    finally:
        for wire in wires:
            told.commands.update(_names(wire))
            wire.close_now()
    return told


def _names(wire: Wire) -> set[str]:
    digests = {ENGINE.script(name).sha: name for name in ENGINE.names()}
    digests[ENGINE.script("settle", BODIES).sha] = "settle"
    return {digests[sha] for sha in wire.scripts if sha in digests}
