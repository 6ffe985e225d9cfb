"""engine delivers: a Valkey-native job system that speaks the EchoMQ 3.0.0 protocol.

Jobs go through fair lanes behind limits that the claim itself enforces, are worked under a lease with a
fencing token, and are settled together with an effect. The package can be read, tested and used without the
game around it; it imports nothing of the application.

The names of `__all__` are the API. Each is imported when it is first asked for, so that a room can be imported alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codemojex.engine.backoff import Exponential, Fixed
    from codemojex.engine.bus.bus import Bus
    from codemojex.engine.bus.payloads import TypedJob
    from codemojex.engine.bus.queue import Queue
    from codemojex.engine.cache.near_cache import NearCache, struct_codec
    from codemojex.engine.cache.options import CacheOptions, Codec, Loaded
    from codemojex.engine.errors import (
        AccessDenied,
        AtCeiling,
        ConnectionFault,
        EffectFailed,
        EngineError,
        FlowCycle,
        FlowTooDeep,
        InvalidId,
        InvalidInput,
        InvalidName,
        InvalidValue,
        LeaseLost,
        Locked,
        OutOfNodes,
        ServerError,
        ServerFull,
        StaleToken,
        Unavailable,
        UnknownOutcome,
        VersionFence,
        WorkCancelled,
        WrongKind,
        WrongState,
    )
    from codemojex.engine.flows.flows import Added, Flow
    from codemojex.engine.jobs.cancel import CancelToken, token_of
    from codemojex.engine.jobs.effects import Effect, EffectBody
    from codemojex.engine.jobs.jobs import AdmissionRefused, Dedup, Duplicate, Enqueued, Job, NewJob, Scheduled
    from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
    from codemojex.engine.repeats.recurrence import All, Cron, Every, One, Skip
    from codemojex.engine.repeats.repeats import Repeat
    from codemojex.engine.streams.consumer import GroupOptions, GroupReader, TryLater
    from codemojex.engine.streams.retention import MaxLen, MinId
    from codemojex.engine.worker.batch_worker import BatchOptions
    from codemojex.engine.worker.task import batch_task, task
    from codemojex.engine.worker.worker import WorkerOptions

__all__ = [
    "AccessDenied",
    "Added",
    "AdmissionRefused",
    "All",
    "AtCeiling",
    "BatchOptions",
    "Bus",
    "CacheOptions",
    "CancelToken",
    "Codec",
    "Complete",
    "ConnectionFault",
    "Cron",
    "Dedup",
    "Delay",
    "Discard",
    "Duplicate",
    "Effect",
    "EffectBody",
    "EffectFailed",
    "EngineError",
    "Enqueued",
    "Every",
    "Exponential",
    "Fixed",
    "Flow",
    "FlowCycle",
    "FlowTooDeep",
    "GiveBack",
    "GroupOptions",
    "GroupReader",
    "InvalidId",
    "InvalidInput",
    "InvalidName",
    "InvalidValue",
    "Job",
    "LeaseLost",
    "Loaded",
    "Locked",
    "MaxLen",
    "MinId",
    "NearCache",
    "NewJob",
    "One",
    "OutOfNodes",
    "Outcome",
    "Park",
    "Queue",
    "Repeat",
    "Retry",
    "Scheduled",
    "ServerError",
    "ServerFull",
    "Skip",
    "StaleToken",
    "TryLater",
    "TypedJob",
    "Unavailable",
    "UnknownOutcome",
    "VersionFence",
    "WorkCancelled",
    "WorkerOptions",
    "WrongKind",
    "WrongState",
    "batch_task",
    "struct_codec",
    "task",
    "token_of",
]

_ROOM_OF = {
    "AccessDenied": "errors",
    "Added": "flows.flows",
    "All": "repeats.recurrence",
    "AtCeiling": "errors",
    "BatchOptions": "worker.batch_worker",
    "Bus": "bus.bus",
    "CacheOptions": "cache.options",
    "CancelToken": "jobs.cancel",
    "Codec": "cache.options",
    "Complete": "jobs.outcome",
    "ConnectionFault": "errors",
    "Cron": "repeats.recurrence",
    "Dedup": "jobs.jobs",
    "Delay": "jobs.outcome",
    "Discard": "jobs.outcome",
    "Duplicate": "jobs.jobs",
    "Effect": "jobs.effects",
    "EffectBody": "jobs.effects",
    "EffectFailed": "errors",
    "EngineError": "errors",
    "Enqueued": "jobs.jobs",
    "Every": "repeats.recurrence",
    "Exponential": "backoff",
    "Fixed": "backoff",
    "Flow": "flows.flows",
    "FlowCycle": "errors",
    "FlowTooDeep": "errors",
    "GiveBack": "jobs.outcome",
    "GroupOptions": "streams.consumer",
    "GroupReader": "streams.consumer",
    "InvalidId": "errors",
    "InvalidInput": "errors",
    "InvalidName": "errors",
    "InvalidValue": "errors",
    "Job": "jobs.jobs",
    "LeaseLost": "errors",
    "Loaded": "cache.options",
    "Locked": "errors",
    "MaxLen": "streams.retention",
    "MinId": "streams.retention",
    "NearCache": "cache.near_cache",
    "NewJob": "jobs.jobs",
    "One": "repeats.recurrence",
    "OutOfNodes": "errors",
    "Outcome": "jobs.outcome",
    "Park": "jobs.outcome",
    "Queue": "bus.queue",
    "AdmissionRefused": "jobs.jobs",
    "Repeat": "repeats.repeats",
    "Retry": "jobs.outcome",
    "Scheduled": "jobs.jobs",
    "ServerError": "errors",
    "ServerFull": "errors",
    "Skip": "repeats.recurrence",
    "StaleToken": "errors",
    "TryLater": "streams.consumer",
    "TypedJob": "bus.payloads",
    "Unavailable": "errors",
    "UnknownOutcome": "errors",
    "VersionFence": "errors",
    "WorkCancelled": "errors",
    "WorkerOptions": "worker.worker",
    "WrongKind": "errors",
    "WrongState": "errors",
    "batch_task": "worker.task",
    "struct_codec": "cache.near_cache",
    "task": "worker.task",
    "token_of": "jobs.cancel",
}


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
