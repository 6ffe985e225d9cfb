"""Errors as texts that can be kept: whatever a handler raises or says, its words fit into a row, a log and an event.

Nothing here raises. A text is cut at `MAX_TEXT` characters, and what UTF-8 has no bytes for is spelt out.
"""

from __future__ import annotations

MAX_TEXT = 2_000
CANCELLED = "the handler waited for something that was cancelled"


def plain(value: object) -> str:
    """`value` as a text; one whose own text cannot be made is named by its class."""
    try:
        text = str(value)
    except Exception as error:  # it is foreign code
        text = f"<{type(value).__name__} without a text: {type(error).__name__}>"
    return text[:MAX_TEXT].encode("utf-8", "backslashreplace").decode()[:MAX_TEXT]


def describe(error: BaseException) -> str:
    """The class of `error` and what it says."""
    name, text = type(error).__name__, plain(error)
    return f"{name}: {text}"[:MAX_TEXT] if text else name
