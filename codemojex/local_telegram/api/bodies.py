"""Bodies of requests: JSON objects, and what no text, number or structure may hold.

What passes here can be stored and shown again: numbers of 64 bits, whole characters, nesting with an end.
"""

import json
import math
import zlib
from typing import Any, cast

from aiohttp import http_exceptions, web

from codemojex.local_telegram.errors import Json

NOT_UTF8 = "strings must be encoded in UTF-8"  # half a surrogate pair; these are Telegram's words
DEPTH_LIMIT = 64  # of nested lists and objects; the Bot API needs five
# What reading a body meets: bytes that are not text, not JSON, not a form or not what their encoding says, a charset
# that nobody knows, and nesting without an end.
UNREADABLE = (
    ValueError, LookupError, RecursionError, AssertionError, OSError, zlib.error,
    web.RequestPayloadError, http_exceptions.HttpProcessingError,
)  # fmt: skip


async def json_object(request: web.Request) -> Json:
    """The body, an empty one as no fields. Raises one of `UNREADABLE`."""
    text = await request.text()
    parsed: Any = json.loads(text) if text.strip() else {}
    if not isinstance(parsed, dict):
        raise ValueError("it must be an object")
    return cast("Json", parsed)  # json gives no types


def trouble(value: Any) -> str | None:  # JSON of any shape
    """What in the value could be neither stored nor shown again, in words; None when nothing."""
    level: list[Any] = [value]
    for _ in range(DEPTH_LIMIT):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if not _whole(item):
                    return NOT_UTF8
            elif isinstance(item, int | float):
                if not number(item):
                    return "its number is beyond 64 bits or not finite"
            elif isinstance(item, dict):
                pairs = cast("dict[str, Any]", item)
                deeper += [*pairs.keys(), *pairs.values()]
            elif isinstance(item, list):
                deeper += cast("list[Any]", item)
        if not deeper:
            return None
        level = deeper
    return f"it is nested more than {DEPTH_LIMIT} deep"


def number(value: float) -> bool:
    """Whether it is a number that every reader of JSON can hold: an integer of 64 bits, or a finite one."""
    return -(2**63) <= value < 2**63 if isinstance(value, int) else math.isfinite(value)


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
