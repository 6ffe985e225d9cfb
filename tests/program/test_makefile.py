"""The commands of the Makefile: explained, quick the second time, and one clear line for what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

TOOLS = ("sh", "make", "touch", "awk", "id", "mktemp", "rm", "tail", "echo", "find")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with the Makefile and what its targets depend on, and an empty set of programs beside it."""
    clone = tmp_path / "clone"
    (clone / "requirements").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "requirements/app.txt", "requirements/dev.txt"):
        shutil.copy2(ROOT / name, clone / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, f"{tool} is missing on this machine"
        (programs / tool).symlink_to(found)
    return clone


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(clone.parent / "bin"), "HOME": str(clone)}
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def program(clone: Path, name: str, script: str) -> None:
    path = clone.parent / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what is wrong; make adds a line of its own after it."""
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def set_up(clone: Path) -> None:
    (clone / ".venv").mkdir()
    for stamp in (".made", ".run", ".dev"):
        (clone / ".venv" / stamp).touch()


def test_make_alone_explains_every_target(clone: Path) -> None:
    shown = make(clone)
    assert shown.returncode == 0
    targets = re.findall(r"^([a-z]+):.*## (.*)$", (clone / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) >= 8
    for target, meaning in targets:
        assert re.search(rf"^  {target} +{re.escape(meaning)}$", shown.stdout, re.MULTILINE), target


def test_a_missing_python_is_one_line(clone: Path) -> None:
    assert complaint(make(clone, "install")).startswith("Python 3.11 or newer is missing: install it")


def test_an_old_python_counts_as_missing_and_a_chosen_one_is_named(clone: Path) -> None:
    program(clone, "python3", "exit 1")
    assert complaint(make(clone, "play")).startswith("Python 3.11 or newer is missing")
    assert "oldpython" in complaint(make(clone, "play", "PYTHON=oldpython"))


def test_a_newer_python_beside_an_old_one_is_found(clone: Path) -> None:
    program(clone, "python3", "exit 1")
    program(clone, "python3.12", 'case "$*" in *ensurepip*) exit 1;; esac')
    assert "python3-venv" in complaint(make(clone, "install"))


def test_a_python_without_venv_is_one_line(clone: Path) -> None:
    program(clone, "python3", 'case "$*" in *ensurepip*) exit 1;; esac')
    line = complaint(make(clone, "install"))
    assert line.startswith("the Python module venv is missing")
    assert "apt-get install python3-venv" in line


def test_a_failed_installation_leaves_nothing_that_looks_ready(clone: Path) -> None:
    program(clone, "python3", 'case "$*" in "-m venv"*) exit 1;; esac')
    assert make(clone, "install").returncode != 0
    assert not (clone / ".venv" / ".made").exists()


def test_an_environment_that_is_ready_is_left_alone(clone: Path) -> None:
    set_up(clone)
    done = make(clone, "install")
    assert done.returncode == 0
    assert "nstalling" not in done.stdout


def test_changed_requirements_are_installed_again(clone: Path) -> None:
    set_up(clone)
    stamp = (clone / ".venv" / ".run").stat().st_mtime_ns + 1_000_000_000
    import os

    os.utime(clone / "requirements" / "app.txt", ns=(stamp, stamp))
    assert "Installing what the program needs" in make(clone, "install").stdout


def test_play_needs_no_browser_and_no_tools_for_tests(clone: Path) -> None:
    set_up(clone)
    (clone / ".venv" / ".dev").unlink()
    (clone / ".venv" / "bin").mkdir()
    (clone / ".venv" / "bin" / "codemojex").write_text('#!/bin/sh\necho "started with $*"\n')
    (clone / ".venv" / "bin" / "codemojex").chmod(0o755)
    done = make(clone, "play", "ARGS=--port 9000")
    assert done.stdout == "started with play --port 9000\n"


def test_a_missing_browser_is_one_line_where_it_cannot_be_installed(clone: Path) -> None:
    line = complaint(make(clone, "browser"))
    assert line.startswith("chromium is missing: install it")


def test_root_on_debian_gets_the_browser_installed(clone: Path) -> None:
    program(clone, "id", "echo 0")
    program(clone, "apt-get", f'echo "$@" >> {clone}/asked')
    assert make(clone, "browser").returncode == 0
    assert "chromium fonts-noto-color-emoji" in (clone / "asked").read_text()


def test_a_browser_that_cannot_be_installed_is_one_line_with_the_reason(clone: Path) -> None:
    program(clone, "id", "echo 0")
    program(clone, "apt-get", "echo 'no route to the archive'; exit 100")
    line = complaint(make(clone, "browser"))
    assert "chromium is missing" in line
    assert "no route to the archive" in line


def test_a_browser_that_is_there_is_enough(clone: Path) -> None:
    program(clone, "google-chrome", "exit 1")
    assert make(clone, "browser").returncode == 0


def test_clean_removes_the_games_and_keeps_the_environment(clone: Path) -> None:
    set_up(clone)
    (clone / ".codemojex" / "play").mkdir(parents=True)
    (clone / "codemojex" / "__pycache__").mkdir(parents=True)
    assert make(clone, "clean").returncode == 0
    assert not (clone / ".codemojex").exists()
    assert not (clone / "codemojex" / "__pycache__").exists()
    assert (clone / ".venv" / ".run").exists()
