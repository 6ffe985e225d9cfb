"""Whatever the updates hold, the intake goes on: each is worked, or becomes a dead letter with its reason."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiogram import Bot

from codemojex.bot.factory import build_bot, build_dispatcher
from codemojex.bot.intake import SINGLY_AFTER, Intake, IntakeOptions
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.naming import MAX_UPDATE_BYTES, conversation, incoming
from codemojex.bot.storage import SessionStorage
from codemojex.bot.telegram.identity import identify
from codemojex.bot.texts import load_texts
from codemojex.bot.updates import UpdateHandler
from codemojex.engine.worker.worker import Worker, WorkerOptions
from codemojex.play.inbound import inbox
from codemojex.play.inbound.inbox import Incoming
from codemojex.play.outcomes import Discard, Job, Outcome, Park, Retry
from tests.bot.hostile import ODD, TOKEN, Hostile, mutate, serving, text_of
from tests.play.table import GameTable

OPTIONS = IntakeOptions(poll_timeout_s=1, request_timeout_s=5, renew_s=0.05, backoff_base_s=0.002, backoff_cap_s=0.01)
ADA = {"id": 77, "is_bot": False, "first_name": "Ada", "language_code": "en"}
CHATS = (
    {"id": 77, "type": "private", "first_name": "Ada"},
    {"id": -9, "type": "supergroup", "title": "The Den", "is_forum": True},
)
MEMBER = {"chat": CHATS[1], "from": ADA, "date": 1, "old_chat_member": {"status": "left", "user": ADA}}


def good(number: int, kind: int, game: str) -> dict[str, Any]:
    """A good update of some kind."""
    chat = CHATS[kind % 2]
    message = {"message_id": 5, "date": 1, "chat": chat, "from": ADA, "text": "/guess 🍎🍋🍇🍓"}
    if kind % 2:
        message |= {"message_thread_id": 3, "is_topic_message": True}
    query = {"id": "1", "from": ADA, "chat_instance": "1", "message": message}
    bodies: list[dict[str, Any]] = [
        {"message": message},
        {"message": {**message, "text": f"/start g_{game}"}},
        {"callback_query": {**query, "data": f"c:{game}:0:0"}},
        {"callback_query": {**query, "data": f"b:{game}:history"}},
        {"message": {**message, "text": "/lock 1 🍎"}},
        {"message": {**message, "left_chat_member": ADA, "text": None}},
        {"message": {**message, "migrate_to_chat_id": -10, "text": None}},
        {"chat_member": {**MEMBER, "new_chat_member": {"status": "kicked", "user": ADA, "until_date": 0}}},
        {"my_chat_member": {**MEMBER, "new_chat_member": {"status": "member", "user": ADA}}},
        {"inline_query": {"id": "1", "from": ADA, "query": "", "offset": ""}},
    ]
    return {"update_id": number, **bodies[kind % len(bodies)]}


@asynccontextmanager
async def taking(
    hostile: Hostile, admit: Callable[[Sequence[Incoming]], Any], deadline_s: float = 60
) -> AsyncIterator[None]:
    """The intake at the hostile server, until all updates are confirmed."""

    async def depth() -> int:
        return 0

    async with serving(hostile) as url:
        bot = build_bot(TOKEN, url, timeout_s=5)
        intake = Intake(bot, admit, depth, None, OPTIONS)
        async with asyncio.TaskGroup() as group:
            group.create_task(intake.run())
            try:
                async with asyncio.timeout(deadline_s):
                    while not hostile.confirmed:
                        await asyncio.sleep(0.01)
                yield
            finally:
                intake.stop()
        await bot.session.close()


async def test_thousands_of_mutated_updates_are_worked_or_dead_with_a_reason(
    table: GameTable, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    seed = 20_261_201
    random_ = random.Random(seed)
    game = await table.open()
    count = 4_000
    updates = [mutate(good(n, n, game.id), random_) for n in range(1, count)]
    hostile = Hostile([(u["update_id"], text_of(u)) for u in updates] + [(count, text_of(good(count, 0, game.id)))])
    queue = f"{table.play.options.guesses}.in"
    desk = Desk(table.play, load_texts(), await identify(bot))
    outcomes: list[Outcome | None] = []
    updates_ = UpdateHandler(bot, build_dispatcher(SessionStorage(table.play)), desk)

    async def handle(job: Job) -> Outcome | None:
        outcomes.append(await updates_(job))
        return outcomes[-1]

    worker = Worker(table.play.bus, queue, handle, options=WorkerOptions(concurrency=16))
    async with taking(hostile, lambda items: inbox.admit(table.play, items, queue)):
        pass
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        async with asyncio.timeout(120):
            while len(outcomes) < count:
                await asyncio.sleep(0.05)
        worker.stop()
    dead = [outcome.error for outcome in outcomes if isinstance(outcome, Discard)]
    escaped = Counter(reason.rpartition(": ")[2] for reason in dead if "can never be worked" in reason)
    assert not escaped, f"seed {seed}: neither the door nor a reader has seen to these"
    assert not [outcome for outcome in outcomes if isinstance(outcome, Retry | Park)], f"seed {seed}"
    assert 100 < len(dead) < count - 100, f"seed {seed}"
    assert len(outcomes) == count, f"seed {seed}: each is handled once"


@pytest.mark.parametrize("update", [
    *ODD,
    *[{"update_id": 1, "message": odd} for odd in ODD],
    *[{"update_id": 1, "message": {"chat": odd, "from": odd, "message_thread_id": odd, "is_topic_message": True}}
      for odd in ODD],
    *[{"update_id": odd, "callback_query": {"message": odd, "from": odd, "user": odd}} for odd in ODD],
])  # fmt: skip
def test_naming_never_raises(update: object) -> None:
    item = incoming(7, update)
    assert item.payload.decode()
    assert 1 <= len(item.dedup) <= 255
    chat, _, topic = conversation(update).partition(":")
    assert abs(int(chat)) < 2**63
    assert 0 <= int(topic) < 2**63


@pytest.mark.parametrize("bad", [
    '{"update_id":2,"message":' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"update_id":2,"message":{"chat":{"id":' + "9" * 5_000 + "}}}",
    '{"update_id":2,"message":{"text":"\\x"}}',
])  # fmt: skip
async def test_an_update_that_cannot_even_be_read_is_passed_over_by_its_number(
    bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    items: list[Incoming] = []

    async def admit(new: Sequence[Incoming]) -> bool:
        items.extend(new)
        return True

    texts = [text_of({"update_id": n, "message": {"chat": {"id": n}}}) for n in (1, 3, 4)]
    hostile = Hostile([(1, texts[0]), (2, bad), (3, texts[1]), (4, texts[2])])
    async with taking(hostile, admit):
        pass
    assert [item.dedup.partition(":")[2] for item in items] == ["1", "3", "4"]
    assert "update 2 cannot be read and is passed over" in caplog.text
    assert hostile.limits[:SINGLY_AFTER] == [100] * SINGLY_AFTER


async def test_a_batch_that_failed_three_times_goes_one_by_one_and_sets_aside_the_one_at_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[Incoming] = []
    failures = 0

    async def admit(new: Sequence[Incoming]) -> bool:
        nonlocal failures
        if any(b"poison" in item.payload for item in new):
            failures += 1
            raise ValueError("a bus that chokes on it")
        taken.extend(new)
        return True

    bodies = [{"update_id": n, "message": {"chat": {"id": 5}, "text": t}} for n, t in enumerate(("a", "poison", "b"))]
    hostile = Hostile([(body["update_id"], text_of(body)) for body in bodies])
    async with taking(hostile, admit):
        pass
    payloads = [json.loads(item.payload) for item in taken]
    assert [payload["update_id"] for payload in payloads] == [0, 1, 2]
    assert payloads[1]["set_aside"] == "the bus refuses it: ValueError"
    assert failures == SINGLY_AFTER + 1
    assert "update 1 is set aside" in caplog.text


async def test_updates_without_a_number_are_taken_and_hold_up_nobody() -> None:
    taken: set[str] = set()

    async def admit(new: Sequence[Incoming]) -> bool:
        taken.update(item.dedup for item in new)
        return True

    named = [text_of({"update_id": n, "message": {}}) for n in (1, 4)]
    hostile = Hostile([(1, named[0]), (2, '{"message":7}'), (3, "[]"), (4, named[1])])
    async with taking(hostile, admit):
        pass
    assert len(taken) == 4


async def test_an_update_that_was_set_aside_is_a_dead_letter_with_the_reason(table: GameTable, bot: Bot) -> None:
    desk = Desk(table.play, load_texts(), await identify(bot))
    updates = UpdateHandler(bot, build_dispatcher(SessionStorage(table.play)), desk)
    item = incoming(7, {"update_id": 3, "message": {"text": "x" * MAX_UPDATE_BYTES}})
    outcome = await updates(Job("j", item.payload, "1", None, 0, 0, "q", 0))
    assert isinstance(outcome, Discard)
    assert "update 3 was set aside: it has 60" in outcome.error
