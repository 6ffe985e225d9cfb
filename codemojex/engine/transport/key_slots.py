"""Which key a command is about, for those who must know where it lives.

Every command of the engine touches one hash tag, so its first key decides. A command that this module does not know
has its key in the first place. Nothing is checked here: a command that spans slots is refused by the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from codemojex.engine import keyspace

_KEYLESS = """
ACL BGREWRITEAOF BGSAVE CLIENT CLUSTER COMMAND CONFIG DBSIZE DEBUG ECHO FAILOVER FLUSHALL FLUSHDB FUNCTION HELLO INFO
KEYS LASTSAVE LATENCY PING PUBSUB RANDOMKEY REPLICAOF ROLE SAVE SCRIPT SHUTDOWN SLOWLOG TIME WAIT WAITAOF
"""
_BEHIND_A_COUNT = "LMPOP ZMPOP SINTERCARD ZINTERCARD ZINTER ZUNION ZDIFF"
_BEHIND_TWO = "EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO BLMPOP BZMPOP"  # the second is the count
_BEHIND_A_WORD = "MEMORY OBJECT XGROUP XINFO"
_PLACES: dict[str, int] = (
    dict[str, int]()
    | dict.fromkeys(_KEYLESS.split(), 0)
    | dict.fromkeys(_BEHIND_A_COUNT.split(), 2)
    | dict.fromkeys(_BEHIND_A_WORD.split(), 2)
    | dict.fromkeys(_BEHIND_TWO.split(), 3)
)


def slot(command: Sequence[object]) -> int | None:
    """The slot of the command's key; None when it has none."""
    name = _text(command[0]).upper()
    place = _PLACES.get(name, 1)
    if name in ("XREAD", "XREADGROUP"):
        place = _after(command, "STREAMS", 4 if name == "XREADGROUP" else 1)  # a group may have that name
    elif name == "SCAN":  # all keys of a tag live together, so a pattern with a tag has one place
        place = _after(command, "MATCH", 2)
        place = place if place and "{" in _text(command[place]) else 0
    elif place > 1 and _text(command[place - 1]) == "0":  # a count of no keys
        place = 0
    return keyspace.slot(_text(command[place])) if 0 < place < len(command) else None


def _after(command: Sequence[object], word: str, start: int) -> int:
    return next((i + 1 for i in range(start, len(command)) if _text(command[i]).upper() == word), 0)


def _text(part: object) -> str:
    return part.decode(errors="surrogateescape") if isinstance(part, bytes) else str(part)
