"""Keys are built in one place per prefix, and every Lua command says what it takes, gives and refuses."""

from __future__ import annotations

import ast
import re

import pytest

from codemojex.engine.errors import ScriptDefect
from codemojex.engine.scripts import Library
from tests.architecture.layers import OURS
from tests.architecture.sources import sources

# Who alone may write the prefix of a family of keys.
OWNERS = {
    "emq:": "codemojex/engine/keyspace.py",
    "ecc:": "codemojex/engine/keyspace.py",
    "cmx:": "codemojex/play/keys.py",
}
MAX_LUA_LINES = 80
MAX_FRAGMENT_LINES = 120


def strings_with(prefix: str, text: str) -> list[int]:
    """Lines of string constants that hold `prefix`; docstrings may explain a key."""
    tree = ast.parse(text)
    explained = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str | bytes)
        and id(node) not in explained
        and prefix in (node.value if isinstance(node.value, str) else node.value.decode(errors="replace"))
    ]


def without_comments(lua: str) -> str:
    return re.sub(r"--[^\n]*", "", lua)


@pytest.mark.parametrize("prefix", OWNERS)
def test_only_the_owner_of_a_prefix_builds_its_keys(prefix: str) -> None:
    found = [
        f"{path}:{line}: key: only {OWNERS[prefix]} may hold {prefix!r}; ask it for the key"
        for path, text in sources(".py", under=f"{OURS}/")
        if path.as_posix() != OWNERS[prefix]
        for line in strings_with(prefix, text)
    ]
    found += [
        f"{path}: key: a script gets its keys from {OWNERS[prefix]} and must not hold {prefix!r}"
        for path, text in sources(".lua", under=f"{OURS}/")
        if prefix in without_comments(text)
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_search_finds_a_prefix_in_code_and_forgives_it_in_a_docstring() -> None:
    text = (
        '"""About emq:{q}:."""\n\ndef f(q):\n    """Key emq:{q}:x."""\n    return [f"emq:{{{q}}}:x", "emq:", b"emq:"]\n'
    )
    assert strings_with("emq:", text) == [5, 5, 5]


def _packages() -> list[str]:
    return sorted({".".join(path.parts[: path.parts.index("lua")]) for path, _ in sources(".lua", under=f"{OURS}/")})


def test_every_lua_command_has_a_header_that_the_loader_accepts() -> None:
    found: list[str] = []
    for package in _packages():
        library = Library(package)
        for name in library.names():
            try:
                library.script(name)
            except ScriptDefect as defect:
                found.append(f"{package}: {defect}")
    for path, text in sources(".lua", under=f"{OURS}/"):
        first = text.partition("\n")[0]
        if not first.startswith(f"--- {path.stem}:"):
            found.append(f"{path}:1: header: the first line must be '--- {path.stem}: what it does'")
        limit = MAX_FRAGMENT_LINES if "include" in path.parts else MAX_LUA_LINES
        if text.count("\n") > limit:
            found.append(f"{path}: size: more than {limit} lines; a command that long has two jobs")
    assert not found, "\n" + "\n".join(found)


def test_lua_stands_only_where_the_loader_looks() -> None:
    found = [
        str(path)
        for path, _ in sources(".lua", under=f"{OURS}/")
        if "lua" not in path.parts or len(path.parts[path.parts.index("lua") + 1 : -1]) > 1 + ("include" in path.parts)
    ]
    assert not found, f"Lua belongs into a package's lua/, lua/include/ or lua/effect/, or a room of these: {found}"
