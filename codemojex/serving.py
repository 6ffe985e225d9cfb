"""Builds everything once and runs it in one task group.

A stop ends every part in order within the grace, then what is left is cancelled. What a role consists of is in `roles`;
`roles.telegram` is imported only where it is needed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codemojex.embedded import make
from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.clock import SystemClock
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.transport.connector import Connector
from codemojex.engine.transport.url import shown
from codemojex.ops import numbers, server
from codemojex.ops.heartbeat import Heartbeat
from codemojex.play.caches import with_caches
from codemojex.play.context import Play
from codemojex.play.owner import Claim, Ownership
from codemojex.roles.internal import Observers, Part, both, observe, options_of, parts_of, queues_of, talks
from codemojex.roles.limits_keeper import Keeper, on_reconnect
from codemojex.run_command import VALKEY_URL, UserError
from codemojex.settings import Settings
from codemojex.store.engine import close, open_store

if TYPE_CHECKING:
    from codemojex.roles.telegram import Account

_SPARE_S = 0.5  # beyond the grace, until what still runs is cancelled
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Locations:
    """Where a process works: the URLs of its two servers, and its directory on this machine."""

    valkey: str
    database: str
    directory: Path


async def serve(
    settings: Settings,
    roles: Sequence[str],
    place: Locations,
    account: Account | None,
    stop: asyncio.Event,
    *,
    strict: bool | None = None,
) -> None:
    """Run the roles until `stop`. `account` is there when one of them talks to Telegram; `strict` is None where the
    server is our own."""
    async with AsyncExitStack() as stack:
        parts: list[Part] = []
        watch, exporter = Observers(), None
        again = asyncio.Event()
        if settings.metrics_port is not None:
            from codemojex.ops.exporter import Exporter

            try:
                exporter = Exporter(settings.metrics_host, settings.metrics_port)
            except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
                raise UserError(
                    f"the port for metrics cannot be opened ({getattr(error, 'strerror', None) or error}): "
                    "check CODEMOJEX_METRICS_PORT and CODEMOJEX_METRICS_HOST"
                ) from error
            stack.push_async_callback(exporter.close)
            parts.append(exporter)
            watch = Observers(both(observe, exporter.observe), [exporter.middleware])
        bus = await Connector.connect(place.valkey, observe=both(watch.observe, on_reconnect(again)))
        stack.push_async_callback(bus.close)
        if strict is not None:
            await _examine(bus, settings, strict)
        make(place.directory)
        store = await open_store(place.database)
        stack.push_async_callback(close, store)
        mine = numbers.leased_by(settings.node_numbers)
        lease = await stack.enter_async_context(NodeLease(bus, numbers=mine, observe=watch.observe))
        cache = await stack.enter_async_context(NearCache(bus, observe=watch.observe))
        game = Play(bus, lease.minter, SystemClock(), store, options=options_of(settings))
        game = with_caches(game, cache, max_entries=settings.cache_max_entries)
        bot_id = settings.bot_id if account is None else int(account.token.partition(":")[0])
        ownership = Ownership(game, Claim(bot_id, shown(place.valkey)))
        await ownership.look()
        keeper = Keeper(bus, settings, again=again, observe=watch.observe, on_loss=lease.renew)
        await keeper.look()
        parts += [ownership, keeper]
        if exporter is not None:
            exporter.look_at(bus, list(queues_of(game.options)), game.options)
        refused = asyncio.Event()
        if account is not None:
            from codemojex.roles import telegram as talking

            bot = await stack.enter_async_context(talking.bot_of(account, settings))
            try:
                desk = await talking.desk_of(game, bot, publish="intake" in roles)
            except (talking.BadToken, talking.TelegramUnavailable) as error:
                raise UserError(str(error)) from error
            parts += [
                talking.part_of(role, settings, bot, desk, refused.set, watch=watch) for role in roles if talks(role)
            ]
        consumer = f"{socket.gethostname()}-{os.getpid()}"
        for role in roles:
            parts += [] if talks(role) else parts_of(role, settings, game, consumer, watch)
        _log.info("working", extra={"roles": ",".join(roles)})
        await _work(parts, Heartbeat(heartbeats(place.directory), roles), stop, refused, settings.grace_s)
        if refused.is_set():
            raise UserError("Telegram refuses the bot token: check BOT_TOKEN against what @BotFather shows")


async def _examine(bus: Connector, settings: Settings, strict: bool) -> None:
    """Say in one line what the servers may lose. Raises UserError for what cannot work; `strict`: for any doubt."""
    found = await server.look(bus, queues_of(options_of(settings)))
    if found.broken or (strict and found.doubts):
        raise UserError(f"{found.text} ({VALKEY_URL})")
    if found.doubts:
        _log.warning("the server may lose data: %s", found.text)
    elif found.unknown:
        _log.info("whether the server keeps its data cannot be told: %s", found.text)


async def _work(
    parts: Sequence[Part], heartbeat: Heartbeat, stop: asyncio.Event, refused: asyncio.Event, grace_s: float
) -> None:
    """Run parts until `stop` or a refused token, then stop them all; what outlives the grace is cancelled."""
    async with asyncio.TaskGroup() as group:
        beat = group.create_task(heartbeat.run())
        working = [group.create_task(part.run()) for part in parts]
        ends = [group.create_task(stop.wait()), group.create_task(refused.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for part in parts:
            part.stop()
        _, late = await asyncio.wait(working, timeout=grace_s + _SPARE_S)
        for task in [beat, *ends, *late]:
            task.cancel()


def heartbeats(directory: Path) -> Path:
    return directory / "beats"
