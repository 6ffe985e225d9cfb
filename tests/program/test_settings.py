"""Settings: where they come from, and that a bad one is one clear line without its secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.clock import SystemClock
from codemojex.engine.ids import Minter
from codemojex.engine.transport.connector import Connector
from codemojex.play.caches import with_caches
from codemojex.play.context import Play
from codemojex.roles.internal import Observers, limits_of, no_queue, options_of, parts_of, queues_of, worker_options
from codemojex.settings import PREFIX, Settings, SettingsError, load_settings
from tests.support.valkey import ValkeyServer

TOKEN = "123456:abcDEF-secret"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith(PREFIX) or name == "BOT_TOKEN":
            monkeypatch.delenv(name)


def load(**overrides: object) -> Settings:
    return load_settings(env_file=None, **overrides)


def refusal(**overrides: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(**overrides)
    return caught.value.lines


def test_everything_has_a_default() -> None:
    settings = load()
    assert settings.bot_token is None
    assert settings.lane_by == "room"
    assert settings.data_dir == Path(".codemojex")


def test_every_field_has_a_description_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        assert "efault" in (field.description or ""), name


@pytest.mark.parametrize("name", ["BOT_TOKEN", "CODEMOJEX_BOT_TOKEN"])
def test_the_token_is_read_with_and_without_the_prefix(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, TOKEN)
    token = load().bot_token
    assert token is not None
    assert token.get_secret_value() == TOKEN


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / ".env"
    file.write_text(f"CODEMOJEX_PORT=1111\nCODEMOJEX_HOST=127.0.0.2\nBOT_TOKEN={TOKEN}\n")
    monkeypatch.setenv("CODEMOJEX_PORT", "2222")
    settings = load_settings(env_file=file)
    assert (settings.port, settings.host) == (2222, "127.0.0.2")
    assert settings.bot_token is not None
    assert load_settings(env_file=file, port=3333, host=None).port == 3333
    other = load_settings(env_file=file, bot_token="9:other").bot_token
    assert other is not None
    assert other.get_secret_value() == "9:other"


def test_an_empty_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEMOJEX_VALKEY_URL", "")
    assert load().valkey_url is None


def test_each_bad_setting_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEMOJEX_PORT", "many")
    monkeypatch.setenv("CODEMOJEX_LANE_BY", "chat")
    monkeypatch.setenv("CODEMOJEX_DATABASE_URL", "mysql://user:hunter2@host/db")
    monkeypatch.setenv("BOT_TOKEN", "not-a-token-hunter2")
    lines = refusal()
    assert len(lines) == 4
    for name in ("CODEMOJEX_PORT:", "CODEMOJEX_LANE_BY:", "CODEMOJEX_DATABASE_URL:", "BOT_TOKEN:"):
        assert sum(line.startswith(name) for line in lines) == 1, lines
    assert "hunter2" not in "".join(lines)
    assert "\n" not in "".join(lines)


def test_a_misspelt_setting_is_refused_with_the_likely_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CODEMOJEX_LANEBY", "player")
    file = tmp_path / ".env"
    file.write_text("CODEMOJEX_LEASE=1\nOTHER=1\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(env_file=file)
    first, second = caught.value.lines
    assert first.startswith("CODEMOJEX_LANEBY:")
    assert "CODEMOJEX_LANE_BY" in first
    assert second.startswith("CODEMOJEX_LEASE:")
    assert "CODEMOJEX_LEASE_MS" in second


def test_secrets_do_not_show_in_a_printed_settings_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_TOKEN", TOKEN)
    settings = load(valkey_url="valkey://me:hunter2@host", database_url="postgresql://me:hunter3@host/db")
    shown = f"{settings!r} {settings} {settings.model_dump_json()}"
    assert not [secret for secret in ("abcDEF", "hunter2", "hunter3") if secret in shown]
    assert settings.secrets() == [TOKEN, "abcDEF-secret", "hunter2", "hunter3"]


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("valkey://me:hunter2@one:1/3", ["hunter2"]),
        ("valkeys://me:hunter2@[::1]?ssl_password=hunter4", ["hunter2", "hunter4"]),
        ("unix://me:hunter2@/run/valkey.sock?db=1", ["hunter2"]),
        ("cluster://me:hunter2@one:1,[::1]:2", ["hunter2"]),
        ("clusters://me:hunter2@one:1,[::1]:2/0?ssl_password=hunter4", ["hunter2", "hunter4"]),
        ("sentinel://me:hunter2@one:1,[::1]:2/jobs?sentinel_password=hunter3", ["hunter2", "hunter3"]),
        (
            "sentinels://me:hunter2@one:1/jobs/2?sentinel_password=hunter3&ssl_password=hunter4",
            ["hunter2", "hunter3", "hunter4"],
        ),
    ],
)
def test_every_topology_is_accepted_and_its_passwords_are_secrets(url: str, secrets: list[str]) -> None:
    settings = load(valkey_url=url)
    assert settings.valkey_url is not None
    assert settings.secrets() == secrets


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"CODEMOJEX_PORT=\xff", ""),
        (b'# mine\nBOT_TOKEN="1:hunter2\nA=1\n', ", line 2"),
        (b"A=1\nhunter2 !\n", ", line 2"),
        (b"A=1\nhunter2\n", ", line 2"),
        (b"A=1\n\nexport hunter2\nB=2\n", ", line 3"),
        (b"# a remark\n\nhunter2 # as well\n", ", line 3"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_line_and_not_shown(
    tmp_path: Path, content: bytes, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / ".env"
    file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load_settings(env_file=file)
    (line,) = caught.value.lines
    assert line.startswith(f"{file}{named}: ")
    assert "hunter2" not in line
    assert caplog.records == []  # the parser's own words are none of ours


@pytest.mark.parametrize("end", [min, max])
async def test_the_engine_takes_what_a_setting_may_be(
    end: Callable[[list[float]], float], start_valkey: Callable[..., ValkeyServer]
) -> None:
    def ends(name: str) -> list[float]:
        rules = Settings.model_fields[name].metadata
        return [getattr(rule, side) for rule in rules for side in ("ge", "le") if hasattr(rule, side)]

    settings = load(**{name: end(ends(name)) for name in Settings.model_fields if len(ends(name)) == 2})
    bus = await Connector.connect(start_valkey().url)
    for queue, given in limits_of(settings).items():
        for setting in given:
            await setting(bus, queue)
    store: Any = None
    settings = settings.model_copy(update={"partitions": 1})  # many take long
    play = Play(bus, Minter(1), SystemClock(), store, options=options_of(settings))
    for role in ("score", "feed", "clock", "archive"):
        assert parts_of(role, settings, play, "me", Observers())
    for concurrency in (settings.update_concurrency, settings.send_concurrency):
        worker_options(settings, "cm", concurrency)
    with_caches(play, NearCache(bus), max_entries=settings.cache_max_entries)
    await bus.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CODEMOJEX_PORT", "65536"),
        ("CODEMOJEX_LEASE_MS", "0"),
        ("CODEMOJEX_SEND_RATE_PER_S", "0"),
        ("CODEMOJEX_GUESS_RATE_MAX", "99999999999999999999"),
        ("CODEMOJEX_GROUP_RATE_PER_MIN", "0.001"),
        ("CODEMOJEX_GRACE_S", "nan"),
        ("CODEMOJEX_HOST", "0.0.0.0"),
        ("CODEMOJEX_HOST", "300.1.1.1"),
        ("CODEMOJEX_HOST", "example.org"),
        ("CODEMOJEX_VALKEY_URL", "localhost:6379"),
        ("CODEMOJEX_VALKEY_URL", "valkey://u:hunter2@h/x"),
        ("CODEMOJEX_VALKEY_URL", "valkey://u:hunter2@h?foo=1"),
        ("CODEMOJEX_VALKEY_URL", "valkey://u:hunter2@h:99999"),
        ("CODEMOJEX_VALKEY_URL", "cluster://"),
        ("CODEMOJEX_VALKEY_URL", "sentinel://u:hunter2@h:1"),
        ("CODEMOJEX_DATABASE_URL", "games.db"),
        ("CODEMOJEX_DATABASE_URL", "sqlite://games.db"),
        ("CODEMOJEX_DATABASE_URL", "postgresql://u:hunter2@h:99999/x"),
        ("CODEMOJEX_DATABASE_URL", "postgresql://u:hunter2@h/x?foo=1"),
        ("CODEMOJEX_TELEGRAM_API_URL", "api.telegram.org"),
        ("CODEMOJEX_TELEGRAM_API_URL", "http://a..b"),
        ("CODEMOJEX_TELEGRAM_API_URL", "http://host:99999"),
        ("CODEMOJEX_PEER_OUTBOXES", "cm,c m"),
        ("CODEMOJEX_NODE_NUMBERS", "900-1008"),
        ("BOT_TOKEN", "123456"),
    ],
)
def test_a_value_that_cannot_work_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    (line,) = refusal()
    assert line.startswith(f"{name}: ")
    assert "hunter2" not in line


@pytest.mark.parametrize("name", ["a", "second-bot", "b2", "a" * 24])
def test_a_namespace_stands_before_every_queue_and_every_file(name: str) -> None:
    settings = load(namespace=name, partitions=2)
    options = options_of(settings)
    assert (options.guesses, options.inbox, options.outbound) == (f"{name}.cm", f"{name}.cm.in", f"{name}.cm.out")
    assert list(queues_of(options)) == [f"{name}.cm.in", f"{name}.cm", f"{name}.cm.1", f"{name}.cm.out"]
    assert settings.home == Path(".codemojex/namespaces") / name


def test_without_a_namespace_queues_and_files_are_called_as_ever() -> None:
    settings = load()
    options = options_of(settings)
    assert (options.namespace, list(queues_of(options))) == ("", ["cm.in", "cm", "cm.out"])
    assert settings.home == Path(".codemojex")


@pytest.mark.parametrize("name", ["A", "1a", "-a", "a.b", "a_b", "a{b", "a b", "é", "a" * 25, "a\n"])
def test_a_namespace_that_no_key_could_carry_is_refused(name: str) -> None:
    [line] = refusal(namespace=name)
    assert "CODEMOJEX_NAMESPACE" in line


@pytest.mark.parametrize("number", ["²", "1" * 19, ""])
def test_a_token_whose_number_no_bot_has_is_refused(number: str) -> None:
    [line] = refusal(bot_token=f"{number}:abcDEF-secret")
    assert "BOT_TOKEN" in line


def test_the_outbox_of_a_queue_is_left_to_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert no_queue(load()) == []
    monkeypatch.setenv("CODEMOJEX_PEER_OUTBOXES", "cm, cm.out,cm.aut")
    settings = load()
    assert no_queue(settings) == ["cm.aut"]
    assert [worker_options(settings, queue, 1).deliver for queue in ("cm", "cm.in", "cm.out")] == [False, True, False]
