"""Makes the reference page of the names that `from codemojex.engine import …` offers, from their docstrings."""

from __future__ import annotations

import inspect
from typing import Any

from codemojex import engine


def engine_api() -> str:
    """The page: each name with its signature and what its docstring says first; of the front door also the methods."""
    lines = [
        "# The engine's API",
        "",
        "Made from `codemojex.engine.__all__` by `python -m codemojex.engine.protocol.reference`; not to be edited.",
        "[Use the engine](../how-to/use-the-engine.md) shows them at work.",
        "",
    ]
    for name in engine.__all__:
        found = getattr(engine, name)
        lines += [f"## {name}", ""]
        if not (inspect.isclass(found) or inspect.isfunction(found)):
            lines += [f"One of {', '.join(f'`{one.__name__}`' for one in found.__args__)}.", ""]
            continue
        lines += [_signature(name, found), "", _first(found), ""]
        if name in ("Bus", "Queue"):
            methods = [item for item in vars(found) if not item.startswith("_")]
            for method in methods:
                lines += [
                    _signature(f"{name}.{method}", getattr(found, method)),
                    "",
                    _first(getattr(found, method)),
                    "",
                ]
    return "\n".join(lines)


def _signature(name: str, found: Any) -> str:
    if inspect.isclass(found) and issubclass(found, Exception):
        return f"`{name}({', '.join(base.__name__ for base in found.__bases__)})`"
    try:
        given = inspect.signature(found)
    except (TypeError, ValueError):
        return f"`{name}`"
    shown = [
        str(parameter).replace(": 'Any'", "").replace("'", "") if "<" not in str(parameter) else f"{parameter.name}=…"
        for parameter in given.parameters.values()
        if parameter.name != "self"
    ]
    if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in given.parameters.values()):
        place = next(
            i
            for i, one in enumerate(p for p in given.parameters.values() if p.name != "self")
            if one.kind is one.KEYWORD_ONLY
        )
        if not any(p.kind is p.VAR_POSITIONAL for p in given.parameters.values()):
            shown.insert(place, "*")
    return f"`{name}({', '.join(shown)})`"


def _first(found: Any) -> str:
    return " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())
