"""A sender is killed after Telegram has its message and before the queue knows: its chat is not silent for long."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codemojex.engine import keyspace
from codemojex.play.outbound import orders
from codemojex.store.migrate import migrate
from tests.support.telegram import People
from tests.support.valkey import ValkeyServer
from tests.system.fleet import ground, until

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
SILENT_S = 29.0  # the lease of 5 s, a beat of 5 s and a slow machine; the lease of other queues is 30 s


async def test_chat_of_a_killed_sender_is_served_again_within_the_lease_of_its_queue(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path
) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(database)
    async with (
        ground(start_valkey().url, database, tmp_path) as place,
        People(place.telegram.url) as people,
    ):
        await place.fleet.start("sender", "send")
        await place.fleet.start("other", "send")
        await place.fleet.ready()
        chat_id = await people.add_group("The Den", [await people.add_person("Ada")])
        active = keyspace.of(place.play.options.outbound).key("active")

        async def texts() -> list[str]:
            return [message.get("text", "") for message in await people.messages(chat_id)]

        async def under_way() -> bool:
            return not await people.get("faults")

        await people.fault("sendMessage", "slow", delay_s=3.0)
        os.kill(place.fleet.members["other"].pid, signal.SIGSTOP)  # the first message is the other's
        began = time.monotonic()
        await orders.say(place.play, chat_id, None, "first", key="one")
        await until(lambda: place.play.bus.execute("ZCARD", active), 60, place.fleet.report)
        await until(under_way, 60, place.fleet.report)
        place.fleet.freeze("sender")
        place.fleet.thaw("other")

        async def sent() -> bool:
            return "first" in await texts()

        await until(sent, 60, place.fleet.report)
        await orders.say(place.play, chat_id, None, "second", key="two")
        member = place.fleet.members["sender"]
        assert member.process is not None
        member.process.kill()
        member.process.join()
        member.process = None

        async def heard() -> bool:
            return "second" in await texts()

        await until(heard, 60, place.fleet.report)
        assert time.monotonic() - began < SILENT_S, "longer than the lease of a queue whose work takes long"
