"""The source files that the rules are about, as the repository holds them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file under version control or about to be, relative to the root, that exists."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    paths = sorted({Path(name) for name in listed.decode().split("\0") if name})
    return tuple(path for path in paths if (ROOT / path).is_file())


def sources(*suffixes: str, under: str = "") -> Iterator[tuple[Path, str]]:
    """Path and text of every file with one of the suffixes below `under`."""
    for path in repository_files():
        if path.suffix in suffixes and path.as_posix().startswith(under):
            yield path, (ROOT / path).read_text(encoding="utf-8")
