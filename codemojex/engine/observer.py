"""How the engine's own loops tell what happens: a function of a name and its data.

`docs/reference/engine-events.md` lists the names. It is called in the event loop, so it must be quick, and what it
raises ends the part that called it.
"""

from __future__ import annotations

from collections.abc import Callable

from codemojex.engine import validation

Observe = Callable[[str, dict[str, object]], None]


def ignore(name: str, data: dict[str, object]) -> None:
    """The observer of those who gave none."""


def observer(given: Observe | None) -> Observe:
    """The observer `given`, or the one of those who gave none. Raises InvalidValue for what is no function."""
    if given is None:
        return ignore
    validation.function("observe", given)
    return given
