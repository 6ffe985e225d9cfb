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
DROPPED, FLIPPED, SWAPPED, LITERAL = "dropped statement", "flipped comparison", "swap", "literal"
_FLIPS = {"==": "~=", "~=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPS = {"+": "-", "-": "+", "true": "false", "false": "true", "and": "or", "or": "and"}
# Larger literals are times, sizes and bounds of work: one more or less is no other behaviour.
_LARGEST_LITERAL = 99
OPENS = {"then", "do", "function", "repeat", "{", "(", "["}
CLOSES = {"end", "until", "}", ")", "]"}
NEVER_FIRST = {"end", "else", "elseif", "until", "and", "or", "}", ")", ".."}
UNFINISHED = {",", "=", "+", "-", "..", "and", "or", "not", "(", "{", "[", "return", "then", "do", "else", "repeat"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: `line` (from 1) of `path` (below engine/lua, with ending) reads `after` in place of `before`.

    `kind` is one of the four words above.
    """

    path: str
    line: int
    before: str
    after: str
    kind: str = DROPPED

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
        words = tokens(code)
        if code.startswith("---") or not words:
            continue
        before = code.strip()
        if _whole_statement([m.group() for m in words], previous):
            found.append(Mutant(path, number, before, ""))
        shift = len(code) - len(code.lstrip())
        for start, end, new, kind in _changes(words):
            found.append(Mutant(path, number, before, before[: start - shift] + new + before[end - shift :], kind))
        previous = words[-1].group()
    return found


def tokens(line: str) -> list[re.Match[str]]:
    """The tokens of a line, without comments."""
    return [match for match in _TOKEN.finditer(line) if match.lastgroup != "comment"]


def _whole_statement(words: list[str], previous: str) -> bool:
    depth = 0
    for token in words:
        depth += (token in OPENS) - (token in CLOSES)
        if depth < 0:
            return False
    alone = words[0] not in NEVER_FIRST and words[-1] not in UNFINISHED
    return depth == 0 and alone and (previous not in UNFINISHED or previous in ("then", "do", "else", "repeat"))


def _changes(words: list[re.Match[str]]) -> Iterator[tuple[int, int, str, str]]:
    for at, token in enumerate(words):
        word, sort = token.group(), token.lastgroup
        if sort == "number" and word.isdigit() and int(word) <= _LARGEST_LITERAL:
            yield token.start(), token.end(), str(int(word) + 1), LITERAL
        elif sort in ("sign", "name") and word in _FLIPS:
            yield token.start(), token.end(), _FLIPS[word], FLIPPED
        elif sort in ("sign", "name") and word in _SWAPS:
            if word == "-" and (at == 0 or not _ends_a_value(words[at - 1])):
                continue  # the sign of a number
            yield token.start(), token.end(), _SWAPS[word], SWAPPED


def _ends_a_value(token: re.Match[str]) -> bool:
    word = token.group()
    value = token.lastgroup in ("number", "string", "name") or word in (")", "]", "}")
    return value and word not in ("return", "and", "or", "not")
