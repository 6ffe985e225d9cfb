"""Tells which lines of the engine's Lua run: every statement notes its line in the server's log before it runs.

A mutant of a line that a test never runs cannot be noticed by that test, and one of a line that nothing runs by nobody.
A line that goes on with a statement counts as the statement's first line, a branch (`elseif`) as the whole `if`.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutants.mutations import CLOSES, NEVER_FIRST, OPENS, UNFINISHED, tokens

Lines = set[tuple[str, int]]
_RAN = re.compile(rb"mutants ran (\S+):(\d+)$", re.MULTILINE)


def probed(path: str, text: str) -> str:
    """The text of `path` with a probe in front of every statement that begins a line."""
    lines = text.splitlines()
    starts = sorted(set(statements(text).values()))
    for number in starts:
        note = f"ran[{number}] = true redis.log(redis.LOG_WARNING, 'mutants ran {path}:{number}')"
        lines[number - 1] = f"if not ran[{number}] then {note} end {lines[number - 1]}"
    lines[starts[0] - 1] = "local ran = {} " + lines[starts[0] - 1]
    return "\n".join(lines) + "\n"


def statements(text: str) -> dict[int, int]:
    """For every line of code (from 1) the line where its statement begins."""
    found: dict[int, int] = {}
    levels = [("", 0)]  # what opened each level, and the line where its last statement began
    previous = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = [match.group() for match in tokens(line)]
        if line.startswith("---") or not words:
            continue
        level = len(levels) - (words[0] in CLOSES or words[0] in ("else", "elseif"))
        begins = previous not in UNFINISHED or previous in ("then", "do", "else", "repeat")
        if begins and words[0] not in NEVER_FIRST and levels[-1][0] not in ("{", "(", "["):
            levels[-1] = levels[-1][0], number
        found[number] = next(start for _, start in reversed(levels[:level]) if start)
        for word in words:
            if word in CLOSES or word in ("else", "elseif"):
                levels.pop()
            if word in OPENS or word == "else":
                levels.append((word, 0))
        previous = words[-1]
    return found


class Trail:
    """Reads what probes wrote since it was asked last."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._seen = 0

    def lines(self) -> Lines:
        """The statements that ran: path and line."""
        if not self._log.exists():
            return set()
        with self._log.open("rb") as log:
            log.seek(self._seen)
            new = log.read()
        end = new.rfind(b"\n") + 1
        self._seen += end
        return {(path.decode(), int(line)) for path, line in _RAN.findall(new[:end])}
