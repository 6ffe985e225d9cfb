"""Typed readers for the JSON objects that events and settings are stored as.

Each reader takes one named field and checks its type; a field that nobody asks for is left alone, so data written by a
newer version stays readable. A wrong or missing field is a `DataError` that names it.
"""

from collections.abc import Mapping
from typing import cast

Data = Mapping[str, object]


class DataError(ValueError):
    """A stored object has a missing or malformed field; it was written by something else or damaged."""

    def __init__(self, field: str, wanted: str, found: object) -> None:
        super().__init__(
            f"field {field!r} should be {wanted}, found {type(found).__name__}; check who wrote this record"
        )
        self.field = field


def text(data: Data, field: str) -> str:
    """Read a string."""
    value = data.get(field)
    if not isinstance(value, str):
        raise DataError(field, "a string", value)
    return value


def text_or_none(data: Data, field: str) -> str | None:
    """Read a string; `None` when the field is null or missing."""
    return None if data.get(field) is None else text(data, field)


def whole(data: Data, field: str) -> int:
    """Read an integer; booleans and floats are refused."""
    value = data.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(field, "an integer", value)
    return value


def whole_or_none(data: Data, field: str) -> int | None:
    """Read an integer; `None` when the field is null or missing."""
    return None if data.get(field) is None else whole(data, field)


def flag(data: Data, field: str) -> bool:
    """Read a boolean."""
    value = data.get(field)
    if not isinstance(value, bool):
        raise DataError(field, "true or false", value)
    return value


def items(data: Data, field: str) -> list[object]:
    """Read a list of anything."""
    value = data.get(field)
    if not isinstance(value, (list, tuple)):
        raise DataError(field, "a list", value)
    return list(cast("list[object]", value))


def texts(data: Data, field: str) -> tuple[str, ...]:
    """Read a list of strings."""
    return tuple(text({field: item}, field) for item in items(data, field))


def wholes(data: Data, field: str) -> tuple[int, ...]:
    """Read a list of integers."""
    return tuple(whole({field: item}, field) for item in items(data, field))


def nested(data: Data, field: str) -> Data:
    """Read an object."""
    return as_data(data.get(field), field)


def as_data(value: object, field: str) -> Data:
    """Check that a value is an object with string keys."""
    found: object = value
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[object, object]", value)
    ):
        raise DataError(field, "an object", found)
    return cast("Data", value)
