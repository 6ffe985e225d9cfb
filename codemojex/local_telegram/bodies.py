"""Bodies of requests: JSON objects, and what no text can hold."""

import json
from typing import Any

from aiohttp import web

from codemojex.local_telegram.errors import Json

# What reading a body meets: bytes or a charset that are none, no JSON, no form, and nesting without an end.
UNREADABLE = (ValueError, LookupError, RecursionError)


async def json_object(request: web.Request) -> Json:
    """The body, an empty one as no fields. Raises one of `UNREADABLE`."""
    text = await request.text()
    parsed: Any = json.loads(text) if text.strip() else {}
    if not isinstance(parsed, dict):
        raise ValueError("it must be an object")
    return parsed  # pyright: ignore[reportUnknownVariableType]  # json gives no types


def readable(value: Any) -> bool:  # JSON of any shape
    """Whether UTF-8 has bytes for every string: JSON may spell half a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True
