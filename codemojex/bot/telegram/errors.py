"""Says once what an error of the Bot API means; everybody else decides by the `TelegramFault`, never by a text.

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


class TelegramFault(StrEnum):
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

    fault: TelegramFault
    reason: str
    retry_after_s: int = 0
    migrated_to: int = 0


# Beginnings and parts of the server's own sentences, in lower case; the first that fits decides.
_BAD_REQUESTS: tuple[tuple[str, TelegramFault], ...] = (
    ("message is not modified", TelegramFault.NOT_MODIFIED),
    ("message to edit not found", TelegramFault.MESSAGE_GONE),
    ("message can't be edited", TelegramFault.MESSAGE_GONE),
    ("message to delete not found", TelegramFault.MESSAGE_GONE),
    ("message_id_invalid", TelegramFault.MESSAGE_GONE),
    ("query is too old", TelegramFault.QUERY_EXPIRED),
    ("query id is invalid", TelegramFault.QUERY_EXPIRED),
    ("message thread not found", TelegramFault.THREAD_GONE),
    ("topic_deleted", TelegramFault.THREAD_GONE),
    ("topic_closed", TelegramFault.NO_RIGHTS),
    ("not enough rights", TelegramFault.NO_RIGHTS),
    ("have no rights to send", TelegramFault.NO_RIGHTS),
    ("chat_write_forbidden", TelegramFault.NO_RIGHTS),
    ("chat_admin_required", TelegramFault.NO_RIGHTS),
    ("chat_restricted", TelegramFault.NO_RIGHTS),
    ("chat not found", TelegramFault.CHAT_GONE),
    ("user not found", TelegramFault.CHAT_GONE),
    ("peer_id_invalid", TelegramFault.CHAT_GONE),
    ("user_is_blocked", TelegramFault.CHAT_GONE),
    ("group chat was upgraded", TelegramFault.CHAT_GONE),
    ("group chat was deactivated", TelegramFault.CHAT_GONE),
)
_NEVER_CONNECTED = ("Connector", "ConnectionTimeout", "ProxyConnection")


def classify(error: Exception) -> Classified:
    """What `error`, raised by a call of the Bot API, means. An exception of another kind is REFUSED by its class."""
    if isinstance(error, TelegramRetryAfter):
        return Classified(TelegramFault.FLOOD, _reason(error), retry_after_s=error.retry_after)
    if isinstance(error, TelegramMigrateToChat):
        return Classified(TelegramFault.MIGRATED, _reason(error), migrated_to=error.migrate_to_chat_id)
    if isinstance(error, TelegramBadRequest):
        return Classified(_bad_request(error.message), _reason(error))
    if isinstance(error, TelegramForbiddenError):
        return Classified(_forbidden(error.message), _reason(error))
    if isinstance(error, TelegramUnauthorizedError):
        return Classified(TelegramFault.UNAUTHORIZED, _reason(error))
    if isinstance(error, TelegramNotFound):
        # The server answers 404 to a malformed token, and to a method that it does not know.
        unknown_token = error.message.removeprefix("Not Found").strip(": ") == ""
        return Classified(TelegramFault.UNAUTHORIZED if unknown_token else TelegramFault.REFUSED, _reason(error))
    if isinstance(error, TelegramConflictError):
        return Classified(TelegramFault.CONFLICT, _reason(error))
    if isinstance(error, TelegramServerError):
        simulated = error.message.startswith("not simulated")
        return Classified(TelegramFault.REFUSED if simulated else TelegramFault.SERVER, _reason(error))
    if isinstance(error, ClientDecodeError):
        return _undecodable(error)
    if isinstance(error, TelegramNetworkError):
        return Classified(_network(error), f"{type(error.method).__name__}: {_cause(error)}")
    if isinstance(error, TelegramAPIError):
        return Classified(TelegramFault.REFUSED, _reason(error))
    return Classified(TelegramFault.REFUSED, type(error).__name__)


def _reason(error: TelegramAPIError) -> str:
    return f"{type(error.method).__name__}: {error.message.splitlines()[-1]}"


def _bad_request(message: str) -> TelegramFault:
    text = message.lower()
    return next((fault for part, fault in _BAD_REQUESTS if part in text), TelegramFault.REFUSED)


def _forbidden(message: str) -> TelegramFault:
    return TelegramFault.NO_RIGHTS if "not enough rights" in message.lower() else TelegramFault.CHAT_GONE


def _network(error: TelegramNetworkError) -> TelegramFault:
    cause = type(error.__cause__).__name__
    incomplete = "write request body" in error.message  # a server does not act on half a request
    never = incomplete or any(part in cause for part in _NEVER_CONNECTED)
    return TelegramFault.NEVER_SENT if never else TelegramFault.UNKNOWN_OUTCOME


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
        return Classified(
            TelegramFault.UNKNOWN_OUTCOME if done else TelegramFault.SERVER, "an answer of an unknown shape"
        )
    return Classified(TelegramFault.SERVER, "an answer that is not JSON")
