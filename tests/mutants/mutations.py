"""Makes mutants of a Lua text: a dropped statement, a flipped comparison or sign, another literal.

A mutant differs from the text in one place of one line. Headers, comments and strings are left alone. A mutant may
fail to compile, as when half of a statement goes; who runs it sees that and does not count it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<comment>--.*)|(?P<string>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>==|~=|<=|>=|\.\.\.?|[^\s\w])"
)
_SWAPS = {
    **{"==": "~=", "~=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"},
    **{"+": "-", "-": "+", "true": "false", "false": "true", "and": "or", "or": "and"},
}
# Larger literals are times, sizes and bounds of work: one more or less is no other behaviour.
_LARGEST_LITERAL = 99
_OPENS = {"then": 1, "do": 1, "function": 1, "repeat": 1, "{": 1, "(": 1, "[": 1}
_CLOSES = {"end": 1, "until": 1, "}": 1, ")": 1, "]": 1}
_NEVER_FIRST = {"end", "else", "elseif", "until", "and", "or", "}", ")", ".."}
_UNFINISHED = {",", "=", "+", "-", "..", "and", "or", "not", "(", "{", "[", "return", "then", "do", "else", "repeat"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: `line` (from 1) of `path` (below engine/lua, with ending) reads `after` in place of `before`."""

    path: str
    line: int
    before: str
    after: str

    def text(self, original: str) -> str:
        """The whole file with the change in it."""
        lines = original.splitlines()
        assert lines[self.line - 1].strip() == self.before, f"{self.path} is not the text that {self} was made of"
        indent = lines[self.line - 1][: -len(self.before)]
        lines[self.line - 1] = indent + self.after if self.after else ""
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  →  {self.after or '(dropped)'}"


def mutants(path: str, text: str) -> list[Mutant]:
    """Every mutant of one file, in the order of its lines."""
    found: list[Mutant] = []
    previous = ""  # the last token of the line before
    for number, line in enumerate(text.splitlines(), 1):
        code = line.rstrip()
        tokens = [m for m in _TOKEN.finditer(code) if m.lastgroup != "comment"]
        if code.startswith("---") or not tokens:
            continue
        before = code.strip()
        if _whole_statement([m.group() for m in tokens], previous):
            found.append(Mutant(path, number, before, ""))
        shift = len(code) - len(code.lstrip())
        for start, end, new in _changes(tokens):
            found.append(Mutant(path, number, before, before[: start - shift] + new + before[end - shift :]))
        previous = tokens[-1].group()
    return found


def _whole_statement(tokens: list[str], previous: str) -> bool:
    depth = 0
    for token in tokens:
        depth += _OPENS.get(token, 0) - _CLOSES.get(token, 0)
        if depth < 0:
            return False
    alone = tokens[0] not in _NEVER_FIRST and tokens[-1] not in _UNFINISHED
    return depth == 0 and alone and (previous not in _UNFINISHED or previous in ("then", "do", "else", "repeat"))


def _changes(tokens: list[re.Match[str]]) -> Iterator[tuple[int, int, str]]:
    for at, token in enumerate(tokens):
        word, kind = token.group(), token.lastgroup
        if kind == "number" and word.isdigit() and int(word) <= _LARGEST_LITERAL:
            yield token.start(), token.end(), str(int(word) + 1)
        elif kind in ("sign", "name") and word in _SWAPS:
            if word == "-" and (at == 0 or not _ends_a_value(tokens[at - 1])):
                continue  # the sign of a number
            yield token.start(), token.end(), _SWAPS[word]


def _ends_a_value(token: re.Match[str]) -> bool:
    word = token.group()
    value = token.lastgroup in ("number", "string", "name") or word in (")", "]", "}")
    return value and word not in ("return", "and", "or", "not")
