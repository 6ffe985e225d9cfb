"""Whether a value is what a parameter takes: one check for each kind of value, used by every verb before it sends.

A refusal names the parameter, what was given and what to give instead. The types are exact on purpose: a bool is an
int to Python, and a float, a NaN or a memoryview finds its way onto the wire as something else.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from codemojex.engine.errors import InvalidName, InvalidValue

_T = TypeVar("_T")
_U = TypeVar("_U")
MAX_ATTEMPTS = 1_000_000


def integer(what: str, value: object, low: int, high: int, remedy: str = "") -> int:
    """`value` itself when it is an int from `low` to `high`, both included; raises InvalidValue otherwise."""
    if type(value) is not int:
        raise kind(what, value, f"an int from {low} to {high}{remedy}")
    if not low <= value <= high:
        raise InvalidValue(f"{what}={shown(value)} is out of range: use {low} to {high}{remedy}")
    return value


def number(what: str, value: object, low: float, high: float) -> float:
    """`value` itself when it is a finite number from `low` to `high`; raises InvalidValue otherwise."""
    if type(value) is not int and type(value) is not float:
        raise kind(what, value, f"a number from {low:g} to {high:g}")
    if not low <= value <= high:  # NaN is in no range
        raise InvalidValue(f"{what}={shown(value)} is out of range: use {low:g} to {high:g}")
    return value


def text(what: str, value: object, low: int = 0, high: int | None = None) -> str:
    """`value` itself when it is a str of `low` to `high` characters that UTF-8 has; raises InvalidValue otherwise."""
    if not isinstance(value, str):
        raise kind(what, value, "a str")
    if not low <= len(value) <= (len(value) if high is None else high):
        most = "" if high is None else f" to {high}"
        raise InvalidValue(f"{what} has {len(value)} characters: use {low}{most}")
    if not encodable(value):
        raise InvalidValue(f"{what} {shown(value)} has a lone surrogate: use text that can be encoded as UTF-8")
    return value


def data(what: str, value: object, high: int) -> bytes:
    """`value` itself when it is bytes, at most `high` of them; raises InvalidValue otherwise."""
    if not isinstance(value, bytes):
        raise kind(what, value, f"bytes, at most {high}")
    if len(value) > high:
        raise InvalidValue(
            f"{what} has {len(value)} bytes, the limit is {high}: keep large data elsewhere and pass its key"
        )
    return value


def flag(what: str, value: object) -> bool:
    """`value` itself when it is True or False; raises InvalidValue otherwise."""
    if not isinstance(value, bool):
        raise kind(what, value, "True or False")
    return value


def one_of(what: str, value: object, *kinds: type) -> None:
    """Raise InvalidValue unless `value` is an instance of one of `kinds`."""
    if not isinstance(value, kinds):
        raise kind(what, value, _either(kinds))


def choice(what: str, value: object, *choices: str) -> None:
    """Raise InvalidValue unless `value` is one of these words."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidValue(f"{what}={shown(value)} is unknown: use {' or '.join(map(repr, choices))}")


def name(what: str, value: object, rule: str) -> str:
    """`value` itself when it is a str; raises InvalidName with `rule` otherwise. For names that a pattern checks."""
    if not isinstance(value, str):
        raise InvalidName(what, shown(value), rule)
    return value


def mapping(what: str, value: object) -> None:
    """Raise InvalidValue unless `value` is a mapping."""
    if not isinstance(value, Mapping):
        raise kind(what, value, "a mapping")


def many(what: str, values: Iterable[_T], *kinds: type) -> list[_T]:
    """What `values` holds, when it is a list or another iterable of `kinds`; raises InvalidValue otherwise."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise kind(what, values, f"a list of {_either(kinds)}" if kinds else "a list")
    held = list(values)
    if kinds:
        for value in held:
            one_of(f"one of {what}", value, *kinds)
    return held


def pairs(what: str, values: Iterable[tuple[_T, _U]]) -> list[tuple[_T, _U]]:
    """What `values` holds, when that is pairs; raises InvalidValue otherwise."""
    held = many(what, values, tuple, list)
    for value in held:
        if len(value) != 2:
            raise InvalidValue(f"one of {what}={shown(value)} has {len(value)} parts: use two")
    return held


def function(what: str, value: object) -> None:
    """Raise InvalidValue unless `value` can be called."""
    if not callable(value):
        raise kind(what, value, "a function")


def awaited(what: str, value: object) -> None:
    """Raise InvalidValue unless `value` can be called and awaited; of an object that is called, nobody can know."""
    function(what, value)
    written = inspect.isfunction(getattr(value, "__func__", value))  # with def or lambda
    if written and not inspect.iscoroutinefunction(value):
        raise InvalidValue(f"{what}={shown(value)} is no async function: write `async def`")


def encodable(value: str) -> bool:
    """Whether UTF-8 has every character of `value`; a lone surrogate has no bytes there."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """A short text of any value, for an error."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    try:
        return ascii(value)[:80]
    except Exception as error:  # whatever it is, its text must not hide what is wrong with it
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def _either(kinds: tuple[type, ...]) -> str:
    return " or ".join(each.__name__ for each in kinds)


def kind(what: str, value: object, wanted: str) -> InvalidValue:
    """The refusal of a value of another kind: what was given, and what to give instead."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return InvalidValue(
        f"{what}={shown(value)} is {'a' if finite else 'no finite'} {type(value).__name__}: use {wanted}"
    )
