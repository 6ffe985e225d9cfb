"""Makes the reference pages of Lua commands, keys and the API from their sources.

`python -m codemojex.engine.protocol.reference` writes them below `docs/reference`; a test compares, so a page that
differs from its source is red. The pages are generated, never edited.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from codemojex.engine.protocol import key_families
from codemojex.engine.protocol.api_reference import engine_api
from codemojex.engine.protocol.key_families import Family
from codemojex.engine.scripts import ENGINE, Fragment, Script

_COMMAND = "`python -m codemojex.engine.protocol.reference`"


def pages() -> dict[str, str]:
    """The text of every page by its file name."""
    return {"lua-commands.md": lua_commands(), "keys.md": keys(), "engine-api.md": engine_api()}


def lua_commands() -> str:
    """The page of commands: what each takes, gives and refuses, from the headers of the Lua files."""
    lines = [
        "# Lua commands of the engine",
        "",
        f"Made from the headers in `codemojex/engine/lua/` by {_COMMAND}; not to be edited.",
        "Each command is one script and so one step: nobody sees half of it. `P` is the queue's prefix.",
        "",
    ]
    lines += [" · ".join(f"[{name}](#{name})" for name in ENGINE.names()), ""]
    for name in ENGINE.names():
        lines += _header(name, ENGINE.script(name))
    lines += ["# Fragments", "", "Shared text inside the commands, which their headers refer to.", ""]
    for fragment in ENGINE.fragments():
        lines += _header(f"include {fragment.name}", fragment)
    return "\n".join(lines)


def _header(name: str, header: Script | Fragment) -> list[str]:
    rows = (
        ("keys", header.keys),
        ("arguments", header.args),
        ("returns", header.returns),
        ("refuses", header.refuses),
    )
    lines = [f"## {name}", "", _sentence(header.summary), "", "| | |", "|---|---|"]
    return [*lines, *(f"| {title} | {_cell(text)} |" for title, text in rows), ""]


def keys() -> str:
    """The page of keys, from the table of families."""
    lines = [
        "# Keys",
        "",
        f"Made from `codemojex/engine/protocol/key_families.py` by {_COMMAND}; not to be edited. What is marked",
        "as ours is no part of the shared protocol: a peer in another language leaves it alone.",
        "",
        "## Of a queue",
        "",
        f"Each begins with `{key_families.queue_prefix()}`, so all of a queue share one slot.",
        "",
        *_table(key_families.QUEUE),
        "## Of the whole server",
        "",
        *_table(key_families.DEPLOYMENT),
        "## Of a near-cache table",
        "",
        f"Each begins with `{key_families.cache_prefix()}`.",
        "",
        *_table(key_families.CACHE),
    ]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Write the pages into `directory`."""
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")


def _table(rows: Sequence[Family]) -> list[str]:
    lines = ["| key | type | holds | lives | |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.pattern}` | {row.type} | {_cell(row.content)} | {row.life} | {'ours' if row.ours else ''} |"
        for row in rows
    ]
    return [*lines, ""]


def _cell(text: str) -> str:
    """Text for a table's cell: names in angle brackets stay visible, bars do not end the cell."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else re.sub(r"<([^>]*)>", r"`<\1>`", part) for part in parts)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{_cell(text[1:])}."


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
