"""What every command of the program shares: its log, its signals, and faults that are said in one line.

The first signal asks the work to stop in order, the second ends it at once. What a user can mend (an address, a
password, a directory) becomes a `UserError`; everything else is a defect and keeps its traceback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, cast

from codemojex import logs
from codemojex.embedded import EmbeddedServerError
from codemojex.engine.errors import AccessDenied, CommandRefused, ConnectionFault, EngineError, ServerError, ServerFull
from codemojex.outages import Outages
from codemojex.settings import Settings
from codemojex.store.errors import NotOurs, StoreUnavailable

VALKEY_URL = "CODEMOJEX_VALKEY_URL"
_CLOSING_S = 3.0  # for the event loop to close once the work is over
_AT_ONCE_S = 1.0  # what a second signal leaves for closing files and ending the embedded server


class UserError(Exception):
    """Something outside is wrong; the message is one line with the remedy."""


class WrongUsage(UserError):
    """What was asked for cannot be done; the message is one line with the remedy."""


def carry_out(
    settings: Settings, work: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, server: str = VALKEY_URL
) -> int:
    """Run `work` with logging and signals set up; the exit code.

    `server` names what says where the server is. Raises UserError for what a user can mend.
    """
    outages = Outages()
    logs.configure(level=settings.log_level, form=settings.log_format, secrets=settings.secrets(), filters=[outages])
    left = _LeftBehind()
    try:
        with mendable(server):
            return asyncio.run(_until_signalled(work, left, outages))
    except BaseExceptionGroup as group:
        with mendable(server):
            raise _only(group) from None
    finally:
        left.ended()
        outages.end()
    raise AssertionError("unreachable")


class _LeftBehind:
    """Ends the process when its work is over and something of it does not end: a task, or a thread of the loop."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def work_is_over(self, code: int) -> None:
        """From now on the event loop may take `_CLOSING_S` to close."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        self._timer = threading.Timer(_CLOSING_S, self._end, (code, tasks))
        self._timer.daemon = True
        self._timer.start()

    def ended(self) -> None:
        """The loop is closed."""
        if self._timer:
            self._timer.cancel()

    def _end(self, code: int, tasks: set[asyncio.Task[Any]]) -> None:
        names = [getattr(task.get_coro(), "__qualname__", task.get_name()) for task in tasks if not task.done()]
        names += [f"thread {each.name}" for each in threading.enumerate() if each.name.startswith("asyncio_")]
        print(f"codemojex: ended without {', '.join(sorted(names))}, which did not end", file=sys.stderr, flush=True)
        os._exit(code)


async def _until_signalled(
    work: Callable[[asyncio.Event], Awaitable[None]], left: _LeftBehind, outages: Outages
) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    stop = asyncio.Event()

    def signalled() -> None:
        if not stop.is_set():
            print("codemojex: stopping; Ctrl-C again ends it at once", file=sys.stderr, flush=True)
            stop.set()
        elif task is not None:
            task.cancel("a second signal")
            loop.call_later(_AT_ONCE_S, os._exit, 130)  # whatever still hangs; the next start takes over

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    code = 0
    watch = loop.create_task(outages.watch())
    try:
        await work(stop)
    except asyncio.CancelledError:
        code = 130
    finally:
        watch.cancel()
    left.work_is_over(code)
    return code


@contextmanager
def mendable(server: str = VALKEY_URL) -> Generator[None]:
    """Turn what a user can mend into a `UserError`; `server` as for `carry_out`."""
    try:
        yield
    except AccessDenied as error:
        raise UserError(f"{error} ({server})") from error
    except ConnectionFault as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        if "READONLY" in reason:
            raise UserError(
                f"the server is a replica and takes no writes: give its primary's address ({server})"
            ) from error
        raise UserError(f"{reason}: check that Valkey runs there, and {server}") from error
    except (StoreUnavailable, NotOurs, EmbeddedServerError, EngineError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, ServerError) and not isinstance(error, CommandRefused | ServerFull):
            reason = f"the server says: {reason}: check that it is a Valkey for codemojex, and {server}"
        raise UserError(reason) from error
    except OSError as error:
        reason, place = error.strerror or error, error.filename
        raise UserError(
            f"{place} cannot be used ({reason}): choose another place, or mend this one"
            if place
            else f"{reason}: check the address and the permissions"
        ) from error


def _only(error: BaseException) -> BaseException:
    """The one exception at the bottom of nested groups; a group itself when it holds several."""
    inner = cast("tuple[BaseException, ...]", getattr(error, "exceptions", ()))
    return _only(inner[0]) if len(inner) == 1 else error
