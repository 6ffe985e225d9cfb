"""What a user can mend is one line that names the thing and the remedy, with the exit code of its kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codemojex import logs
from codemojex.cli import main
from codemojex.settings import PREFIX, ROLES
from tests.support.valkey import ValkeyServer

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def codemojex(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process, in a directory of its own: exit code, output, errors."""
    for name in list(os.environ):
        if name.startswith(PREFIX) or name == "BOT_TOKEN":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "configure", lambda **_: None)  # the log of this process is the tests'

    def run(*words: str, **settings: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["codemojex", *words])
        for name, value in settings.items():
            monkeypatch.setenv(PREFIX + name.upper(), value)
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, told.out, told.err

    return run


def _line(text: str) -> str:
    [line] = text.splitlines()
    assert line.startswith("codemojex: ")
    return line


@pytest.mark.parametrize("command", ["run", "health"])
@pytest.mark.parametrize("roles", ["", ",", "score,nobody"])
def test_roles_that_are_none_are_wrong_usage_and_the_roles_are_listed(
    codemojex: Command, command: str, roles: str
) -> None:
    code, _, said = codemojex(command, "--roles", roles)
    assert code == 2
    assert ", ".join(ROLES) in _line(said)


def test_a_wrong_setting_ends_every_command_before_it_begins(codemojex: Command) -> None:
    code, shown, said = codemojex("play", host="0.0.0.0")
    assert (code, shown) == (2, "")
    assert "CODEMOJEX_HOST" in _line(said)


@pytest.mark.parametrize("command", [("migrate",), ("run", "--roles", "score"), ("play",)])
def test_a_data_directory_that_cannot_be_made_is_named_with_its_setting(
    codemojex: Command, valkey_url: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    code, _, said = codemojex(*command, data_dir="file", valkey_url=valkey_url)
    assert code == 1
    assert all(word in _line(said) for word in ("file", "cannot be used", "CODEMOJEX_DATA_DIR"))


def test_a_server_that_answers_with_an_error_is_named_by_where_it_was_given(
    codemojex: Command, valkey_url: str
) -> None:
    url = f"{valkey_url}?db=77"
    for words, given, settings in (
        (("status",), "CODEMOJEX_VALKEY_URL", {"valkey_url": url}),
        (("conformance", "--url", url, "--only", "mint"), "--url", {}),
        (("conformance", "--url", "unix:///no/such", "--only", "mint"), "--url", {}),
    ):
        code, _, said = codemojex(*words, **settings)
        assert code == 1
        assert "check that" in _line(said)
        assert _line(said).endswith(f", and {given}")


def test_health_names_the_settings_of_what_is_not_well(codemojex: Command, valkey_url: str) -> None:
    given = {"valkey_url": f"{valkey_url}?db=77", "database_url": "postgresql://me:hunter2@127.0.0.1:1/x"}
    code, shown, _ = codemojex("health", **given)
    valkey, database, games = shown.splitlines()
    assert code == 1
    assert valkey.startswith("FAIL valkey")
    assert valkey.endswith("(CODEMOJEX_VALKEY_URL)")
    assert database.endswith("(CODEMOJEX_DATABASE_URL)")
    assert games.startswith("FAIL finished games"), "what the server does not tell is not well"
    assert "hunter2" not in shown


@pytest.mark.parametrize("place", ["/proc/x", "out"])
def test_an_export_to_where_nothing_can_be_written_is_wrong_usage(
    codemojex: Command, tmp_path: Path, place: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/commands").touch()
    code, _, said = codemojex("protocol", "export", place, "--force")
    assert code == 2
    assert "choose another place" in _line(said)


def test_the_protocol_is_exported_into_an_empty_directory_only(codemojex: Command, tmp_path: Path) -> None:
    code, shown, said = codemojex("protocol", "export", "out")
    assert (code, "files of the protocol are in out" in shown) == (0, True), said
    assert (tmp_path / "out/commands/settle.lua").is_file()
    code, _, said = codemojex("protocol", "export", "out")
    assert (code, "--force" in _line(said)) == (2, True)
    assert codemojex("protocol", "export", "out", "--force")[0] == 0


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (("--url", "bogus"), "codemojex: --url: "),
        (("--url", "valkey://localhost:port"), "codemojex: --url: "),
        (("--only", "nonsense"), "codemojex: there is no scenario 'nonsense'"),
    ],
)
def test_an_address_or_a_scenario_that_is_none_is_wrong_usage(
    codemojex: Command, words: tuple[str, ...], start: str
) -> None:
    code, shown, said = codemojex("conformance", *words)
    assert (code, shown) == (2, "")
    assert _line(said).startswith(start)


def test_a_server_that_may_lose_data_is_named_at_the_start_and_refused_when_that_is_wanted(
    codemojex: Command, start_valkey: Callable[..., ValkeyServer], caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "valkey_url": start_valkey("--maxmemory-policy", "allkeys-lru", aof=True).url,
        "database_url": "postgresql://me@127.0.0.1:1/x",  # the start ends here
    }
    code, _, said = codemojex("run", "--roles", "score", **given)
    assert (code, "allkeys-lru" in said) == (1, False)
    (line,) = [record.getMessage() for record in caplog.records if "may lose" in record.getMessage()]
    assert all(word in line for word in ("allkeys-lru", "set maxmemory-policy noeviction"))
    code, _, said = codemojex("run", "--roles", "score", "--strict", **given)
    assert code == 1
    assert all(word in _line(said) for word in ("allkeys-lru", "noeviction", "CODEMOJEX_VALKEY_URL"))


def test_a_replica_is_refused_with_where_its_primary_is_to_be_given(
    codemojex: Command, start_valkey: Callable[..., ValkeyServer]
) -> None:
    url = start_valkey("--replicaof", "127.0.0.1 1", aof=True).url
    for words in (("run", "--roles", "score"), ("status",)):
        code, _, said = codemojex(*words, valkey_url=url)
        assert code == 1
        assert "give its primary's address (CODEMOJEX_VALKEY_URL)" in _line(said)


def test_health_marks_what_may_be_lost_and_is_well(
    codemojex: Command, start_valkey: Callable[..., ValkeyServer]
) -> None:
    url = start_valkey(aof=False).url
    assert codemojex("migrate")[0] == 0
    code, shown, _ = codemojex("health", valkey_url=url)
    assert code == 0, shown
    assert shown.startswith("warn valkey: answers; appendonly is no")
