"""Every setting of the program, and the only reader of the environment.

Each field's description gives meaning, unit and default; `docs/reference/settings.md` and `.env.example` list them
all, and a test holds them to it. A wrong or unknown setting is one line that names it and the remedy; no line ever
shows a secret. Nothing is read at import: `load_settings()` does it once, and `app.py` hands the values on.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import parse_qsl, urlsplit

from dotenv.parser import parse_stream
from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from codemojex.engine import ids, keyspace
from codemojex.engine.errors import InvalidInput, InvalidValue
from codemojex.engine.transport import url as addresses

PREFIX = "CODEMOJEX_"
ROLES = ("intake", "updates", "score", "feed", "send", "clock", "archive")


class SettingsError(Exception):
    """One line per bad setting."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def _token(value: SecretStr) -> SecretStr:
    number, colon, secret = value.get_secret_value().strip().partition(":")
    known = number.isascii() and number.isdigit() and len(number) < 19  # what the store keeps of it
    if not (colon and known and secret and " " not in secret):
        raise ValueError("must look like 123456:ABC…, as @BotFather shows it")
    return SecretStr(f"{number}:{secret}")


def _telegram_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port, host = parts.port, (parts.hostname or "").encode("idna")
        well = parts.scheme in ("http", "https") and host and port != 0
    except ValueError:  # of a port or a name that no host can have
        well = False
    if not well:
        raise ValueError("must be an http or https address such as https://api.telegram.org")
    return value.rstrip("/")


def _loopback(value: str) -> str:
    try:
        if value == "localhost" or ipaddress.ip_address(value).is_loopback:
            return value
    except ValueError:
        pass
    raise ValueError(
        "must be an address of this machine only, such as 127.0.0.1: the local Telegram has no accounts, whoever "
        "reaches it is every person"
    )


def _namespace(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,23}", value):
        raise ValueError("must be 1 to 24 of a-z 0-9 and -, with a letter first, such as second-bot")
    return value


def _valkey_url(value: SecretStr) -> SecretStr:
    try:
        addresses.parse_address(value.get_secret_value())
    except InvalidValue as error:
        raise ValueError(str(error)) from None
    return value


def _database_url(value: SecretStr) -> SecretStr:
    from codemojex.store.address import parse_address  # noqa: PLC0415  # SQLAlchemy takes a moment; few need it here
    from codemojex.store.errors import StoreUnavailable  # noqa: PLC0415

    try:
        parse_address(value.get_secret_value())
    except StoreUnavailable as error:
        raise ValueError(f"{error.problem}; {error.remedy}") from None
    return value


def _numbers(value: str) -> str:
    try:
        ids.node_numbers(value)
    except InvalidValue as error:
        raise ValueError(str(error)) from None
    return value


def _queues(value: str) -> str:
    names = [name.strip() for name in value.split(",")]
    try:
        return ",".join(keyspace.of(name).queue for name in names)
    except InvalidInput as error:
        raise ValueError(f"must be names of queues with commas between them: {error}") from None


