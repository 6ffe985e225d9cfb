"""Puts other texts in the place of Lua files of the engine, in this process. Nothing on disk changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from codemojex.engine import scripts
from codemojex.engine.scripts import ENGINE


def original(path: str) -> str:
    """The text of `path`: the name with its ending, behind `include/` for a fragment, without its room."""
    kind, _, name = path.removesuffix(".lua").rpartition("/")
    return scripts._files(ENGINE.package, kind)[name].read_text(encoding="utf-8")


def paths() -> list[str]:
    """Every Lua file of the engine, commands first."""
    included = [f"include/{fragment.name}.lua" for fragment in ENGINE.fragments()]
    return [f"{name}.lua" for name in ENGINE.names()] + included


def sources() -> dict[str, str]:
    """The whole text of every command of the engine, as it runs now."""
    return {name: ENGINE.script(name).source for name in ENGINE.names()}


@contextmanager
def override(texts: Mapping[str, str]) -> Iterator[None]:
    """Within the block the engine runs these texts in the place of the files named (as `paths` names them)."""
    read = scripts._read

    def changed(package: str, name: str, kind: str) -> str:
        path = f"{kind}/{name}.lua".lstrip("/")
        return texts[path] if package == ENGINE.package and path in texts else read(package, name, kind)

    scripts._read = changed
    scripts._load.cache_clear()
    try:
        yield
    finally:
        scripts._read = read
        scripts._load.cache_clear()
