"""The product as people run it: a process of `codemojex play`, its page, and an honest end.

A product lives in a directory of its own and answers at the address that it prints. `interrupt` is Ctrl-C as a terminal
sends it, `kill` is what a power cut leaves behind. Whatever happens to a test, `close` ends every process that a
product started; a guard does so when the test's own process is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.architecture.sources import ROOT

START_S = 90.0  # importing everything takes seconds on a machine that does other things as well
END_S = 30.0
_STEP_S = 0.02
_OPEN = re.compile(r"codemojex is open: (http://\S+)")
_GUARD = 'cat >/dev/null; kill -9 "-$0"; for f in "$1"/*/valkey.pid; do kill -9 "$(cat "$f")"; done; rm -rf "$2"'


def environment(**settings: object) -> dict[str, str]:
    """This process's environment without settings of codemojex, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CODEMOJEX_")}
    kept.pop("BOT_TOKEN", None)
    kept |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return kept | {name: str(value) for name, value in settings.items()}


@dataclass(frozen=True)
class End:
    """How a product ended: its code, the seconds that it took, and how many of those went by without a processor."""

    code: int
    took_s: float
    starved_s: float


class Product:
    """A working directory with at most one running product in it. `settings` are environment variables.

    Its data is where it is without being told, or in `data`, which several products may share.
    """

    def __init__(self, port: int = 0, data: Path | None = None, **settings: object) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="cmxp-"))  # short: a socket's path has its limit
        self.data = data or self.directory / ".codemojex"
        self.port = port
        self._told = [] if data is None else ["--data-dir", str(data)]
        self.settings = settings
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @property
    def database(self) -> str:
        """The address of the durable store."""
        return f"sqlite+aiosqlite:///{self.data / 'play' / 'store.db'}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the product does not run"
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything that the running or last product wrote."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def start(self) -> Product:
        """Start the product, again if it has ended, and wait until it says where its page is."""
        self._end_guard()
        self._starts += 1
        self._output = self.directory / f"output-{self._starts}"
        command = [sys.executable, "-m", "codemojex", "play", "--port", str(self.port), *self._told]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment(**self.settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        guard = ["sh", "-c", _GUARD, str(self._process.pid), str(self.data), str(self.directory)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + START_S
        while (found := _OPEN.search(self.output)) is None:
            assert self._process.poll() is None, f"the product ended at its start:\n{self.output}"
            assert time.monotonic() < deadline, f"the product did not open within {START_S} s:\n{self.output}"
            time.sleep(_STEP_S)
        self.url = found[1]
        return self

    def interrupt(self) -> End:
        """Ctrl-C: the signal goes to the whole group of processes, as a terminal sends it; wait for the end."""
        assert self._process is not None, "the product does not run"
        # Its processes, and this one, which watches.
        watched = {pid: _starved_s(pid) for pid in (*self.processes(), os.getpid())}
        waited = dict.fromkeys(watched, 0.0)
        began = time.monotonic()
        os.killpg(self.pid, signal.SIGINT)
        while (code := self._process.poll()) is None:
            for pid, before in watched.items():
                waited[pid] = max(waited[pid], _starved_s(pid) - before)
            assert time.monotonic() - began < END_S, f"the product does not end after Ctrl-C:\n{self.output}"
            time.sleep(_STEP_S)
        return End(code, time.monotonic() - began, sum(waited.values()))

    def kill(self) -> None:
        """End the product as a power cut does, as far as processes go: its Valkey server may stay behind."""
        assert self._process is not None, "the product does not run"
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(END_S)

    def processes(self) -> dict[int, str]:
        """The living processes of this directory: pid → command. The embedded server stands in a session of its own."""
        found: dict[int, str] = {}
        for process in psutil.process_iter(["cmdline", "status"]):
            command = " ".join(process.info["cmdline"] or [])
            ours = str(self.data) in command or self._in_group(process.pid)
            guard = _GUARD in command
            if ours and not guard and process.info["status"] != psutil.STATUS_ZOMBIE:
                found[process.pid] = command
        return found

    def close(self) -> None:
        """End whatever is left and remove the directory; a second call does nothing."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._end_guard()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def _in_group(self, pid: int) -> bool:
        try:
            return self._process is not None and os.getpgid(pid) == self._process.pid
        except ProcessLookupError:
            return False


def _starved_s(pid: int) -> float:
    """How long the threads of a process have waited for a processor; 0 where the system does not tell."""
    waited = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            waited += int(path.read_text().split()[1])
    return waited / 1e9
