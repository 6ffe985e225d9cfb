"""Misfortunes: limits with 429, scripted faults, and the answer that never arrives."""

import pytest
from aiogram import Bot
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)

from codemojex.local_telegram.errors import ApiError
from codemojex.local_telegram.state.limits import SendLimits
from tests.local_telegram.conftest import drain
from tests.support.telegram import ControlRefused, People


async def test_the_limit_of_a_private_chat_is_a_burst_of_three_and_counts_edits(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "1")
    await bot.send_message(ada, "2")
    await bot.edit_message_text("3", chat_id=ada, message_id=sent.message_id)
    with pytest.raises(TelegramRetryAfter) as refusal:
        await bot.send_message(ada, "4")
    assert 1 <= refusal.value.retry_after <= 3
    await people.post("clock", shift_s=refusal.value.retry_after)
    assert await bot.send_message(ada, "4")


async def test_the_limit_of_a_group_is_twenty_a_minute(bot: Bot, people: People, ada: int):
    group = await people.add_group("Talk", [ada])
    for number in range(20):
        await bot.send_message(group, str(number))
    with pytest.raises(TelegramRetryAfter) as refusal:
        await bot.send_message(group, "x")
    assert 50 <= refusal.value.retry_after <= 60
    await bot.send_message(ada, "another chat is free")
    await people.post("clock", shift_s=refusal.value.retry_after)
    assert await bot.send_message(group, "x")


def test_the_limit_over_all_chats_is_thirty_a_second():
    limits = SendLimits()
    for chat_id in range(1, 31):
        limits.charge(chat_id, private=True, now_s=0.5)
    with pytest.raises(ApiError) as refusal:
        limits.charge(31, private=True, now_s=0.9)
    assert (refusal.value.code, refusal.value.parameters) == (429, {"retry_after": 1})
    limits.charge(31, private=True, now_s=1.5)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("429", TelegramRetryAfter),
        ("400", TelegramBadRequest),
        ("403", TelegramForbiddenError),
        ("500", TelegramServerError),
        ("html502", ClientDecodeError),
        ("cut", TelegramNetworkError),
    ],
)
async def test_a_scripted_fault_meets_its_calls_and_changes_nothing(
    bot: Bot, people: People, ada: int, kind: str, error: type[Exception]
):
    await people.fault("sendMessage", kind, times=2)
    await bot.get_me()
    for _ in range(2):
        with pytest.raises(error):
            await bot.send_message(ada, "x")
    assert len(await people.messages(ada)) == 1
    await bot.send_message(ada, "x")
    assert [m.get("text") for m in await people.messages(ada)] == ["/start", "x"]


async def test_a_lost_answer_leaves_the_message(bot: Bot, people: People, ada: int):
    await people.fault("sendMessage", "lost")
    with pytest.raises(TelegramNetworkError):
        await bot.send_message(ada, "x")
    assert [m["text"] for m in await people.messages(ada)] == ["/start", "x"]
    assert (await people.log("sendMessage"))[-1]["fault"] == "lost"


async def test_a_fault_can_choose_its_chat_its_words_and_its_wait(bot: Bot, people: People, ada: int):
    boris = await people.add_person("Boris")
    await people.start(boris)
    await people.fault("sendMessage", "400", chat_id=boris, description="message thread not found")
    await people.fault("*", "429", chat_id=boris, retry_after=7)
    await bot.send_message(ada, "x")
    with pytest.raises(TelegramBadRequest, match="message thread not found"):
        await bot.send_message(boris, "x")
    with pytest.raises(TelegramRetryAfter, match="retry after 7") as refusal:
        await bot.send_message(boris, "x")
    assert refusal.value.retry_after == 7


async def test_updates_can_be_doubled_and_turned_around(bot: Bot, people: People, ada: int):
    await people.send(ada, ada, "two")
    await people.fault("getUpdates", "duplicate")
    await people.fault("getUpdates", "reorder")
    assert [u.message.text for u in await bot.get_updates()] == ["/start", "/start", "two", "two"]
    assert [u.message.text for u in await bot.get_updates()] == ["two", "/start"]
    assert [u.message.text for u in await drain(bot)] == ["/start", "two"]


async def test_random_faults_repeat_with_their_seed(bot: Bot, people: People, ada: int):
    async def outcomes() -> list[bool]:
        await people.post("chaos", seed=7, probability=0.5, kinds=["500"], method="getMe")
        seen: list[bool] = []
        for _ in range(12):
            try:
                await bot.get_me()
                seen.append(True)
            except TelegramServerError:
                seen.append(False)
        return seen

    first = await outcomes()
    assert True in first
    assert False in first
    assert await outcomes() == first
    await people.post("clear_faults")
    await bot.get_me()


async def test_an_unknown_fault_is_refused(people: People):
    with pytest.raises(ControlRefused, match="unknown fault kind 'fire'; known: 429"):
        await people.fault("sendMessage", "fire")