class Settings(BaseSettings):
    """What can be set: `CODEMOJEX_<NAME>` in the environment or in `.env`, and `BOT_TOKEN` without the prefix."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
        populate_by_name=True,
    )

    # Where things are
    bot_token: Annotated[SecretStr, AfterValidator(_token)] | None = Field(
        default=None,
        validation_alias=AliasChoices("BOT_TOKEN", f"{PREFIX}BOT_TOKEN"),
        description="The bot's token from @BotFather. Needed by `run` for the roles intake, updates and send; "
        "`play` invents one for the local Telegram. No default.",
    )
    telegram_api_url: Annotated[str, AfterValidator(_telegram_url)] = Field(
        default="https://api.telegram.org",
        description="Address of the Bot API server that `run` talks to. Default: the public one.",
    )
    valkey_url: Annotated[SecretStr, AfterValidator(_valkey_url)] | None = Field(
        default=None,
        description="Address of the Valkey server, valkey://[user:password@]host:port/db or unix:///path; "
        "of a cluster, cluster://host:port,host:port; of a replica set, sentinel://host:port,host:port/service. "
        "Needed by `run`; without it `play` starts an embedded server. No default.",
    )
    database_url: Annotated[SecretStr, AfterValidator(_database_url)] | None = Field(
        default=None,
        description="Address of the durable store, postgresql://user:password@host/name or sqlite:///path. "
        "Default: an SQLite file in the data directory.",
    )
    namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        default="",
        description="Name that every queue, key and local file of this bot stands under, so that several bots share "
        "one server: 1 to 24 of a-z 0-9 and -, with a letter first. It is chosen before the first start. "
        "Default: none.",
    )
    data_dir: Path = Field(
        default=Path(".codemojex"),
        description="Directory of everything that this machine keeps: embedded Valkey, SQLite, heartbeats. "
        "Default: .codemojex in the working directory.",
    )

    # The local Telegram of `play`
    host: Annotated[str, AfterValidator(_loopback)] = Field(
        default="127.0.0.1",
        description="Loopback address of the local Telegram's page and API, which have no accounts and serve this "
        "machine only. Default: 127.0.0.1.",
    )
    port: int = Field(
        default=8765,
        ge=0,
        le=65535,
        description="Port of the local Telegram; the next free one when it is busy, 0 takes any. Default: 8765.",
    )

    # How games are played
    game_duration_s: int | None = Field(
        default=None,
        ge=1,
        le=7 * 86_400,
        description="How long every new game lasts, seconds. Default: as long as its preset says.",
    )

    # How the queues share the work
    lane_by: Literal["room", "player"] = Field(
        default="room",
        description="Whose guesses wait in one line: `room` shares the workers fairly between rooms, `player` between "
        "players. Default: room.",
    )
    partitions: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Number of guess queues that rooms are placed on; it may only be changed while no game is live. "
        "Default: 1.",
    )
    peer_outboxes: Annotated[str, AfterValidator(_queues)] | None = Field(
        default=None,
        description="Queues, comma-separated, whose outbox another engine's pump empties: ours leave it alone and do "
        "the rest. Two makes of pump on one outbox lose entries. Default: none.",
    )
    guess_rate_max: int = Field(
        default=500,
        ge=0,
        le=1_000_000_000,
        description="Guesses that all score workers together may claim per `guess_rate_duration_ms`; 0 means no limit. "
        "Default: 500.",
    )
    guess_rate_duration_ms: int = Field(
        default=1000,
        ge=1,
        le=86_400_000,
        description="Length of the global limiter's window, milliseconds. Default: 1000.",
    )
    update_concurrency: int = Field(
        default=16,
        ge=1,
        le=1000,
        description="Conversations that one process handles at the same time. Default: 16.",
    )
    score_concurrency: int = Field(
        default=32,
        ge=1,
        le=1000,
        description="Guesses that one score worker claims and settles at a time. Default: 32.",
    )
    send_concurrency: int = Field(
        default=16,
        ge=1,
        le=1000,
        description="Messages that one sender has under way at the same time. Default: 16.",
    )
    lease_ms: int = Field(
        default=30_000,
        ge=1000,
        le=3_600_000,
        description="How long a claimed job belongs to its worker before others may take it over, milliseconds; "
        "workers renew it while they work. Default: 30000.",
    )
    send_lease_ms: int = Field(
        default=5000,
        ge=1000,
        le=3_600_000,
        description="The same for a message to Telegram, milliseconds: so long a chat hears nothing when its sender "
        "dies. A call that takes longer keeps its message by renewing. Default: 5000.",
    )
    node_numbers: Annotated[str, AfterValidator(_numbers)] | None = Field(
        default=None,
        description="Node numbers that this program leases to mint ids with; others are for engines of other makes, "
        "see `codemojex nodes`. Default: 128-1007.",
    )
    grace_s: float = Field(
        default=2.0,
        ge=0,
        le=600,
        description="How long a process that is told to stop may finish what it holds, seconds. Default: 2.",
    )

    # What may be sent to Telegram
    send_rate_per_s: float = Field(
        default=25.0,
        ge=0.01,
        le=1000,
        description="Messages per second over all chats. Default: 25, below Telegram's reported 30.",
    )
    send_burst: int = Field(
        default=25,
        ge=1,
        le=1000,
        description="Messages over all chats that may leave at once after a quiet time. Default: 25.",
    )
    chat_rate_per_s: float = Field(
        default=1.0,
        ge=0.01,
        le=100,
        description="Messages per second to one private chat. Default: 1.",
    )
    chat_burst: int = Field(
        default=2,
        ge=1,
        le=100,
        description="Messages to one private chat that may leave at once after a quiet time; one below what Telegram "
        "bears, so that a late answer does not make a third one too early. Default: 2.",
    )
    group_rate_per_min: float = Field(
        default=15.0,
        ge=0.01,
        le=1000,
        description="Messages and edits per minute to one group; with `group_burst` it stays within Telegram's "
        "reported 20. Default: 15.",
    )
    group_burst: int = Field(
        default=5,
        ge=1,
        le=100,
        description="Messages to one group that may leave at once after a quiet time. Default: 5.",
    )
    telegram_timeout_s: float = Field(
        default=15.0,
        gt=0,
        le=300,
        description="How long one call to Telegram may take, seconds (long polls add `poll_timeout_s`). Default: 15.",
    )
    poll_timeout_s: int = Field(
        default=25,
        ge=0,
        le=50,
        description="How long one long poll for updates may wait on the server, seconds. Default: 25.",
    )

    # What is kept in memory and for how long
    cache_max_entries: int = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="Entries of each near-cache table that a process keeps in memory. Default: 10000.",
    )
    archived_keep_s: int = Field(
        default=3600,
        ge=1,
        le=7 * 86_400,
        description="How long an archived game's live keys stay in Valkey, seconds. Default: 3600.",
    )
    unarchived_max: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Finished games that may wait for the archive, over all partitions; then no new game begins. They "
        "do not expire, and one of 50 guesses takes 32 kB of Valkey's memory: the default means 0.3 GB. "
        "Default: 10000.",
    )

    dead_keep_s: int = Field(
        default=30 * 86_400,
        ge=0,
        le=3650 * 86_400,
        description="How long dead letters are kept, seconds since their job was made; a queue keeps 10,000 at most. "
        "Default: 2592000, 30 days.",
    )

    # Metrics
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of /metrics for Prometheus, 0 takes any free one. Default: none, no metrics are served.",
    )
    metrics_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Network interface of /metrics, which has no password. Default: 127.0.0.1, this machine only.",
    )

    # Logs
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The least severity that is logged: debug, info, warning or error. Default: info.",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        default="auto",
        description="`console` for people, `json` for machines, `auto` for console on a terminal and json elsewhere. "
        "Default: auto.",
    )

    @property
    def home(self) -> Path:
        """The directory of this deployment's files: the data directory, or its part for the namespace."""
        return self.data_dir / "namespaces" / self.namespace if self.namespace else self.data_dir

    @property
    def bot_id(self) -> int | None:
        """Who the token belongs to; None without a token."""
        return int(self.bot_token.get_secret_value().partition(":")[0]) if self.bot_token else None

    def secrets(self) -> list[str]:
        """Every secret in force, for the log's redaction: the token, its second half, passwords of URLs."""
        found: list[str] = []
        if self.bot_token:
            token = self.bot_token.get_secret_value()
            found += [token, token.partition(":")[2]]
        for url in (self.valkey_url, self.database_url):
            found += _passwords(url.get_secret_value()) if url else []
        return found


