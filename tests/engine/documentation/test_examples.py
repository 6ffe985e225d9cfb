"""The examples of the documentation run as they stand there, in order, against a real server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.engine.pictures import pages
from tests.support.pages import blocks, run

PAGE = ROOT / "docs/how-to/use-the-engine.md"
ELSEWHERE = {"docs/explanation/local-telegram.md"}  # in tests/local_telegram/test_example.py
# However a page fences it: indented, or under another name.
_PYTHON = re.compile(r"^[ >]*(?:```|~~~) *\{?(?:python|py)", re.MULTILINE | re.IGNORECASE)


@pytest.mark.timeout(60)
async def test_the_examples_of_the_page_run_in_order(valkey_url: str) -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"), "python")
    assert len(found) >= 7
    space: dict[str, Any] = {"URL": valkey_url, "__name__": "example"}
    for block in found:
        await run(block, PAGE, space)


def test_every_page_with_python_is_run_by_a_test() -> None:
    found = {
        page.relative_to(ROOT).as_posix(): len(_PYTHON.findall(page.read_text(encoding="utf-8")))
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    }
    run_here = {page.relative_to(ROOT).as_posix() for page in (PAGE, *pages())}
    assert {page for page, count in found.items() if count} == run_here | ELSEWHERE
    seen = {page: len(blocks((ROOT / page).read_text(encoding="utf-8"), "python")) for page in run_here | ELSEWHERE}
    assert seen == {page: found[page] for page in seen}, "a fence that the tests do not see"


def test_every_subject_has_an_example() -> None:
    text = "".join(block.text for block in blocks(PAGE.read_text(encoding="utf-8"), "python"))
    names = "enqueue Worker @task EffectBody BatchWorker set_lane_rate FaultyConnector fresh_queue"
    for name in names.split():
        assert name in text, f"{PAGE.name} shows no {name}"
