"""The examples of the documentation run as they stand there, in order, against a real server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.support.pages import blocks, run

PAGE = ROOT / "docs/how-to/use-the-engine.md"


@pytest.mark.timeout(60)
async def test_the_examples_of_the_page_run_in_order(valkey_url: str) -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"), "python")
    assert len(found) >= 7
    space: dict[str, Any] = {"URL": valkey_url, "__name__": "example"}
    for block in found:
        await run(block, PAGE, space)


def test_every_subject_has_an_example() -> None:
    text = "".join(block.text for block in blocks(PAGE.read_text(encoding="utf-8"), "python"))
    names = "enqueue Worker @task EffectBody BatchWorker set_lane_rate FaultyConnector fresh_queue"
    for name in names.split():
        assert name in text, f"{PAGE.name} shows no {name}"
