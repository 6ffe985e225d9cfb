"""What the repository as a whole promises: no secrets, no addresses of package registries, pinned requirements."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT, repository_files, sources

# Assembled, so that this file does not hold what it searches for.
_ADDRESS = re.compile(
    "|".join(
        [
            r"(registry|resolved|mirror)\"? ?[=:] ?\"?https?:/" + "/",
            r"(extra-)?index" + r"[-_]url",
            r"find" + r"-links",
            r"https?:/" + r"/[^ \"]+\.(whl|tar\.gz|tgz|deb)\b",
            r"https?:/" + r"/(pypi|files\.pythonhosted|registry\.npmjs)",
        ]
    )
)
_HOME = re.compile(r"/(home|Users)" + r"/[a-z]+/|/" + r"work/(main|shared)")
_TOKEN = re.compile(r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}\b")
_PIN = re.compile(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?==[^\s;]+$")
_TEXT = (".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".lua", ".js", ".html", ".css", ".ftl", ".example", ".ini", "")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (_ADDRESS, "no address to download from belongs into the repository; pip's own settings say where"),
        (_HOME, "no path of somebody's machine belongs into the repository"),
        (_TOKEN, "this looks like a bot's token"),
    ],
)
def test_no_file_holds_what_does_not_belong_there(pattern: re.Pattern[str], reason: str) -> None:
    found = [
        f"{path}:{number}: {reason}"
        for path, text in sources(*_TEXT)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_no_lock_file_with_addresses_is_kept() -> None:
    kept = [str(path) for path in repository_files() if path.name in ("uv.lock", "poetry.lock", "package-lock.json")]
    assert not kept


def test_every_direct_dependency_is_pinned() -> None:
    files = sorted((ROOT / "requirements").rglob("*.txt"))
    assert {"app.txt", "dev.txt"} < {path.name for path in files}
    for path in files:
        lines = path.read_text().splitlines()
        loose = [line for line in lines if line and not line.startswith(("#", "-r ")) and not _PIN.fullmatch(line)]
        assert not loose, f"{path.relative_to(ROOT)}: pin {loose}"
