"""Sets up the log of a process: structured lines, coloured on a terminal, JSON elsewhere.

Every package logs through the standard library's `logging`; the records of libraries take the same way out. Promise:
a bot token, a password in a URL and whatever is registered as secret leave no process through its log, neither in the
message, in a field, nor in a traceback. Tracebacks show no local variables. It opens no files and rotates nothing.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO, cast

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

HIDDEN = "[hidden]"
_PATTERNS = (
    (re.compile(r"(?<!\d)\d{5,}:[A-Za-z0-9_-]{20,}"), HIDDEN),  # a bot token, also inside /bot<token>/
    (re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),  # the password of a URL
)
_SECRET_FIELD = re.compile(
    r"(^|_)(token|secret|nonce|password|passwd|authorization|api_key|secret_token)$", re.IGNORECASE
)
_NOISY = ("aiohttp.access", "asyncio", "aiogram.event", "alembic")
_MAX_DEPTH = 6


class Redactor:
    """A log processor that hides secrets: by the field's name, by pattern, and every registered value."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        # The longest first, so that no part of a secret survives; very short ones would blank out ordinary words.
        self._secrets = sorted({s for s in secrets if len(s) >= 6}, key=len, reverse=True)

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        return {key: self._field(key, value, _MAX_DEPTH) for key, value in event.items()}

    def text(self, text: str) -> str:
        """`text` without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def _field(self, key: str, value: object, depth: int) -> object:
        if _SECRET_FIELD.search(key) and value is not None:
            return HIDDEN
        return self._value(value, depth)

    def _value(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping) and depth:
            items = cast(Mapping[object, object], value).items()
            return {str(key): self._field(str(key), item, depth - 1) for key, item in items}
        if isinstance(value, list | tuple | set | frozenset) and depth:
            return [self._value(item, depth - 1) for item in cast(Sequence[object], value)]
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return self.text(str(cast(object, value)))


def configure(
    *,
    level: Literal["debug", "info", "warning", "error"] = "info",
    form: Literal["auto", "console", "json"] = "auto",
    secrets: Sequence[str] = (),
    stream: TextIO | None = None,
    filters: Sequence[logging.Filter] = (),
) -> Redactor:
    """Send all logging of this process to `stream` (standard error when None), without `secrets`.

    `filters` decide which records are written. A second call replaces the first. Returns the redactor, for texts that
    leave by another way than the log.
    """
    out = stream or sys.stderr
    console = form == "console" or (form == "auto" and out.isatty())
    redactor = Redactor(secrets)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if console else "iso", utc=not console),
    ]
    render: Processor = (
        structlog.dev.ConsoleRenderer(colors=out.isatty()) if console else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redactor,
                render,
            ],
        )
    )
    handler.filters[:] = filters
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel("DEBUG" if level == "debug" else "WARNING")
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return redactor
