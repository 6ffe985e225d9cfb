"""What each command of the program does: it reads the settings, finds the servers, and prints or serves.

Serving itself is in `serving`; what all commands share, signals and faults, in `run_command`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from codemojex import deferred_aiogram
from codemojex.embedded import data_directory, embedded_valkey, make, running_instance, server_url
from codemojex.engine.errors import InvalidValue
from codemojex.engine.ids import node_numbers
from codemojex.engine.transport.connector import Connector
from codemojex.ops import health as probe
from codemojex.ops import numbers
from codemojex.ops.status import read, show
from codemojex.play.archive import backlog
from codemojex.roles.internal import no_queue, options_of, queues_of, talks
from codemojex.roles.limits_keeper import Keeper
from codemojex.run_command import UserError, WrongUsage, carry_out, mendable
from codemojex.serving import Locations, heartbeats, serve
from codemojex.settings import ROLES, Settings, variable
from codemojex.store.migrate import migrate as migrate_store

if TYPE_CHECKING:
    pass

__all__ = [
    "UserError", "WrongUsage", "conformance", "export_protocol", "health", "limits", "migrate", "nodes", "play", "run",
    "status",
]  # fmt: skip
_log = logging.getLogger(__name__)


def play(settings: Settings) -> int:
    """Every role in this process, with embedded servers and the local Telegram; returns after a signal."""
    _import_talking()
    return carry_out(settings, lambda stop: _play(settings, stop))


def run(settings: Settings, roles: Sequence[str], strict: bool) -> int:
    """The given roles against the servers of the settings; `strict` wants servers that keep what they are given."""
    if unknown := no_queue(settings):
        queues = ", ".join(queues_of(options_of(settings)))
        raise WrongUsage(f"{variable('peer_outboxes')}: there is no queue {', '.join(unknown)}: choose from {queues}")
    if any(talks(role) for role in roles):
        _import_talking()
    return carry_out(settings, lambda stop: _run(settings, roles, stop, strict=strict))


def migrate(settings: Settings) -> int:
    """Bring the store's tables up to date."""

    async def work(_: asyncio.Event) -> None:
        if settings.database_url is None:
            make(settings.home)
        revision = await migrate_store(_database(settings))
        print(f"the store is at revision {revision}")

    return carry_out(settings, work)


def health(settings: Settings, roles: Sequence[str]) -> int:
    """Print what is well and what is not; 0 when all is."""

    async def work(_: asyncio.Event) -> None:
        place = await _place(settings)
        checks = probe.checks_for(
            valkey_url=place.valkey,
            database_url=place.database,
            directory=heartbeats(place.directory),
            roles=roles,
            queues=queues_of(options_of(settings)),
            options=options_of(settings),
        )
        findings.extend(await probe.examine(checks))

    findings: list[probe.Finding] = []
    code = carry_out(settings, work)
    for finding in findings:
        field = f"{finding.name}_url"  # there is none for a role
        named = not finding.well and settings.valkey_url is not None and getattr(settings, field, None) is not None
        told = f"{finding.detail} ({variable(field)})" if named else finding.detail
        mark = "warn" if finding.doubtful else "ok  " if finding.well else "FAIL"
        print(f"{mark} {finding.name}: {told}")
    return code if all(finding.well for finding in findings) else 1


def status(settings: Settings) -> int:
    """Print how the queues stand."""

    async def work(_: asyncio.Event) -> None:
        bus = await Connector.connect((await _place(settings)).valkey)
        try:
            options = options_of(settings)
            waiting = backlog.total(list((await backlog.read(bus, options)).values()))
            show(await read(bus, queues_of(options)), sys.stdout, unarchived=waiting)
        finally:
            await bus.close()

    return carry_out(settings, work)


def limits(settings: Settings, reset: bool) -> int:
    """Print the limits that stand on the server, after setting those of the settings again if asked to."""

    async def work(_: asyncio.Event) -> None:
        bus = await Connector.connect((await _place(settings)).valkey)
        try:
            keeper = Keeper(bus, settings)
            if reset:
                await keeper.look(reset=True)
            for queue, line in (await keeper.standing()).items():
                print(f"{queue}: {line}")
        finally:
            await bus.close()

    return carry_out(settings, work)


def nodes(settings: Settings, action: str, which: str | None, note: str) -> int:
    """List, reserve or release node numbers on the server of the settings."""
    try:
        chosen = None if which is None else node_numbers(which)
    except InvalidValue as error:
        raise WrongUsage(str(error)) from error
    if (chosen is None) != (action == "list"):
        raise WrongUsage("`nodes list` takes no numbers; `reserve` and `release` take some, such as 68 or 0-99")

    async def work(_: asyncio.Event) -> None:
        bus = await Connector.connect((await _place(settings)).valkey)
        try:
            if chosen is None:
                await numbers.listing(bus, numbers.leased_by(settings.node_numbers), sys.stdout)
            elif action == "reserve":
                await numbers.reserve(bus, chosen, note, sys.stdout)
            else:
                await numbers.release(bus, chosen, sys.stdout)
        finally:
            await bus.close()

    return carry_out(settings, work)


