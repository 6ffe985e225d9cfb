"""Writes the protocol as data files, so that a worker in another language needs no line of this engine.

The files are the Lua commands with their fragments expanded, the grammar of keys, vectors of ids and slots, the list of
scenarios, and the wire version. The same engine writes the same bytes. Numbers beyond 2**53 are decimal strings,
because not every language reads them as numbers.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from codemojex.engine import ids, keyspace
from codemojex.engine.errors import InvalidValue
from codemojex.engine.protocol import key_families
from codemojex.engine.protocol.conformance.table import SCENARIOS
from codemojex.engine.protocol.key_families import Family
from codemojex.engine.scripts import ENGINE

_IDS = (
    ("USR", 274557032793636864),
    ("USR", 320636799581945856),
    ("USR", 0),
    ("USR", ids.MAX_SNOWFLAKE),
    ("BRL", 323204464406196225),
    ("EVT", 209715201620567),
    ("JOB", 271644782957166592),
    ("JOB", 1),
    ("JOB", 61),
    ("JOB", 62),
    ("JOB", 3844),
    ("JOB", 12345678901234),
    ("JOB", 2**53 - 1),
)
_INVALID = (
    ("USR0KHTOWnGLu", "length"),
    ("USR0KHTOWnGLuCx", "length"),
    ("usr0KHTOWnGLuC", "namespace"),
    ("USR0KHTOWnGLu*", "charset"),
    ("USR0KHTOWnGL!C", "charset"),
    ("USRzzzzzzzzzzz", "range"),
)
_DERIVED = (("PRT", "lane 1"), ("CNV", "-1001:0"))
_SLOTS = ("123456789", "{emq}", "q1", "q7", "somekey", "user:1", keyspace.VERSION_KEY)
_REFUSALS = {
    "EMQKIND": "the id's namespace is not the one this command works on",
    "EMQSTALE": "the token is not the job's current one",
    "EMQSTATE": "the queue or job is not in the state that the command needs",
    "EMQLOCK": "a holder protects the job",
    "EMQRATE": "the queue's concurrency ceiling is reached",
}


def write(directory: Path, *, force: bool = False) -> list[Path]:
    """Write every file below `directory`, which is made if need be; the paths, sorted.

    Raises InvalidValue for a directory that holds anything, unless `force`: then files of the same names are replaced
    and the others stay.
    """
    if directory.exists() and not directory.is_dir():
        raise InvalidValue(f"{directory} is not a directory: choose another place to export to")
    if not force and directory.exists() and any(directory.iterdir()):
        raise InvalidValue(f"{directory} is not empty: choose another directory, or replace its files with --force")
    contents = files()
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return sorted(directory / name for name in contents)


def files() -> dict[str, bytes]:
    """Every file by its relative name. `protocol.json` names the wire version and the digests of the others."""
    contents = {f"commands/{name}.lua": ENGINE.script(name).source.encode() for name in ENGINE.names()}
    contents["commands.json"] = _json(commands())
    contents["fragments.json"] = _json(fragments())
    contents["keys.json"] = _json(keys())
    contents["ids.json"] = _json(id_vectors())
    contents["scenarios.json"] = _json([{"name": s.name, "rule": s.rule} for s in SCENARIOS])
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())}
    contents["protocol.json"] = _json({"wire": keyspace.WIRE_VERSION, "refusals": _REFUSALS, "files": digests})
    return contents


def commands() -> dict[str, Any]:
    """What each command takes, gives and refuses, and the digest that the server knows it by."""
    return {
        name: {
            "file": f"commands/{name}.lua",
            "sha1": script.sha,
            "does": script.summary,
            "keys": script.keys,
            "args": script.args,
            "returns": script.returns,
            "refuses": script.refuses,
        }
        for name in ENGINE.names()
        for script in [ENGINE.script(name)]
    }


def fragments() -> dict[str, Any]:
    """What the fragments inside the commands take and give: headers of commands refer to them."""
    return {
        fragment.name: {
            "does": fragment.summary,
            "keys": fragment.keys,
            "args": fragment.args,
            "returns": fragment.returns,
            "refuses": fragment.refuses,
        }
        for fragment in ENGINE.fragments()
    }


def keys() -> dict[str, Any]:
    """The grammar of keys, with vectors of the slot function."""
    return {
        "prefix": key_families.queue_prefix(),
        "names": keyspace.NAME_RULES,
        "reserved_queues": ["emq"],
        "queue": [_family(family) for family in key_families.QUEUE],
        "deployment": [_family(family) for family in key_families.DEPLOYMENT],
        "slots": {key: keyspace.slot(key) for key in _SLOTS},
    }


def id_vectors() -> dict[str, Any]:
    """How ids are made, valid and invalid ones with their parts, and derived ones."""
    valid = [(ids.encode(namespace, snowflake), snowflake) for namespace, snowflake in _IDS]
    return {
        "epoch_ms": ids.EPOCH_MS,
        "alphabet": ids.ALPHABET,
        "bits": {"timestamp_ms": 41, "node": 10, "sequence": 12},
        "last_payload": ids.base62(ids.MAX_SNOWFLAKE),
        "leased_nodes": {"first": ids.LEASED_NODES.start, "count": len(ids.LEASED_NODES)},
        "valid": [{"id": branded, "snowflake": str(number), **_parts(branded)} for branded, number in valid],
        "invalid": [{"id": branded, "reason": reason} for branded, reason in _INVALID],
        "derived": [{"namespace": n, "name": name, "id": ids.derive(n, name)} for n, name in _DERIVED],
    }


def _parts(branded: str) -> dict[str, Any]:
    parsed = ids.parse(branded)
    return {
        "namespace": parsed.namespace,
        "unix_ms": parsed.unix_ms,
        "node": parsed.node,
        "seq": parsed.seq,
        "placement": ids.placement(branded),
        "stream_id": parsed.stream_id,
    }


def _family(family: Family) -> dict[str, Any]:
    return {
        "pattern": family.pattern,
        "type": family.type,
        "content": family.content.replace("`", "'"),
        "life": family.life,
        "ours": family.ours,
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
