"""The examples of the documentation run as they stand there, in order, against a real server."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs/how-to/use-the-engine.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[int, str]]:
    """The first line and the text of every Python block."""
    text = PAGE.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)), found.group(1)) for found in _BLOCK.finditer(text)]


@pytest.mark.timeout(60)
async def test_the_examples_of_the_page_run_in_order(valkey_url: str) -> None:
    found = blocks()
    assert len(found) >= 7
    space: dict[str, Any] = {"URL": valkey_url, "__name__": "example"}
    for line, text in found:
        # Positions as in the page, so that a failure names its line.
        code = compile("\n" * line + text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waiting = eval(code, space)
        if inspect.iscoroutine(waiting):
            await waiting


def test_every_subject_has_an_example() -> None:
    text = "".join(block for _, block in blocks())
    for name in ("enqueue", "Worker", "EffectBody", "BatchWorker", "set_lane_rate", "FaultyConnector", "fresh_queue"):
        assert name in text, f"{PAGE.name} shows no {name}"