def _passwords(url: str) -> list[str]:
    """The passwords of a URL, which may name several hosts: before the @, and those among the options."""
    address, _, options = url.partition("://")[2].partition("?")
    login = address.partition("/")[0].rpartition("@")[0]
    found = [login.partition(":")[2], *(v for k, v in parse_qsl(options) if k in ("sentinel_password", "ssl_password"))]
    return [password for password in found if password]


def variable(field: str) -> str:
    """The environment variable of a field, as people write it."""
    return "BOT_TOKEN" if field == "bot_token" else PREFIX + field.upper()


def load_settings(*, env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:  # values of any field's type
    """Read environment and `.env`, the former first; `overrides` (of the command line) win over both.

    An override of None is no override. Raises SettingsError with one line per bad or unknown setting.
    """
    named = {*os.environ, *(_names_in(env_file) if env_file else ())}
    lines = _unknown_variables(named)
    given = {name: value for name, value in overrides.items() if value is not None}
    unknown = sorted(set(given) - set(Settings.model_fields))
    if unknown:
        raise TypeError(f"no such setting: {', '.join(unknown)}")
    # The source that fills aliased fields knows them by their alias only.
    if "bot_token" in given:
        given["BOT_TOKEN"] = given.pop("bot_token")
    try:
        # The arguments that say where to read from are not among the fields that the type checker knows.
        settings: Settings = cast(Any, Settings)(_env_file=env_file, _env_file_encoding="utf-8", **given)
    except ValidationError as error:
        lines += [_line(str(fault["loc"][0]) if fault["loc"] else "?", fault["msg"]) for fault in error.errors()]
    else:
        if not lines:
            return settings
    raise SettingsError(lines)


def _line(location: str, message: str) -> str:
    """One sentence: which variable, what is wrong with it, where to read on."""
    name = variable(location) if location in Settings.model_fields else location
    reason = message.removeprefix("Value error, ")
    return f"{name}: {reason[:1].lower()}{reason[1:]} (see docs/reference/settings.md)"


def _names_in(file: Path) -> list[str]:
    """The variables of a `.env`; none when it does not exist. No line of it is shown: it may hold a secret."""
    try:
        with file.open(encoding="utf-8") as stream:
            bindings = list(parse_stream(stream))
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise SettingsError([f"{file}: it is not UTF-8: save it in that encoding"]) from None
    except OSError as error:
        line = f"{file}: it cannot be read ({error.strerror}): mend its permissions, or remove it"
        raise SettingsError([line]) from None
    wrong = [binding.original for binding in bindings if binding.error or (binding.key and binding.value is None)]
    if wrong:
        blank = [one.string[: len(one.string) - len(one.string.lstrip())].count("\n") for one in wrong]
        lines = [one.line + above for one, above in zip(wrong, blank, strict=True)]
        raise SettingsError([f"{file}, line {line}: write NAME=value, and close every quote" for line in lines])
    return [binding.key for binding in bindings if binding.key]


def _unknown_variables(names: Collection[str]) -> list[str]:
    """Variables with our prefix that no field reads: almost always a misspelling."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    lines: list[str] = []
    for name in sorted(names):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            close = difflib.get_close_matches(name.upper(), known, n=1)
            hint = f", did you mean {close[0]}?" if close else ""
            lines.append(f"{name}: there is no such setting{hint} (see docs/reference/settings.md)")
    return lines