def conformance(settings: Settings, url: str | None, only: str | None, flush: bool) -> int:
    """Print a line per scenario and one for all; 0 when none failed, 130 when some were not reached."""
    from codemojex.engine.protocol.conformance import runner, table
    from codemojex.engine.transport import url as addresses

    try:
        if url is not None:
            addresses.parse_address(url)
    except InvalidValue as error:
        raise WrongUsage(f"--url: {error}") from error
    try:
        chosen = runner.choose(table.SCENARIOS, only)
    except InvalidValue as error:
        raise WrongUsage(str(error)) from error
    ran: list[str] = []
    failed: list[str] = []
    skipped: list[str] = []

    async def examine(address: str, stop: asyncio.Event) -> None:
        async with aclosing(runner.run(address, chosen, flush=flush)) as results:
            async for result in results:
                mark, tail = ("✗", f": {result.failure}") if result.failure else ("✓", "")
                if result.skipped:
                    mark, tail = "-", f": skipped, {result.skipped}"
                    skipped.append(result.name)
                print(f"{mark} {result.name} – {result.seconds * 1000:.0f} ms{tail}", flush=True)
                ran.append(result.name)
                failed.extend([result.name] if result.failure else [])
                if stop.is_set():
                    return

    async def work(stop: asyncio.Event) -> None:
        if url is not None:
            await examine(url, stop)
            return
        with tempfile.TemporaryDirectory(prefix="codemojex-") as directory:
            async with embedded_valkey(Path(directory), aof=False) as address:
                await examine(address, stop)

    code = carry_out(settings, work, server="--url")
    if failed:
        print(f"{len(failed)} of {len(ran)} scenarios failed: {', '.join(failed)}")
    elif len(ran) == len(chosen):
        held = len(ran) - len(skipped)
        tail = f", {len(skipped)} were skipped: {', '.join(skipped)}" if skipped else ""
        print(("1 scenario holds" if held == 1 else f"{held} scenarios hold") + tail)
    if len(ran) < len(chosen):
        print(f"interrupted: {len(ran)} of {len(chosen)} scenarios ran")
    return code or (1 if failed else 0 if len(ran) == len(chosen) else 130)


def export_protocol(settings: Settings, directory: Path, force: bool) -> int:
    """Write the protocol's data files and say where."""
    from codemojex.engine.protocol import export

    del settings
    try:
        with mendable():
            written = export.write(directory, force=force)
    except UserError as error:
        raise WrongUsage(str(error)) from error
    print(f"{len(written)} files of the protocol are in {directory}")
    return 0


def _import_talking() -> None:
    """Before any loop runs, so that Ctrl-C ends a slow import at once."""
    deferred_aiogram.load()
    from codemojex.roles import telegram as talking

    del talking


async def _play(settings: Settings, stop: asyncio.Event) -> None:
    with data_directory(settings.home) as directory:
        async with AsyncExitStack() as stack:
            database = _sqlite(directory)
            await migrate_store(database)
            valkey = await stack.enter_async_context(embedded_valkey(directory))
            from codemojex.local_telegram import LocalTelegram
            from codemojex.roles.telegram import Account

            telegram = LocalTelegram(settings.host, settings.port, data_file=directory / "telegram.json")
            await telegram.start()
            stack.push_async_callback(telegram.stop)
            telegram.furnish()
            if settings.port not in (0, telegram.port):
                print(f"\n  Port {settings.port} is busy: the page is at {telegram.url}.")
            print(f"\n  codemojex is open: {telegram.url}\n  Games are kept in {directory}. Ctrl-C ends.\n", flush=True)
            account = Account(telegram.token, telegram.url)
            await serve(settings, ROLES, Locations(valkey, database, directory), account, stop)


async def _run(settings: Settings, roles: Sequence[str], stop: asyncio.Event, *, strict: bool = False) -> None:
    account = None
    if any(talks(role) for role in roles):
        from codemojex.roles.telegram import Account

        if settings.bot_token is None:
            raise UserError("BOT_TOKEN is missing: set it to the bot's token from @BotFather, or use `codemojex play`")
        account = Account(settings.bot_token.get_secret_value(), settings.telegram_api_url)
    place = Locations(_valkey(settings), _database(settings), settings.home)
    await serve(settings, roles, place, account, stop, strict=strict)


async def _place(settings: Settings) -> Locations:
    """The place that the settings name; without a server in them, the game that `play` has open on this machine."""
    if settings.valkey_url is None:
        directory = await running_instance(settings.home)
        if directory is None:
            raise UserError(
                f"no game is open in {settings.home} and CODEMOJEX_VALKEY_URL is missing: start `codemojex play`, "
                "or set it to the server's address, such as valkey://localhost:6379/0"
            )
        return Locations(server_url(directory), _sqlite(directory), directory)
    return Locations(_valkey(settings), _database(settings), settings.home)


def _valkey(settings: Settings) -> str:
    if settings.valkey_url is None:
        raise UserError(
            "CODEMOJEX_VALKEY_URL is missing: set it to the server's address, such as valkey://localhost:6379/0"
        )
    return settings.valkey_url.get_secret_value()


def _database(settings: Settings) -> str:
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    return _sqlite(settings.home)


def _sqlite(directory: Path) -> str:
    return f"sqlite+aiosqlite:///{directory.absolute() / 'store.db'}"
