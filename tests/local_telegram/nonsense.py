"""Calls that no client makes: every endpoint with valid fields, and then one or two things wrong with them.

All is drawn from a seed. Nothing here asks for a delay or for an answer of 500: an endpoint that waits is asked to wait
no time, and no fault is of a kind that cuts, delays or breaks.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

Fields = dict[str, Any]
BOUNDARY = "b0undary"
KINDS = ["400", "403", "429", "duplicate", "reorder"]
DIGITS = "9" * 400


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


ABSURD: list[Any] = [
    None, True, "", " ", 0, -1, 1.5, 10**400, -(10**400), 2**63, -(2**63) - 1, 1e308, float("nan"), float("inf"),
    float("-inf"), DIGITS, "-" + DIGITS, "9" * 5000, "1e400", "NaN", "²", "1_0", [], {}, [[]], [None], [True], [DIGITS],
    [10**400], {"a": {}}, _nested(50), _nested(400), _nested(900), "\ud83d", "a\ud83d\ud83d", "\x00", "a\u202eb",
    "x" * 5000, "é" * 300, "<b>", "<a href='http://['>x</a>", "&#xFFFFFF;", "http://[",
    "http://" + "a" * 70 + ".example",
    "http://a:99999/", "http://a:b/", "http://\ud83d/", "http:///", "http://a/\r\nX: y", "http://" + "a." * 200 + "b/",
]  # fmt: skip
FIELDS = [
    "chat_id",
    "user_id",
    "text",
    "kind",
    "kinds",
    "offset",
    "limit",
    "message_id",
    "reply_markup",
    "entities",
    "x" * 99,
]
HEADERS: list[tuple[str, str]] = [
    ("Host", "["), ("Host", "[::1"), ("Host", "]"), ("Host", ""), ("Host", "a b"), ("Host", "127.0.0.1:x"),
    ("Host", "é"),
    ("Origin", "http://["), ("Origin", "http://[::"), ("Origin", "null"), ("Origin", "http://]["), ("Origin", ":"),
    ("Content-Type", "application/json; charset=nope"), ("Content-Type", "multipart/form-data"), ("Content-Type", "/"),
    ("Content-Type", "multipart/form-data; boundary="), ("Content-Type", "multipart/form-data; boundary=" + "b" * 90),
    ("Content-Type", "multipart/mixed; boundary=" + BOUNDARY), ("Content-Type", "application/json; charset=utf-16"),
    ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate"), ("Content-Encoding", "br"),
    ("Content-Encoding", "zstd"),
    ("Content-Encoding", "nonsense"), ("Transfer-Encoding", "chunked"), ("Expect", "100-nothing"), ("Cookie", "=;=;"),
    ("X-Forwarded-For", "\ud83d"), ("Range", "bytes=9-1"), ("If-Modified-Since", "yesterday"),
]  # fmt: skip


class Nonsense:
    """Draws requests: `next()` is one as bytes. `ada` is a person who has started the bot, `group` a group of hers."""

    def __init__(self, seed: int, token: str, ada: int, group: int) -> None:
        self._chance = random.Random(seed)
        self._bot = f"/bot{token}/"
        self._calls = self._valid(ada, group)

    def paths(self) -> set[str]:
        """Every path that is called."""
        return {path for path, _ in self._calls}

    def next(self) -> bytes:
        """One more request, wrong in one or two ways."""
        path, fields = self._chance.choice(self._calls)
        fields = dict(fields)
        for _ in range(self._chance.choice((0, 1, 1, 1, 2))):
            self._spoil(fields)
        self._spare(path, fields)
        bot = path.startswith("/bot")
        draw: Callable[[Fields], tuple[str, bytes]] = self._chance.choice(
            [_json, _json, _form, _multipart] if bot else [_json]
        )
        kind, body = draw(fields)
        if self._chance.random() < 0.15:
            body = self._damaged(body)
        headers = {"Host": "127.0.0.1", "Content-Type": kind}
        if self._chance.random() < 0.15:
            name, value = self._chance.choice(HEADERS)
            headers[name] = value
        if self._chance.random() < 0.03:
            body, headers["Content-Encoding"] = self._damaged(gzip.compress(body, mtime=0)), "gzip"
        verb = "POST"
        if path.startswith("/control/get:") or (bot and self._chance.random() < 0.2):
            path = f"{path.replace('get:', '')}?{_query(fields)}"
            verb, body = "GET", b""
        return _request(verb, path, headers, body)

    def _spoil(self, fields: Fields) -> None:
        way = self._chance.random()
        if way < 0.75 and fields:
            fields[self._chance.choice(list(fields))] = self._chance.choice(ABSURD)
        elif way < 0.85 and fields:
            del fields[self._chance.choice(list(fields))]
        else:
            fields[self._chance.choice(FIELDS)] = self._chance.choice(ABSURD)

    def _spare(self, path: str, fields: Fields) -> None:
        """Ask for no delay, and for no fault that is an answer of 500."""
        if path.endswith("/chaos") and fields.get("kinds") is None:
            fields["kinds"] = []
        if path.endswith("/press") and fields.get("wait_s") in (None, True, 1.5):
            fields["wait_s"] = 0
        if path.endswith("get:changes") and fields.get("timeout_ms") in (None, 2**63, 1e308):
            fields["timeout_ms"] = 0
        if path.endswith("getUpdates") and fields.get("timeout") in (True,):
            fields["timeout"] = 0

    def _damaged(self, body: bytes) -> bytes:
        at = self._chance.randrange(len(body) + 1)
        return self._chance.choice(
            (
                body[:at],
                body[at:],
                body[:at] + self._chance.randbytes(3) + body[at:],
                body[:at] + b"--" + BOUNDARY.encode() + b"\r\n" + body[at:],
                body + body,
            )
        )

    def _valid(self, ada: int, group: int) -> list[tuple[str, Fields]]:
        keyboard = {"inline_keyboard": [[{"text": "a", "callback_data": "b"}]]}
        say: Fields = {"chat_id": ada, "text": "a <b>b</b>", "parse_mode": "HTML", "reply_markup": keyboard}
        message = {"chat_id": ada, "message_id": 1}
        commands = [{"command": "a", "description": "b"}]
        scope = {"scope": {"type": "chat", "chat_id": group}, "language_code": "en"}
        control: dict[str, Fields] = {
            "people": {"name": "Eve", "username": "eve_1", "language": "en"},
            "groups": {"title": "G", "members": [ada], "kind": "supergroup", "forum": True, "privacy": False,
                       "admins": [ada], "bot_admin": True, "bot": True},
            "send": {"user_id": ada, "chat_id": ada, "text": "hi", "thread_id": None, "reply_to": 1, "anonymous": False,
                     "forwarded": True},
            "edit": {"user_id": ada, "chat_id": ada, "message_id": 1, "text": "/start again"},
            "press": {"user_id": ada, "chat_id": ada, "message_id": 2, "data": "b", "wait_s": 0, "inaccessible": True},
            "members": {"chat_id": group, "user_id": ada, "action": "promote"},
            "topics": {"user_id": ada, "chat_id": group, "thread_id": None, "name": "T", "closed": False},
            "migrate": {"chat_id": group},
            "block": {"user_id": ada, "blocked": False},
            "faults": {"method": "getMe", "kind": "400", "times": 1, "retry_after": 1, "description": "d", "chat_id": 1,
                       "delay_s": 0},
            "chaos": {"seed": 1, "probability": 0.1, "kinds": KINDS, "method": "getChat"},
            "clear_faults": {},
            "bot": {"privacy": True},
            "clock": {"shift_s": 1},
            "get:state": {"user_id": ada},
            "get:messages": {"chat_id": ada, "thread_id": 1},
            "get:log": {"method": "getMe", "after": 1_000_000},
            "get:updates": {},
            "get:faults": {},
            "get:changes": {"after": -1, "timeout_ms": 0},
        }  # fmt: skip
        bot: dict[str, Fields] = {
            "getMe": {},
            "getUpdates": {"offset": -1, "limit": 5, "timeout": 0, "allowed_updates": ["message"]},
            "setWebhook": {"url": "", "secret_token": "s", "max_connections": 1, "allowed_updates": [],
                           "drop_pending_updates": True},
            "deleteWebhook": {"drop_pending_updates": False},
            "getWebhookInfo": {},
            "sendMessage": {**say, "message_thread_id": 0, "reply_parameters": {"message_id": 1},
                            "ephemeral_message_parameters": {"receiver_user_id": ada}},
            "editMessageText": {**say, "message_id": 2},
            "editMessageReplyMarkup": {**message, "reply_markup": keyboard},
            "deleteMessage": {"chat_id": ada, "message_id": 10**6},
            "answerCallbackQuery": {"callback_query_id": "1", "text": "t", "show_alert": True, "url": "u",
                                    "cache_time": 1},
            "pinChatMessage": message,
            "unpinChatMessage": message,
            "unpinAllChatMessages": {"chat_id": group},
            "sendChatAction": {"chat_id": ada, "message_thread_id": 0, "action": "typing"},
            "getChat": {"chat_id": group},
            "getChatMember": {"chat_id": group, "user_id": ada},
            "getChatAdministrators": {"chat_id": group},
            "getChatMemberCount": {"chat_id": group},
            "setMyCommands": {"commands": commands, **scope},
            "getMyCommands": scope,
            "deleteMyCommands": scope,
            "setMyName": {"name": "N", "language_code": "en"},
            "getMyName": {"language_code": "en"},
            "setMyDescription": {"description": "D", "language_code": "en"},
            "getMyDescription": {"language_code": "en"},
            "setMyShortDescription": {"short_description": "S", "language_code": "en"},
            "getMyShortDescription": {"language_code": "en"},
        }  # fmt: skip
        return [(f"/control/{name}", f) for name, f in control.items()] + [(self._bot + n, f) for n, f in bot.items()]


def _json(fields: Fields) -> tuple[str, bytes]:
    return "application/json", json.dumps(fields).encode()


def _texts(fields: Fields) -> dict[str, bytes]:
    """The fields as a form carries them: structures are JSON."""
    texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in fields.items() if v is not None}
    return {name: text.encode(errors="surrogatepass") for name, text in texts.items()}


def _query(fields: Fields) -> str:
    return "&".join(f"{name}={quote(value)}" for name, value in _texts(fields).items())


def _form(fields: Fields) -> tuple[str, bytes]:
    return "application/x-www-form-urlencoded", urlencode(_texts(fields)).encode()


def _multipart(fields: Fields) -> tuple[str, bytes]:
    line = f"--{BOUNDARY}\r\n".encode()
    parts = [
        line + b'Content-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value + b"\r\n"
        for name, value in _texts(fields).items()
    ]
    return f"multipart/form-data; boundary={BOUNDARY}", b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def _request(verb: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    if "Transfer-Encoding" in headers:
        body += b"\r\nno chunk\r\n"  # else the server would wait for more, as it should
    else:
        headers = {**headers, "Content-Length": str(len(body))}
    head = f"{verb} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return head.encode(errors="surrogatepass") + b"\r\n" + body
