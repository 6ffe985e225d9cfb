"""The exported files say everything that a worker in another language needs, and say it the same each time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from codemojex.engine import keyspace
from codemojex.engine.errors import InvalidValue
from codemojex.engine.protocol import export, reference
from codemojex.engine.protocol.conformance.table import SCENARIOS
from codemojex.engine.scripts import ENGINE
from tests.architecture.sources import ROOT
from tests.engine.bench import Bench

VECTORS = ROOT / "tests/vectors/branded_ids.json"


def test_two_exports_are_equal_byte_for_byte(tmp_path: Path) -> None:
    export.write(tmp_path / "a")
    export.write(tmp_path / "b")
    first, second = (
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "a", tmp_path / "b")
    )
    assert first == second == export.files()


def test_a_directory_that_holds_anything_is_refused_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidValue, match="--force"):
        export.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    export.write(tmp_path, force=True)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert json.loads((tmp_path / "protocol.json").read_bytes())["wire"] == keyspace.WIRE_VERSION


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidValue, match="not a directory"):
        export.write(tmp_path / "file", force=True)


async def test_the_server_knows_every_exported_command_by_its_digest(bench: Bench) -> None:
    files = export.files()
    commands = json.loads(files["commands.json"])
    assert list(commands) == ENGINE.names()
    for command in commands.values():
        source = files[command["file"]]
        assert b"--- Include:" not in source
        assert (await bench.bus.execute("SCRIPT", "LOAD", source)).decode() == command["sha1"]
        assert all(command[part] for part in ("does", "keys", "args", "returns", "refuses"))


def test_the_manifest_holds_the_digest_of_every_other_file() -> None:
    files = export.files()
    manifest = json.loads(files.pop("protocol.json"))
    assert manifest["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def test_exported_vectors_agree_with_those_that_the_engine_is_tested_by() -> None:
    known = json.loads(VECTORS.read_text())
    exported = json.loads(export.files()["ids.json"])
    assert (exported["epoch_ms"], exported["alphabet"]) == (known["epoch_ms"], known["alphabet"])
    ours = {vector["id"]: vector for vector in exported["valid"]}
    shared = [vector for vector in known["valid"] if vector["id"] in ours]
    assert len(shared) >= 6
    for vector in shared:
        assert {**vector, "snowflake": str(vector["snowflake"])}.items() <= ours[vector["id"]].items()
    refused = {vector["id"]: vector["reason"] for vector in exported["invalid"]}
    assert refused["USRzzzzzzzzzzz"] == "range"
    assert refused["usr0KHTOWnGLuC"] == "namespace"


def test_the_grammar_of_keys_names_prefix_and_slots() -> None:
    keys = json.loads(export.files()["keys.json"])
    assert keys["prefix"] == "emq:{<queue>}:"
    assert (keys["slots"]["123456789"], keys["slots"]["q1"], keys["slots"]["{emq}"]) == (12739, 7450, 9051)
    patterns = {family["pattern"]: family["type"] for family in keys["queue"]}
    assert patterns["job:<id>"] == "hash"
    assert patterns["g:<lane>:pending"] == "zset"
    assert patterns["ring"] == "list"


def test_the_exported_scenarios_are_those_that_run() -> None:
    scenarios = json.loads(export.files()["scenarios.json"])
    assert [(s["name"], s["rule"]) for s in scenarios] == [(s.name, s.rule) for s in SCENARIOS]


@pytest.mark.parametrize("page", reference.pages())
def test_a_reference_page_is_what_its_source_says(page: str) -> None:
    kept = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    assert kept == reference.pages()[page], (
        f"docs/reference/{page} is stale: run python -m codemojex.engine.protocol.reference"
    )
