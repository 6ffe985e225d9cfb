"""The pages about playing and about Telegram name what there is."""

from __future__ import annotations

from pathlib import Path

from codemojex.bot.telegram import menu
from codemojex.bot.telegram.errors import TelegramFault

DOCS = Path(__file__).parents[2] / "docs"


def test_every_command_of_the_menu_is_explained() -> None:
    page = (DOCS / "how-to" / "play.md").read_text()
    assert [name for name in {*menu.PRIVATE, *menu.GROUP} if f"| `/{name}` |" not in page] == []


def test_every_fault_has_its_consequence_written_down() -> None:
    table = (DOCS / "explanation" / "telegram.md").read_text()
    assert [fault for fault in TelegramFault if f"`{fault}`" not in table] == []
