"""Every event that the engine tells stands in the reference, and the reference names no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from codemojex.engine.telemetry.telemetry import EVENTS
from tests.architecture.sources import ROOT, sources

PAGE = (ROOT / "docs/reference/engine-events.md").read_text(encoding="utf-8")
FAMILIES = ("batch", "cache", "connector", "group", "node", "pump", "retention", "worker")


def told() -> set[str]:
    return {
        name
        for path, text in sources(".py", under="codemojex/engine/")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for name in names(path.stem, node)
    }


def names(module: str, call: ast.Call) -> Iterator[str]:
    """The names that a call may tell; a group's reader adds its family itself."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    family = "group." if (module, function) == ("consumer", "_tell") else ""
    if call.args and (family or function in ("_observe", "observe")):
        for node in ast.walk(call.args[0]):
            name = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if name not in ("", "group.") and (family or "." in name):
                yield family + name


def test_every_event_that_is_told_is_listed_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \|", PAGE, re.MULTILINE)
    listed = [name for name in rows if name.split(".")[0] in FAMILIES]
    assert len(listed) == len(set(listed))
    assert set(listed) == told()


def test_every_event_belongs_to_a_known_family() -> None:
    assert {name.split(".")[0] for name in told()} == set(FAMILIES)


def test_every_telemetry_event_is_listed() -> None:
    assert set(re.findall(r"^\| `(emq\.[a-z_.]+)` \|", PAGE, re.MULTILINE)) == set(EVENTS)
