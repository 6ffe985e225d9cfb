"""Updates are confirmed to Telegram only when the bus has them, and nothing that Telegram does loses or repeats one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiogram import Bot

from codemojex.bot.factory import build_bot
from codemojex.bot.intake import Intake, IntakeOptions, OnePoller
from codemojex.bot.naming import MAX_UPDATE_BYTES, conversation, incoming
from codemojex.bot.telegram.errors import BadToken
from codemojex.engine.jobs import claims
from codemojex.engine.transport.connector import Connector
from codemojex.local_telegram import LocalTelegram
from codemojex.play.inbound import inbox, lease
from codemojex.play.inbound.inbox import Incoming
from tests.play.table import GameTable
from tests.support.telegram import People

OPTIONS = IntakeOptions(poll_timeout_s=5, request_timeout_s=5, renew_s=0.05, backoff_base_s=0.02, backoff_cap_s=0.1)


class Bus:
    """Takes updates in memory, or refuses them; `arrived` waits for so many."""

    def __init__(self) -> None:
        self.items: list[Incoming] = []
        self.refusals = 0
        self.depth = 0
        self.looks = 0
        self._changed = asyncio.Event()

    async def admit(self, items: Sequence[Incoming]) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        self.items += items
        self._changed.set()
        return True

    async def deep(self) -> int:
        self.looks += 1
        return self.depth

    async def arrived(self, count: int) -> list[str]:
        """The texts of the messages, once there are so many."""
        async with asyncio.timeout(15):
            while len(self.texts()) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.texts()

    def texts(self) -> list[str]:
        texts = [json.loads(item.payload)["message"]["text"] for item in self.items]
        return [text for text in texts if text != "/start"]


@asynccontextmanager
async def running(
    bot: Bot,
    bus: Bus,
    held: OnePoller | None = None,
    admit: Callable[[Sequence[Incoming]], Awaitable[bool]] | None = None,
) -> AsyncIterator[Intake]:
    intake = Intake(bot, admit or bus.admit, bus.deep, held, OPTIONS)
    async with asyncio.TaskGroup() as group:
        group.create_task(intake.run())
        try:
            yield intake
        finally:
            intake.stop()


@pytest.fixture
def memory() -> Bus:
    return Bus()


@pytest.fixture
async def ada(people: People) -> int:
    ada = await people.add_person("Ada")
    await people.start(ada)  # nobody can be written to before
    return ada


async def test_updates_come_in_order_and_once(bot: Bot, people: People, ada: int, memory: Bus) -> None:
    async with running(bot, memory):
        for number in range(5):
            await people.send(ada, ada, f"n{number}")
        await memory.arrived(5)
        await people.send(ada, ada, "last")  # confirmed ones would come again together with it
        assert await memory.arrived(6) == ["n0", "n1", "n2", "n3", "n4", "last"]


async def test_a_batch_that_was_not_admitted_comes_again(bot: Bot, people: People, ada: int, memory: Bus) -> None:
    memory.refusals = 2
    await people.send(ada, ada, "kept")
    async with running(bot, memory):
        assert await memory.arrived(1) == ["kept"]
        await people.send(ada, ada, "next")
        assert await memory.arrived(2) == ["kept", "next"]


async def test_a_crash_after_admission_brings_no_second_job(
    *, bot: Bot, people: People, ada: int, memory: Bus, bus: Connector, table: GameTable, queue: str
) -> None:
    crashed: list[Intake] = []
    seen: list[int] = []

    async def admit(items: Sequence[Incoming]) -> bool:
        done = await inbox.admit(table.play, items, f"{queue}.in")
        seen.append(len(items))
        crashed[-1].stop()  # before the next poll could confirm anything
        return done

    await people.send(ada, ada, "once")
    for _ in range(2):
        crashed.append(Intake(bot, admit, memory.deep, None, OPTIONS))
        async with asyncio.timeout(15):
            await crashed[-1].run()
    claimed = await claims.claim_many(bus, f"{queue}.in", 10, 1000)
    texts = [json.loads(job.payload)["message"]["text"] for job in claimed.jobs]
    assert seen == [2, 2]
    assert texts == ["/start", "once"]


async def test_one_conversation_is_one_lane(table: GameTable, bus: Connector, queue: str) -> None:
    def update(number: int, chat: int) -> Incoming:
        return incoming(7, {"update_id": number, "message": {"chat": {"id": chat}, "text": "x"}})

    items = [update(1, 5), update(2, 5), update(3, 6)]
    assert await inbox.admit(table.play, items, f"{queue}.in")
    jobs = (await claims.claim_many(bus, f"{queue}.in", 10, 1000)).jobs
    lanes = sorted(job.lane or "" for job in jobs)
    assert len(jobs) == 3
    assert len(set(lanes)) == 2


@pytest.mark.parametrize("kind", ["500", "html502", "429", "cut", "lost", "duplicate", "reorder"])
async def test_misfortunes_lose_nothing(kind: str, bot: Bot, people: People, ada: int, memory: Bus) -> None:
    await people.fault("getUpdates", kind, 2)
    for number in range(3):
        await people.send(ada, ada, f"n{number}")
    async with running(bot, memory):
        async with asyncio.timeout(10):
            while set(memory.texts()) != {"n0", "n1", "n2"}:
                await memory.arrived(len(memory.texts()) + 1)


async def test_polling_stops_while_the_queue_is_deep(bot: Bot, people: People, ada: int, memory: Bus) -> None:
    memory.depth = OPTIONS.max_depth
    await people.send(ada, ada, "waits on the server")
    async with running(bot, memory):
        async with asyncio.timeout(15):
            while memory.looks < 3:
                await asyncio.sleep(0.02)
        assert memory.items == []
        memory.depth = 0
        assert await memory.arrived(1) == ["waits on the server"]


def test_half_a_surrogate_pair_is_replaced_and_holds_up_nobody() -> None:
    update = {"update_id": 1, "message": {"chat": {"id": 7}, "text": json.loads('"a\\ud83d"')}}
    assert json.loads(incoming(5, update).payload)["message"]["text"] == "a?"


async def test_a_stop_ends_the_long_poll_at_once(bot: Bot, memory: Bus) -> None:
    async with asyncio.timeout(4):  # less than a poll of this test lasts
        async with running(bot, memory) as intake:
            await asyncio.sleep(0.1)
            intake.stop()


async def test_a_stop_between_two_polls_is_an_end_as_well(bot: Bot, people: People, ada: int, memory: Bus) -> None:
    async def admit(items: Sequence[Incoming]) -> bool:
        intake.stop()
        return await memory.admit(items)

    await people.send(ada, ada, "the last one")
    async with asyncio.timeout(15), running(bot, memory, admit=admit) as intake:
        assert await memory.arrived(1) == ["the last one"]


async def test_a_wrong_token_ends_the_process_with_one_clear_line(
    telegram: LocalTelegram, memory: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = build_bot("4200000001:not-the-token-of-anybody-at-all-000", telegram.url)
    with pytest.raises(BadToken, match="BOT_TOKEN"):
        await Intake(stranger, memory.admit, memory.deep, None, OPTIONS).run()
    await stranger.session.close()
    assert "not-the-token" not in caplog.text


async def test_faults_are_logged_without_the_token(
    bot: Bot, people: People, ada: int, memory: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ("html502", "cut", "500"):
        await people.fault("getUpdates", kind)
    await people.send(ada, ada, "x")
    async with running(bot, memory):
        await memory.arrived(1)
    assert "updates are not coming in" in caplog.text
    assert bot.token not in caplog.text
    assert bot.token.partition(":")[2] not in caplog.text


async def test_only_the_holder_of_the_lease_polls(bot: Bot, people: People, ada: int, table: GameTable) -> None:
    first, second = Bus(), Bus()
    make: partial[Any] = partial(lease.PollerLease, table.play, bot.id, lease_ms=300)
    async with running(bot, first, make()) as leader:
        await people.send(ada, ada, "one")
        await first.arrived(1)
        async with running(bot, second, make()):
            await people.send(ada, ada, "two")
            await first.arrived(2)
            assert second.items == []
            leader.stop()
            await people.send(ada, ada, "three")
            async with asyncio.timeout(15):
                while "three" not in second.texts():
                    await second.arrived(len(second.texts()) + 1)


class Fickle:
    """A lease that is held until the test says otherwise."""

    def __init__(self) -> None:
        self.held = True

    async def hold(self) -> bool:
        return self.held

    async def release(self) -> None:
        self.held = False


async def test_a_poller_that_loses_its_lease_ends_its_poll_at_once(
    bot: Bot, people: People, ada: int, memory: Bus
) -> None:
    lost = Fickle()
    async with running(bot, memory, lost) as loser:
        await people.send(ada, ada, "one")
        await memory.arrived(1)
        lost.held = False
        async with asyncio.timeout(4):  # less than a poll of this test lasts
            while loser._poll is not None:
                await asyncio.sleep(0.02)
        await people.send(ada, ada, "two")
        [update] = await bot.get_updates(timeout=0)
        assert update.message is not None
        assert update.message.text == "two"
        assert await people.log("getUpdates") == [], "the next poller meets nobody"
        assert memory.texts() == ["one"]


async def test_a_lapsed_lease_goes_to_the_next_and_is_not_taken_back(table: GameTable) -> None:
    old, new = lease.PollerLease(table.play, 1, lease_ms=30), lease.PollerLease(table.play, 1)
    assert await old.hold()
    assert not await new.hold()
    await asyncio.sleep(0.06)
    assert await new.hold()
    assert not await old.hold()
    await old.release()
    assert not await old.hold()


def test_a_conversation_is_a_chat_or_a_topic() -> None:
    chat = {"chat": {"id": -5}}
    assert conversation({"update_id": 1, "message": chat}) == "-5:0"
    assert conversation({"update_id": 1, "message": {**chat, "message_thread_id": 9}}) == "-5:0"
    topic = {**chat, "message_thread_id": 9, "is_topic_message": True}
    assert conversation({"update_id": 1, "message": topic}) == "-5:9"
    assert conversation({"update_id": 1, "callback_query": {"from": {"id": 3}, "message": topic}}) == "-5:9"
    assert conversation({"update_id": 1, "my_chat_member": {**chat, "from": {"id": 3}}}) == "-5:0"
    assert conversation({"update_id": 1, "inline_query": {"from": {"id": 3}}}) == "3:0"
    assert conversation({"update_id": 1, "brand_new": {}}) == "0:0"


def test_an_update_beyond_the_limit_of_a_payload_is_set_aside_and_does_not_block() -> None:
    item = incoming(7, {"update_id": 1, "message": {"chat": {"id": 5}, "text": "x" * MAX_UPDATE_BYTES}})
    note = json.loads(item.payload)
    assert note["update_id"] == 1
    assert "the limit is 60000" in note["set_aside"]
    assert item.conversation == "5:0"
