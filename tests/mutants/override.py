"""Puts another text in the place of one Lua file, in this process, and notes which files run.

Modules that took a script when they were imported are given the new one. Nothing on disk changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from codemojex.engine import scripts
from codemojex.engine.connector import Connector
from codemojex.engine.scripts import ENGINE, Script


def original(path: str) -> str:
    """The text of `path` (below engine/lua)."""
    return (files(ENGINE.package) / "lua" / path).read_text(encoding="utf-8")


def paths() -> list[str]:
    """Every Lua file of the engine, commands first."""
    folder = files(ENGINE.package) / "lua" / "include"
    included = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".lua"))
    return [f"{name}.lua" for name in ENGINE.names()] + [f"include/{name}" for name in included]


def commands_with(path: str) -> set[str]:
    """The engine's commands whose text holds `path`: itself, or all that include the fragment."""
    return {name for name in ENGINE.names() if path in files_in(ENGINE.script(name))}


@cache
def files_in(script: Script) -> frozenset[str]:
    """The engine's Lua files that a script is made of; scripts of others may include its fragments.

    Call it outside of `override` only: it looks for the files' own text.
    """
    return frozenset(path for path, body in _bodies().items() if body in script.source)


@cache
def _bodies() -> dict[str, str]:
    """What is below the header of each file; the line where effects are spliced in cuts it short."""
    bodies: dict[str, str] = {}
    for path in paths():
        body = scripts._parse(path.removesuffix(".lua"), original(path))[1]
        bodies[path] = body.partition(scripts._EFFECTS_LINE)[2] or body
    return bodies


@contextmanager
def override(path: str, text: str) -> Iterator[None]:
    """Within the block the engine runs `text` in the place of the file `path`."""
    read = scripts._read

    def changed(package: str, wanted: str) -> str:
        return text if (package, wanted) == (ENGINE.package, path) else read(package, wanted)

    scripts._read = changed
    _refresh()
    try:
        yield
    finally:
        scripts._read = read
        _refresh()


def _refresh() -> None:
    scripts._load.cache_clear()
    for name, module in list(sys.modules.items()):
        if name.startswith("codemojex.engine."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, Script):
                    setattr(module, attribute, ENGINE.script(value.name))


@contextmanager
def watched(heard: Callable[[Iterable[str]], object]) -> Iterator[None]:
    """Within the block `heard` is told the engine's Lua files of every script that runs in this process."""
    run, run_many = Connector.run, Connector.run_many

    async def one(self: Connector, script: Script, keys: Sequence[str], args: Sequence[Any] = ()) -> Any:
        heard(files_in(script))
        return await run(self, script, keys, args)

    async def many(self: Connector, script: Script, calls: Sequence[Any]) -> list[Any]:
        heard(files_in(script))
        return await run_many(self, script, calls)

    Connector.run, Connector.run_many = one, many  # type: ignore[method-assign]
    try:
        yield
    finally:
        Connector.run, Connector.run_many = run, run_many  # type: ignore[method-assign]
