"""Says once what an error of the Bot API means; everybody else decides by the `Fault`, never by a text.

Telegram tells its 400s apart only by fixed English sentences, so they are compared here and nowhere else. No error
text that leaves this module holds the token: it carries the method's name and Telegram's description.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)


class Fault(StrEnum):
    """What went wrong, by what has to be done about it."""

    NOT_MODIFIED = "not_modified"  # nothing to do: the message already reads so
    MESSAGE_GONE = "message_gone"  # send a fresh one
    QUERY_EXPIRED = "query_expired"  # ignore
    NO_RIGHTS = "no_rights"  # stop sending to this chat until something changes
    THREAD_GONE = "thread_gone"  # fall back to the chat
    CHAT_GONE = "chat_gone"  # unreachable: blocked, kicked, deleted
    MIGRATED = "migrated"  # the chat has another id now
    FLOOD = "flood"  # rest exactly as long as told
    UNAUTHORIZED = "unauthorized"  # the token is wrong: end
    CONFLICT = "conflict"  # somebody else polls
    SERVER = "server"  # refused by a sick server: back off and repeat
    NEVER_SENT = "never_sent"  # no connection: back off and repeat
    UNKNOWN_OUTCOME = "unknown_outcome"  # sent, no answer: it may have happened
    REFUSED = "refused"  # a defect of the request itself: repeating is useless


class BadToken(Exception):
    """Telegram refuses the bot token; the program cannot go on."""

    def __init__(self) -> None:
        super().__init__("Telegram refuses the bot token: check BOT_TOKEN against what @BotFather shows")


@dataclass(frozen=True, slots=True)
class Classified:
    """A fault with what belongs to it: `retry_after_s` of a flood, `migrated_to` of a migration."""

    fault: Fault
    reason: str
    retry_after_s: int = 0
    migrated_to: int = 0


# Beginnings and parts of the server's own sentences, in lower case; the first that fits decides.
_BAD_REQUESTS: tuple[tuple[str, Fault], ...] = (
    ("message is not modified", Fault.NOT_MODIFIED),
    ("message to edit not found", Fault.MESSAGE_GONE),
    ("message can't be edited", Fault.MESSAGE_GONE),
    ("message to delete not found", Fault.MESSAGE_GONE),
    ("message_id_invalid", Fault.MESSAGE_GONE),
    ("query is too old", Fault.QUERY_EXPIRED),
    ("query id is invalid", Fault.QUERY_EXPIRED),
    ("message thread not found", Fault.THREAD_GONE),
    ("topic_deleted", Fault.THREAD_GONE),
    ("topic_closed", Fault.NO_RIGHTS),
    ("not enough rights", Fault.NO_RIGHTS),
    ("have no rights to send", Fault.NO_RIGHTS),
    ("chat_write_forbidden", Fault.NO_RIGHTS),
    ("chat_admin_required", Fault.NO_RIGHTS),
    ("chat_restricted", Fault.NO_RIGHTS),
    ("chat not found", Fault.CHAT_GONE),
    ("user not found", Fault.CHAT_GONE),
    ("peer_id_invalid", Fault.CHAT_GONE),
    ("user_is_blocked", Fault.CHAT_GONE),
    ("group chat was upgraded", Fault.CHAT_GONE),
    ("group chat was deactivated", Fault.CHAT_GONE),
)
_NEVER_CONNECTED = ("Connector", "ConnectionTimeout", "ProxyConnection")


def classify(error: Exception) -> Classified:
    """What `error`, raised by a call of the Bot API, means. An exception of another kind is REFUSED by its class."""
    if isinstance(error, TelegramRetryAfter):
        return Classified(Fault.FLOOD, _reason(error), retry_after_s=error.retry_after)
    if isinstance(error, TelegramMigrateToChat):
        return Classified(Fault.MIGRATED, _reason(error), migrated_to=error.migrate_to_chat_id)
    if isinstance(error, TelegramBadRequest):
        return Classified(_bad_request(error.message), _reason(error))
    if isinstance(error, TelegramForbiddenError):
        return Classified(_forbidden(error.message), _reason(error))
    if isinstance(error, TelegramUnauthorizedError):
        return Classified(Fault.UNAUTHORIZED, _reason(error))
    if isinstance(error, TelegramNotFound):
        # The server answers 404 to a malformed token, and to a method that it does not know.
        unknown_token = error.message.removeprefix("Not Found").strip(": ") == ""
        return Classified(Fault.UNAUTHORIZED if unknown_token else Fault.REFUSED, _reason(error))
    if isinstance(error, TelegramConflictError):
        return Classified(Fault.CONFLICT, _reason(error))
    if isinstance(error, TelegramServerError):
        simulated = error.message.startswith("not simulated")
        return Classified(Fault.REFUSED if simulated else Fault.SERVER, _reason(error))
    if isinstance(error, ClientDecodeError):
        return _undecodable(error)
    if isinstance(error, TelegramNetworkError):
        return Classified(_network(error), f"{type(error.method).__name__}: {_cause(error)}")
    if isinstance(error, TelegramAPIError):
        return Classified(Fault.REFUSED, _reason(error))
    return Classified(Fault.REFUSED, type(error).__name__)


def _reason(error: TelegramAPIError) -> str:
    return f"{type(error.method).__name__}: {error.message.splitlines()[-1]}"


def _bad_request(message: str) -> Fault:
    text = message.lower()
    return next((fault for part, fault in _BAD_REQUESTS if part in text), Fault.REFUSED)


def _forbidden(message: str) -> Fault:
    return Fault.NO_RIGHTS if "not enough rights" in message.lower() else Fault.CHAT_GONE


def _network(error: TelegramNetworkError) -> Fault:
    cause = type(error.__cause__).__name__
    incomplete = "write request body" in error.message  # a server does not act on half a request
    never = incomplete or any(part in cause for part in _NEVER_CONNECTED)
    return Fault.NEVER_SENT if never else Fault.UNKNOWN_OUTCOME


def _cause(error: TelegramNetworkError) -> str:
    """The class of what the client met, and the system's words: its own may show the call's URL, and so the token."""
    cause = error.__cause__
    if cause is None:
        return type(error).__name__
    words = getattr(cause, "strerror", None)
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__


def _undecodable(error: ClientDecodeError) -> Classified:
    """Not JSON at all: a proxy's error page, nothing was done. JSON of an unknown shape: it was done."""
    data = cast("object", error.data)
    if isinstance(data, dict):
        done = cast("dict[str, object]", data).get("ok") is True
        return Classified(Fault.UNKNOWN_OUTCOME if done else Fault.SERVER, "an answer of an unknown shape")
    return Classified(Fault.SERVER, "an answer that is not JSON")
