"""Any order of any verbs, from several clients: the server holds exactly what the plain model says, after every step.

The model and the stories are in `model`. 200 stories of 60 steps for the queues and as many for what lies beside them;
they are the same in every run, and reach every Lua command and every public verb. `make soak` tells others, by
`random_stories`.
"""

from __future__ import annotations

import pytest

from codemojex.engine.scripts import ENGINE
from tests.engine.model.telling import tell
from tests.engine.verbs import public_verbs

STORIES, STEPS = 200, 60
PARTS = {"queues": 2, "sides": 1}
SPARE = 2  # Hypothesis ends one story in a thousand early

# What belongs to the machine of sides; a command or verb that is new belongs to the queues until it is named here.
SIDES = {
    "commands": ("cache_", "node_", "stream_"),
    "verbs": ("consumer_commands.", "consumer.", "retention.", "streams."),
}
# What no story reaches, and why.
UNREACHED = {
    "flow_lost": "no end of a child is lost without a pump of another make",
    "peer_visit": "it changes nothing where no other engine works",
}


def of(machine: str, kind: str) -> set[str]:
    """The Lua commands or the public verbs that a machine must reach."""
    everything = set(ENGINE.names()) if kind == "commands" else public_verbs()
    beside = {name for name in everything if name.startswith(SIDES[kind])}
    return (beside if machine == "sides" else everything - beside) - UNREACHED.keys()


@pytest.mark.parametrize(("machine", "part"), [(name, part) for name, n in PARTS.items() for part in range(n)])
@pytest.mark.timeout(400)
def test_the_server_holds_what_a_plain_model_says_whatever_the_order(valkey_url: str, machine: str, part: int) -> None:
    stories = STORIES // PARTS[machine]
    told = tell(valkey_url, stories + SPARE, STEPS, part, machine)
    assert told.steps.count(STEPS) >= stories, "stories were cut short"
    assert of(machine, "commands") <= told.commands, "the stories do not reach some Lua command: give the model a rule"
    assert of(machine, "verbs") <= told.verbs, "the stories do not reach some public verb: give the model a rule"


def test_what_no_story_reaches_exists() -> None:
    assert UNREACHED.keys() <= {*ENGINE.names(), *public_verbs()}
