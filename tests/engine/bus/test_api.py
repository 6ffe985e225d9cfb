"""The names of `codemojex.engine`: one list, whichever way it is read, and free to those who use a room alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from codemojex import engine

SOURCE = Path(str(engine.__file__)).read_text(encoding="utf-8")


def test_every_exported_name_is_there_for_people_and_for_the_type_checker() -> None:
    typed = {
        (alias.name, node.module)
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("codemojex")
        for alias in node.names
    }
    rooms: dict[str, str] = vars(engine)["_ROOM_OF"]
    assert typed == {(name, f"codemojex.engine.{room}") for name, room in rooms.items()}
    assert engine.__all__ == sorted(rooms)
    for name in engine.__all__:
        found = getattr(engine, name)
        assert not isinstance(found, type) or found.__name__ == name


def test_a_name_that_is_not_exported_is_refused() -> None:
    with pytest.raises(AttributeError, match="Busy"):
        engine.__getattr__("Busy")


def test_a_module_of_the_root_brings_no_room_with_it() -> None:
    code = "import codemojex.engine.ids, sys; print(*sorted(m for m in sys.modules if m.startswith('codemojex')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "codemojex.engine.ids" in loaded.split()
    assert "redis" not in loaded
    assert not [name for name in loaded.split() if name.count(".") > 2]
