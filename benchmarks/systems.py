"""Which systems are compared, and an environment for each, so that no peer's pins disturb another's or the game's.

`.venv-bench/NAME` is made from `requirements/bench/NAME.txt` when it is first needed and after a change of the file. A
peer that cannot be installed is a `Missing` with one line of reason; the others run on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = "ours"
PEERS = ("arq", "saq", "streaq", "taskiq", "bullmq", "dramatiq")
_INSTALL_S = 300


class Missing(Exception):
    """A peer cannot be measured; the message says why, in one line."""


def python_of(name: str) -> str:
    """The interpreter that has the system `name`, installed if need be. Raises Missing."""
    if name == OURS:
        return sys.executable
    home = ROOT / ".venv-bench" / name
    wanted = (ROOT / "requirements" / "bench" / f"{name}.txt").read_text()
    stamp = home / ".installed"
    python = home / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Installing {name} in .venv-bench (once) ...", file=sys.stderr, flush=True)
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(home))
        pip = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check")
        run(*pip, "install", "--quiet", "--requirement", str(ROOT / "requirements" / "bench" / f"{name}.txt"))
        stamp.write_text(wanted)
    return str(python)


def run(*command: str) -> None:
    """One step of an installation. Raises Missing with the last line that it complained with."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"installing it took longer than {_INSTALL_S} s") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        raise Missing(f"not installed: {errors[-1] if errors else 'pip gave no reason'}")
