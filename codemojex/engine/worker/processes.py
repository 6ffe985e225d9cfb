"""Processes for plain handlers that need a core of their own, or must be killable.

Each call has a process to itself for as long as it lasts; an idle one is kept for the next call. Jobs and answers go
through a pipe, pickled. A process that dies fails the call it worked on and nothing else. The processes are spawned,
so a program's main module is imported again in them: it needs `if __name__ == "__main__"` around what starts it.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from codemojex.engine.error_text import describe
from codemojex.engine.errors import InvalidValue

_SPAWN = multiprocessing.get_context("spawn")
_END_S = 1.0


class Named:
    """A function that stands in its module under another object's name, such as a task.

    A process finds what it runs by its module and name, so the object is what is sent there.
    """

    function: Callable[[Any], Any]

    def __reduce__(self) -> str:
        return str(vars(self)["__qualname__"])


class Process:
    """One process, started by its first call. `call` blocks: use it in a thread."""

    def __init__(self, handler: bytes, name: str) -> None:
        self._handler = handler
        self._name = name
        self._process: Any = None  # the context's own class
        self._pipe: Any = None
        self._killed = False

    @property
    def usable(self) -> bool:
        """Whether another call may be sent."""
        return not self._killed and (self._process is None or self._process.is_alive())

    def call(self, argument: object) -> object:
        """Run the handler there; what it returns and raises."""
        if self._process is None:
            self._start()
        pipe: Any = self._pipe
        process: Any = self._process
        try:
            pipe.send(argument)
            well, answer = pipe.recv()
        except (EOFError, OSError) as error:
            process.join(_END_S)
            code = process.exitcode
            self.kill()
            raise RuntimeError(f"the process of handler {self._name} ended, exit code {code}") from error
        if well:
            return answer
        raise answer

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Kill it, and give back what the system keeps of it."""
        self.kill()
        if self._process is not None:
            self._process.join(_END_S)
            self._pipe.close()

    def _start(self) -> None:
        self._pipe, other = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_serve, args=(other, self._handler), name=self._name, daemon=True)
        process.start()
        other.close()
        self._process = process
        if self._killed:
            process.kill()


class Processes:
    """The processes of one handler, at most `limit` of them."""

    def __init__(self, what: str, name: str, handler: object, limit: int) -> None:
        """Raises InvalidValue for a function that another process cannot find."""
        try:
            self._handler = pickle.dumps(handler)
        except Exception as error:  # of whatever the function holds
            raise InvalidValue(
                f"{what} {name} cannot run in a process: {describe(error)}. A process finds a function by its module "
                "and name: define it at the top of a module (not a lambda, not inside another function)"
            ) from error
        self._name = name
        self._idle: list[Process] = []
        self._limit = limit

    def take(self) -> Process:
        """A process for one call."""
        while self._idle:
            process = self._idle.pop()
            if process.usable:
                return process
            process.close()
        return Process(self._handler, self._name)

    def give_back(self, process: Process) -> None:
        """The call is over."""
        if process.usable and len(self._idle) < self._limit:
            self._idle.append(process)

    def close(self) -> None:
        """Kill the idle ones."""
        for process in self._idle:
            process.close()
        self._idle.clear()


def _serve(pipe: Connection, pickled: bytes) -> None:
    """The process: answer one call after the other until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    function: Callable[[object], object] | None = None
    while True:
        try:
            argument = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            function = function or _function(pickled)
            answer = pickle.dumps((True, function(argument)))
        except BaseException as error:  # the caller raises it again
            answer = pickle.dumps((False, _sendable(error)))
        pipe.send_bytes(answer)


def _function(pickled: bytes) -> Callable[[object], object]:
    handler = pickle.loads(pickled)  # made by our own parent, see `Processes`
    return handler.function if isinstance(handler, Named) else handler


def _sendable(error: BaseException) -> BaseException:
    """`error`, or one that says the same when it does not survive the way."""
    try:
        if describe(pickle.loads(pickle.dumps(error))) == describe(error):
            return error
    except Exception:  # its class takes other arguments than it keeps, say
        pass
    return RuntimeError(describe(error))
