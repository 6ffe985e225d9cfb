"""What the stories' effects do, in Lua for the server and in Python for the model.

An effect runs behind the fence and before anything of the settlement is written. `follow` admits the next job and
appends an event; `refuse` and `fail` leave their job as it was.
"""

from __future__ import annotations

from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import NewJob
from tests.engine.model.plain.admission import admit
from tests.engine.model.plain.state import Queue

GAME = "GAM00000000001"
BODIES = (
    EffectBody("note", "return redis.call('HINCRBY', KEYS[1], ARGV[1], 2)"),
    EffectBody(
        "follow",
        "local code = admit_one(KEYS[1], now, { id = ARGV[1], payload = 'next' })\n"
        f"append_events({{ KEYS[2] }}, 1010, KEYS[3], 'next', '{GAME}', ARGV[1])\n"
        "return code",
    ),
    EffectBody("refuse", "return redis.error_reply('NO not today')"),
    EffectBody("fail", "local nothing\nreturn nothing.at_all"),
)


def apply(q: Queue, effect: Effect) -> tuple[bool, object]:
    """Whether it went well, and its reply."""
    match effect.name:
        case "note":
            q.notes[str(effect.args[0])] += 2
            return True, q.notes[str(effect.args[0])]
        case "follow":
            code, _ = admit(q, NewJob(str(effect.args[0]), b"next"))
            q.events.append(str(effect.args[0]))
            q.live("stream:cell", 86_400_000)
            return True, code.encode()
    return False, None
