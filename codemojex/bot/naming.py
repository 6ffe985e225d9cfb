"""Gives an update its names on the bus: the conversation (lane), the dedup key, and its JSON. Never raises.

Whatever Telegram sends has a place: what cannot be read here goes to the lane `0:0`, and what cannot travel as it is
goes as a note that says why, which the update worker turns into a dead letter.
"""

from __future__ import annotations

import hashlib
import json
from typing import cast

from codemojex.play.inbound.inbox import Incoming

MAX_UPDATE_BYTES = 60_000  # below the bus's limit for a payload; nothing that the game reads is that long
NOWHERE = "0:0"
SET_ASIDE = "set_aside"  # the field of a note that stands for an update which cannot travel
_MAX_ID = 2**63 - 1
_MAX_UPDATE_ID = 2**53  # beyond it JSON readers disagree about a number; Telegram's are of 32 bits
_UNWRITABLE = (ValueError, TypeError, RecursionError)


def incoming(bot_id: int, update: object) -> Incoming:
    """Name an update's conversation and its dedup key, and keep its JSON."""
    try:
        payload = _json(update)
    except _UNWRITABLE as error:
        return set_aside(bot_id, update, f"it cannot be written as JSON: {type(error).__name__}")
    if len(payload) > MAX_UPDATE_BYTES:
        return set_aside(bot_id, update, f"it has {len(payload)} bytes, the limit is {MAX_UPDATE_BYTES}")
    return Incoming(conversation(update), _dedup(bot_id, update, payload), payload)


def set_aside(bot_id: int, update: object, reason: str) -> Incoming:
    """A note in the update's place: it was there, and why it cannot be worked."""
    payload = _json({"update_id": update_id(update), SET_ASIDE: reason})
    return Incoming(conversation(update), _dedup(bot_id, update, payload), payload)


def update_id(update: object) -> int | None:
    """The update's number; None when it has none that can be one."""
    number = cast("dict[str, object]", update).get("update_id") if isinstance(update, dict) else None
    return number if type(number) is int and 0 <= number <= _MAX_UPDATE_ID else None


def conversation(update: object) -> str:
    """`chat:topic` for what happens in a chat, `user:0` for what belongs to a person only, else `0:0`."""
    if isinstance(update, dict):
        for body in cast("dict[str, object]", update).values():
            if isinstance(body, dict) and (place := _place(cast("dict[str, object]", body))) is not None:
                return place
    return NOWHERE


def _place(event: dict[str, object]) -> str | None:
    inner = event.get("message")
    message = cast("dict[str, object]", inner) if isinstance(inner, dict) else event
    if (chat := _id_in(message.get("chat"))) is not None:
        # A reply in an ordinary group carries a thread id too; only topics are rooms of their own.
        thread = message.get("message_thread_id") if message.get("is_topic_message") is True else None
        return f"{chat}:{thread if type(thread) is int and 0 < thread <= _MAX_ID else 0}"
    person = _id_in(event.get("from")) or _id_in(event.get("user"))
    return None if person is None else f"{person}:0"


def _id_in(thing: object) -> int | None:
    number = cast("dict[str, object]", thing).get("id") if isinstance(thing, dict) else None
    return number if type(number) is int and 0 < abs(number) <= _MAX_ID else None


def _dedup(bot_id: int, update: object, payload: bytes) -> str:
    number = update_id(update)
    return f"{bot_id}:{hashlib.sha256(payload).hexdigest()[:32] if number is None else number}"


def _json(update: object) -> bytes:
    text = json.dumps(update, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # JSON may spell half a surrogate pair, which no text has bytes for
