"""Fenced blocks of documentation pages: found with their place, and run one after the other as at a prompt."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """What stands between two fences. `kind` and `options` are the opening fence's words.

    `line` is the number of lines before the text, `span` where the text stands in the page.
    """

    kind: str
    options: tuple[str, ...]
    text: str
    line: int
    span: tuple[int, int]


def blocks(text: str, *kinds: str) -> list[Block]:
    """The page's blocks of these kinds, in order."""
    return [
        Block(found[1], tuple(found[2].split()), found[3], text.count("\n", 0, found.start(3)), found.span(3))
        for found in _BLOCK.finditer(text)
        if found[1] in kinds
    ]


async def run(block: Block, page: Path, space: dict[str, Any]) -> None:
    """Run a Python block, which may await; what it defines stays in `space`. A failure names the page's line."""
    code = compile("\n" * block.line + block.text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(code, space)
    if inspect.iscoroutine(waiting):
        await waiting
