"""What each role consists of, and the limits of the queues that the roles share.

A role is a list of parts; a part has `run` and `stop`. Building a part starts nothing. Which parts run in one process
is `app.py`'s business.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from codemojex.engine.error_text import plain
from codemojex.engine.lanes import limits
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.maintenance.retention_loop import DeadLetters, RetentionLoop
from codemojex.engine.observer import Observe
from codemojex.engine.worker.middleware import Middleware
from codemojex.engine.worker.worker import Worker, WorkerOptions
from codemojex.play import keys, scoring
from codemojex.play.archive import backlog
from codemojex.play.archive.archiver import Archiver
from codemojex.play.context import Options, Play, namespaced
from codemojex.play.outbound import feed
from codemojex.play.outcomes import VALKEY
from codemojex.settings import Settings

_RETENTION_MS = 60_000
_WARNINGS = (
    ".fault",
    ".failed",
    ".lease_lost",
    ".abandoned",
    ".thread_left",
    ".unreadable",
    ".loop_blocked",
    ".rebuilt",
    ".overload",
)
_UNWIND_MS = 300  # for cancelled handlers; the process cancels its parts soon after the grace
_log = logging.getLogger(__name__)
Setting = partial[Any]  # of coroutines; a partial's own type does not fit into another's
"""A verb of the engine's limits with all it needs but the connection and the queue."""


class Part(Protocol):
    """A long-running piece of a role."""

    async def run(self) -> None:
        """Work until `stop`."""
        ...

    def stop(self) -> None:
        """Begin an orderly end."""
        ...


def observe(event: str, data: dict[str, object]) -> None:
    """Log what the engine tells: faults as warnings, the rest for those who look closely."""
    level = logging.WARNING if event.endswith(_WARNINGS) else logging.DEBUG
    if _log.isEnabledFor(level):
        said = {key: plain(value) for key, value in data.items() if key != "away"}
        _log.log(level, "%s", event, extra=said | {"outage": VALKEY if data.get("away") else None})


@dataclass(frozen=True, slots=True)
class Observers:
    """Who hears of what the parts do, and what surrounds the calls of their handlers."""

    observe: Observe = observe
    middleware: Sequence[Middleware] = ()


def both(one: Observe, other: Observe) -> Observe:
    """An observer that tells two."""

    def tell(event: str, data: dict[str, object]) -> None:
        one(event, data)
        other(event, data)

    return tell


def talks(role: str) -> bool:
    """Whether the role talks to Telegram and so needs a token."""
    return role in ("intake", "updates", "send")


def options_of(settings: Settings) -> Options:
    """The game's options from the settings."""
    guesses, inbox, outbound = (namespaced(settings.namespace, name) for name in ("cm", "cm.in", "cm.out"))
    return Options(
        namespace=settings.namespace,
        guesses=guesses,
        inbox=inbox,
        outbound=outbound,
        partitions=settings.partitions,
        lane_by=settings.lane_by,
        archived_keep_ms=settings.archived_keep_s * 1000,
        game_duration_s=settings.game_duration_s,
        max_unarchived=settings.unarchived_max,
    )


def limits_of(settings: Settings) -> dict[str, list[Setting]]:
    """The limits that the settings give to every queue. Two processes with the same settings give the same."""
    options = options_of(settings)
    rate = partial(limits.set_rate, max_jobs=settings.guess_rate_max, duration_ms=settings.guess_rate_duration_ms)
    chat = partial(limits.set_lane_rate, rate_per_s=settings.chat_rate_per_s, burst=settings.chat_burst)
    group = partial(limits.set_lane_rate, rate_per_s=settings.group_rate_per_min / 60, burst=settings.group_burst)
    return {
        options.inbox: [partial(limits.set_default_lane_limit, n=1)],  # updates of a conversation come one by one
        **{queue: [rate if settings.guess_rate_max else partial(limits.clear_rate)] for queue in keys.queues(options)},
        options.outbound: [
            partial(limits.set_bucket, rate_per_s=settings.send_rate_per_s, burst=settings.send_burst),
            chat,
            partial(group, kind="GRP"),
            partial(limits.set_default_lane_limit, n=1),  # what is said in a chat stays in order
        ],
    }


def parts_of(role: str, settings: Settings, play: Play, consumer: str, watch: Observers) -> list[Part]:
    """The parts of a role that does not talk to Telegram. `consumer` is unique among living processes."""
    queues, tell = keys.queues(play.options), watch.observe
    match role:
        case "score":
            return [_score(settings, play, queue, watch) for queue in queues]
        case "feed":
            return [feed.outbound_reader(play, queue, consumer, tell, lease_ms=settings.lease_ms) for queue in queues]
        case "clock":
            pumps = [
                Pump(play.bus, queue, deliver=delivers(settings, queue), observe=tell)
                for queue in queues_of(play.options)
            ]
            return [*pumps, _retention(settings, play, tell), backlog.BacklogWatch(play)]
        case "archive":
            archiver = Archiver(play)
            return [archiver, *(feed.archive_reader(play, queue, consumer, archiver, tell) for queue in queues)]
        case _:
            raise ValueError(f"the role {role!r} is unknown or talks to Telegram")


def queues_of(options: Options) -> dict[str, str]:
    """Every queue of the program, and what it holds."""
    return {
        options.inbox: "updates from Telegram",
        **dict.fromkeys(keys.queues(options), "guesses"),
        options.outbound: "messages to Telegram",
    }


def delivers(settings: Settings, queue: str) -> bool:
    """Whether our pumps empty the outbox of the queue, or another engine's do."""
    return queue not in (settings.peer_outboxes or "").split(",")


def no_queue(settings: Settings) -> list[str]:
    """Names in `peer_outboxes` that no queue of this program has."""
    named = set((settings.peer_outboxes or "").split(",")) - {""}
    return sorted(named - queues_of(options_of(settings)).keys())


def worker_options(
    settings: Settings,
    queue: str,
    concurrency: int,
    max_attempts: int = 5,
    lease_ms: int | None = None,
    *,
    in_order: bool = False,
) -> WorkerOptions:
    """How this program's workers work; `in_order`: one job of a lane at a time, whatever the queue's settings say."""
    return WorkerOptions(
        concurrency=concurrency,
        lease_ms=lease_ms or settings.lease_ms,
        grace_ms=int(settings.grace_s * 1000),
        unwind_ms=_UNWIND_MS,
        max_attempts=max_attempts,
        lane_limit=1 if in_order else None,
        deliver=delivers(settings, queue),
    )


def _retention(settings: Settings, play: Play, tell: Observe) -> RetentionLoop:
    """What nobody needs any more: old dead letters, and the feeds behind their slowest reader."""
    dead = [DeadLetters(queue, max_age_ms=settings.dead_keep_s * 1000) for queue in queues_of(play.options)]
    feeds = [feed.retention(queue) for queue in keys.queues(play.options)]
    return RetentionLoop(play.bus, [*dead, *feeds], clock=play.clock, tick_ms=_RETENTION_MS, observe=tell)


def _score(settings: Settings, play: Play, queue: str, watch: Observers) -> Worker:
    return Worker(
        play.bus,
        queue,
        batch_handler=scoring.handler(play),
        options=worker_options(settings, queue, settings.score_concurrency),
        effects=scoring.effects(),
        observe=watch.observe,
        middleware=watch.middleware,
    )
