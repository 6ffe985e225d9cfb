"""The door: what comes from outside is checked here before anything is made of it.

Promise: what passes is accepted by every later step, the durable store included, so that a forged value costs one
update and never a game. An id out of range is refused by name (ValueError); a text is cut and cleaned instead, for a
strange name is no reason to turn a person away. Nothing here does I/O.
"""

from __future__ import annotations

import re

from codemojex.engine import ids, validation
from codemojex.engine.errors import InvalidValue

MAX_ID = 2**63 - 1  # a BIGINT of the store, and what the wire formats of the bus hold
MAX_NAME = 256  # Telegram's own: two names of 64 characters, a title of 255
MAX_LANG = 35  # the longest tag of RFC 5646; the column's width
MAX_KIND = 16  # the column's width; Telegram's longest is "supergroup"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL has no NUL in a text, UTF-8 no half of a surrogate pair
_LANG = re.compile(r"[A-Za-z0-9_-]{1,35}")


def user_id(value: int, what: str = "user_id") -> int:
    """`value` when it may be a person's id; raises InvalidValue with the field's name `what` otherwise."""
    return validation.integer(what, value, 1, MAX_ID)


def chat_id(value: int, what: str = "chat_id") -> int:
    """`value` when it may be a chat's id, which is negative for a group; raises InvalidValue otherwise."""
    if validation.integer(what, value, -MAX_ID, MAX_ID) == 0:
        raise InvalidValue(f"{what}=0 is no chat: use a person's id or a group's negative one")
    return value


def thread_id(value: int | None, what: str = "thread_id") -> int | None:
    """`value` when it is None or may be a topic's id; raises InvalidValue otherwise."""
    return value if value is None else validation.integer(what, value, 1, MAX_ID)


def message_id(value: int, what: str = "message_id") -> int:
    """`value` when it may be a message's id; raises InvalidValue otherwise. An ephemeral message has 0."""
    return validation.integer(what, value, 0, MAX_ID)


def kind(value: str) -> str:
    """`value` when it may be the kind of a chat; raises InvalidValue otherwise."""
    return validation.text("the kind of a chat", value, 1, MAX_KIND)


def name(value: str) -> str:
    """A person's name or a chat's title as it is kept: nothing that cannot be stored, and not endless."""
    return _UNSTORABLE.sub("", value[: 2 * MAX_NAME])[:MAX_NAME]


def language(value: str) -> str:
    """The hint at a person's language, or "" when it is no language tag."""
    return value if _LANG.fullmatch(value) else ""


def game_id(value: str | None) -> str | None:
    """`value` when it is the id of a game in form and range, else None: the one reader of ids in links and buttons."""
    return value if value is not None and value[:3] == "GAM" and ids.is_valid(value) else None
