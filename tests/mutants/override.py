"""Puts other texts in the place of Lua files of the engine, in this process. Nothing on disk changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files

from codemojex.engine import scripts
from codemojex.engine.scripts import ENGINE


def original(path: str) -> str:
    """The text of `path` (below engine/lua)."""
    return (files(ENGINE.package) / "lua" / path).read_text(encoding="utf-8")


def paths() -> list[str]:
    """Every Lua file of the engine, commands first."""
    folder = files(ENGINE.package) / "lua" / "include"
    included = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".lua"))
    return [f"{name}.lua" for name in ENGINE.names()] + [f"include/{name}" for name in included]


def sources() -> dict[str, str]:
    """The whole text of every command of the engine, as it runs now."""
    return {name: ENGINE.script(name).source for name in ENGINE.names()}


@contextmanager
def override(texts: Mapping[str, str]) -> Iterator[None]:
    """Within the block the engine runs these texts in the place of the files named (below engine/lua)."""
    read = scripts._read

    def changed(package: str, wanted: str) -> str:
        return texts[wanted] if package == ENGINE.package and wanted in texts else read(package, wanted)

    scripts._read = changed
    scripts._load.cache_clear()
    try:
        yield
    finally:
        scripts._read = read
        scripts._load.cache_clear()
