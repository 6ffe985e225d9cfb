"""Every module imports only what its row of the architecture's table allows."""

from __future__ import annotations

import ast
from pathlib import PurePath

import pytest

from tests.architecture.layers import LAYERS, OURS, ROOMS, ROOT_ROOM, imported, violations
from tests.architecture.sources import ROOT, sources

CROWD = 14  # files in one package, beyond which a newcomer stops reading the list
LONGEST = 360  # about 300; beyond it a file has two jobs
ONE_TABLE = {"codemojex/settings.py"}  # a row per setting


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
        (
            "codemojex/engine/jobs/jobs.py",
            "from codemojex.game import emoji",
            "engine delivers and must not import game",
        ),
        (
            "codemojex/engine/jobs/jobs.py",
            "def f():\n    import codemojex.store.tables",
            "engine/jobs/jobs.py:2: layer",
        ),
        ("codemojex/game/fold.py", "from ..play import games", "game decides and must not import play"),
        ("codemojex/game/fold.py", "import random", "purity: game decides without"),
        ("codemojex/play/games.py", "import redis.asyncio", "library: redis belongs to engine"),
        ("codemojex/bot/intake.py", "from codemojex.engine import ids", "bot talks and must not import engine"),
        ("codemojex/bot/intake.py", "from codemojex import engine", "bot talks and must not import engine"),
        ("codemojex/engine/keyspace.py", "from codemojex.engine import worker", "so it uses no room"),
        ("codemojex/engine/cache/table.py", "from codemojex.engine.jobs import jobs", "cache knows no jobs"),
        (
            "codemojex/engine/jobs/jobs.py",
            "from codemojex.engine.lanes.lanes import pause",
            "jobs must not import lanes",
        ),
        ("codemojex/engine/worker/task.py", "import codemojex.engine.protocol.export", "must not import protocol"),
        ("codemojex/engine/newcomer/x.py", "from codemojex.engine import ids", "give engine/newcomer a row"),
        ("codemojex/engine/jobs/jobs.py", "import requests", "library: requests belongs to nobody"),
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
        (
            "codemojex/engine/worker/worker.py",
            "from codemojex.engine import ids\nfrom codemojex.engine.jobs.claims import claim\nimport time",
        ),
        ("codemojex/engine/__init__.py", "from codemojex.engine.worker.worker import Worker"),
        ("codemojex/engine/nodes/node_lease.py", "from codemojex.engine.transport.connector import Connector"),
        ("codemojex/app.py", "from codemojex import engine, play\nimport asyncio"),
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


def test_rooms_have_no_circle() -> None:
    for name, room in ROOMS.items():
        for target in room.may:
            assert name not in ROOMS[target].may, f"{name} and {target} may import each other"


def test_every_room_says_in_one_sentence_what_it_is_for() -> None:
    for room in sorted(set(ROOMS) - {ROOT_ROOM}):
        text = (ROOT / OURS / "engine" / room / "__init__.py").read_text(encoding="utf-8")
        assert (ast.get_docstring(ast.parse(text)) or "").strip(), f"engine/{room}/__init__.py says nothing"


def test_no_package_is_a_crowd_and_no_file_has_two_jobs() -> None:
    packages: dict[PurePath, int] = {}
    for path, text in sources(".py", ".lua", under=f"{OURS}/"):
        packages[path.parent] = packages.get(path.parent, 0) + (path.stem != "__init__")
        long = text.count("\n") > LONGEST and path.as_posix() not in ONE_TABLE
        assert not long, f"{path} has more than {LONGEST} lines: it has two jobs"
    crowds = {str(path): number for path, number in packages.items() if number > CROWD}
    assert not crowds, f"more than {CROWD} files: {crowds}"


def test_no_two_classes_share_a_name() -> None:
    """One name, one idea: a search for a class finds one class."""
    where: dict[str, list[str]] = {}
    for path, text in sources(".py", under=f"{OURS}/"):
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path))
    shared = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert not shared, f"one name, one idea: {shared}"


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
