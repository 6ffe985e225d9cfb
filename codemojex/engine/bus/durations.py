"""Times as people write them: a `timedelta` or seconds for how long, an aware `datetime` or Unix seconds for when.

Below the front door every time is a whole number of milliseconds, in a name that ends with `_ms`.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.jobs import MAX_LAST_MS, MAX_WAIT_MS

Duration = timedelta | float
Moment = datetime | float


def to_ms(what: str, value: Duration, low_ms: int = 0, high_ms: int = MAX_WAIT_MS) -> int:
    """A duration in milliseconds, rounded up. Raises InvalidValue for another type or a value out of range."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    else:
        seconds = _seconds(what, value, "a timedelta, or seconds as an int or a float")
    if not low_ms <= (found := math.ceil(round(seconds * 1000, 6))) <= high_ms:
        raise InvalidValue(
            f"{what}={validation.shown(value)} is out of range: "
            f"use {low_ms / 1000:g} to {high_ms / 1000:g} seconds, or a timedelta of that"
        )
    return found


def to_unix_ms(what: str, value: Moment) -> int:
    """An instant in milliseconds since 1970. Raises InvalidValue for a datetime without a time zone."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidValue(f"{what}={value} has no time zone: use datetime.now(UTC), say, or Unix seconds")
        seconds = value.timestamp()
    else:
        seconds = _seconds(what, value, "an aware datetime, or Unix seconds")
    if not 0 <= (found := round(seconds * 1000)) <= MAX_LAST_MS:
        raise InvalidValue(f"{what}={validation.shown(value)} is out of range: use Unix seconds up to the year 2100")
    return found


def _seconds(what: str, value: object, wanted: str) -> float:
    if (type(value) is not int and type(value) is not float) or not math.isfinite(value):
        raise validation.kind(what, value, wanted)
    return value
