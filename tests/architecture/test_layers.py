"""Every module imports only what its row of the architecture's table allows."""

from __future__ import annotations

import ast
from pathlib import PurePath

import pytest

from tests.architecture.layers import ENGINE_LINES, LAYERS, OURS, imported, violations
from tests.architecture.sources import ROOT, sources


def test_every_module_imports_only_what_its_layer_may() -> None:
    found = [sentence for path, text in sources(".py", under=f"{OURS}/") for sentence in violations(path, text)]
    assert not found, "\n" + "\n".join(found)


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path, text in sources(".py", under=f"{OURS}/"):
        graph[_module(path)] = set(_imported_at_the_top(path, text))
    done: set[str] = set()

    def walk(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, "imports in a circle: " + " → ".join([*way[way.index(module) :], module])
        if module not in done:
            for target in sorted(graph.get(module, ())):
                walk(target, (*way, module))
            done.add(module)

    for module in sorted(graph):
        walk(module, ())


def test_every_row_with_a_verb_stands_in_the_documentation() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    missing = [name for name in LAYERS if name != "__main__" and f"`{name}`" not in page]
    assert not missing, f"docs/explanation/architecture.md says nothing of {', '.join(missing)}"


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        ("codemojex/engine/jobs.py", "from codemojex.game import emoji", "engine delivers and must not import game"),
        ("codemojex/engine/jobs.py", "def f():\n    import codemojex.store.tables", "engine/jobs.py:2: layer"),
        ("codemojex/game/fold.py", "from ..play import games", "game decides and must not import play"),
        ("codemojex/game/fold.py", "import random", "purity: game decides without"),
        ("codemojex/play/games.py", "import redis.asyncio", "library: redis belongs to engine"),
        ("codemojex/bot/intake.py", "from codemojex.engine import ids", "bot talks and must not import engine"),
        ("codemojex/bot/intake.py", "from codemojex import engine", "bot talks and must not import engine"),
        ("codemojex/engine/keyspace.py", "from . import worker", "order: engine/keyspace.py stands above"),
        ("codemojex/engine/keyspace.py", "from .worker import Worker", "order: engine/keyspace.py stands above"),
        ("codemojex/engine/newcomer.py", "from . import ids", "give engine/newcomer.py a place"),
        ("codemojex/engine/jobs.py", "import requests", "library: requests belongs to nobody"),
        ("codemojex/common/x.py", "", "unknown layer"),
        ("codemojex/__init__.py", "import redis", "the package itself imports nothing"),
        ("codemojex/app.py", "import codemojex", "name the module inside"),
        ("codemojex/ops/status.py", "print('hello')", "nothing happens at import"),
        ("codemojex/store/migrations/x.py", "from codemojex.play import games", "must not import play"),
    ],
)
def test_the_checker_sees_a_breach(path: str, text: str, sentence: str) -> None:
    found = violations(PurePath(path), text)
    assert any(sentence in line for line in found), found
    assert all(line.startswith(path) for line in found)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "codemojex/play/games.py",
            "from codemojex.engine import ids\nfrom codemojex.store.archive import seal\nimport msgspec",
        ),
        ("codemojex/engine/worker.py", "from . import ids\nfrom .claims import claim\nimport time"),
        ("codemojex/engine/__init__.py", "from .worker import Worker"),
        ("codemojex/app.py", "from codemojex import bot, engine, play\nimport asyncio"),
        ("codemojex/cli.py", "import cyclopts\n\nif __name__ == '__main__':\n    main()"),
    ],
)
def test_the_checker_lets_pass_what_the_table_allows(path: str, text: str) -> None:
    assert violations(PurePath(path), text) == []


def test_no_row_reaches_a_row_that_reaches_it() -> None:
    for name, layer in LAYERS.items():
        for target in layer.ours:
            assert name not in LAYERS[target].ours, f"{name} and {target} may import each other"


def test_no_module_is_named_like_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "core"}
    found = [str(path) for path, _ in sources(".py", under=f"{OURS}/") if path.stem in drawers]
    assert not found


def test_every_engine_module_has_its_place() -> None:
    placed = set(" ".join(ENGINE_LINES).split())
    here = {PurePath(path.parts[2]).stem for path, _ in sources(".py", under=f"{OURS}/engine/")} - {"__init__"}
    assert not here - placed, f"give {', '.join(sorted(here - placed))} a place in ENGINE_LINES"


def _module(path: PurePath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_at_the_top(path: PurePath, text: str) -> list[str]:
    """The modules of ours that this one needs before it exists; imports in functions and for types do not count."""
    found: list[str] = []
    for node in ast.parse(text).body:
        for module, name in imported(path, node):
            inner = ROOT.joinpath(*module.split("."), name or "-")
            submodule = inner.with_suffix(".py").is_file() or inner.is_dir()
            found.append(f"{module}.{name}" if submodule else module)
    own = _module(path)
    return [module for module in found if module.startswith(f"{OURS}.") and module != own]
