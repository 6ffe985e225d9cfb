"""The explanation pages tell what happens: their code runs, and their pictures show the keys as the server has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codemojex.engine.protocol.key_families import QUEUE
from tests.engine.pictures import develop, differs, pages
from tests.support.pages import blocks

# No verb of the engine leaves these: reserved, a channel, of scripts that mint, and of entries that nobody can read.
NOT_SHOWN = {"metrics:completed:data", "metrics:failed:data", "events", "stream:cell", "flow:rejected", "tended"}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
async def test_every_picture_shows_the_keys_as_they_are(page: Path, valkey_url: str) -> None:
    text = page.read_text(encoding="utf-8")
    stale = differs(text, await develop(page, valkey_url))
    assert not stale, f"{page.name} should show (python -m tests.engine.pictures --write):\n" + "\n".join(stale)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_shows_the_keys_before_and_after(page: Path) -> None:
    assert len(blocks(page.read_text(encoding="utf-8"), "keys")) >= 2, f"{page.name} has a single picture"


def test_every_family_of_keys_is_seen_in_a_picture() -> None:
    shown = [
        line
        for page in pages()
        for block in blocks(page.read_text("utf-8"), "keys")
        for line in block.text.splitlines()
    ]
    names = {
        line.split()[0].partition("}:")[2] for line in shown if line.startswith("emq:") and "–" not in line.split()
    }
    unseen = {
        family.pattern
        for family in QUEUE
        if not any(re.fullmatch(re.sub(r"<[^>]*>", ".+", family.pattern), name) for name in names)
    }
    assert unseen == NOT_SHOWN


def test_a_stale_picture_is_noticed() -> None:
    shown = "```keys\na  string  1  (until T+30s)\n```\n"
    assert not differs(shown, shown.replace("T+30s", "T+31s"))
    assert differs(shown, shown.replace("T+30s", "T+5min"))
    assert differs(shown, shown.replace("  1", "  2"))
