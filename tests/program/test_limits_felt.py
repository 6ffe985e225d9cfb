"""What `run` tells the queues at its start reaches a sender that waits for what was told before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from codemojex.engine.ids import Minter
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import Job, NewJob
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker
from codemojex.roles.internal import options_of, worker_options
from codemojex.roles.limits_keeper import Keeper
from codemojex.settings import Settings
from tests.engine.bench import running
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

SLOW = {
    "all chats together": {"send_rate_per_s": 0.01, "send_burst": 1},
    "each chat": {"chat_rate_per_s": 0.01, "chat_burst": 1},
    "each group": {"group_rate_per_min": 0.6, "group_burst": 1},
}


@pytest.mark.parametrize("slow", SLOW)
async def test_another_pace_of_sending_reaches_a_sender_that_waits(
    start_valkey: Callable[..., ValkeyServer], slow: str
) -> None:
    bus = await Connector.connect(start_valkey().url)
    usual, mint, sent = Settings(_env_file=None), Minter(1), list[str]()  # type: ignore[call-arg]
    settings = usual.model_copy(update=SLOW[slow])
    queue, chat = options_of(usual).outbound, mint.mint("GRP" if slow == "each group" else "CHT")

    async def send(job: Job) -> None:
        sent.append(job.id)

    try:
        await Keeper(bus, settings).look(reset=True)
        await jobs.admit_many(bus, queue, [NewJob(mint.mint("JOB"), b"x", lane=chat) for _ in range(3)])
        async with running(Worker(bus, queue, send, options=worker_options(usual, queue, usual.send_concurrency))):
            await until(lambda: sent)
            await Keeper(bus, usual).look(reset=True)
            await until(lambda: len(sent) == 3)
    finally:
        await bus.close()
