"""How updates are handed out: confirmed by the next offset, one poller, sticky kinds, the webhook."""

import asyncio

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramConflictError, TelegramUnauthorizedError
from aiohttp import web

from codemojex.local_telegram import LocalTelegram
from tests.local_telegram.conftest import bot_for, drain
from tests.support.telegram import People


async def test_only_a_later_offset_confirms(bot: Bot, ada: int):
    first = await bot.get_updates()
    assert await bot.get_updates(offset=first[0].update_id) == first
    assert await bot.get_updates(offset=first[0].update_id + 1) == []
    assert await bot.get_updates() == []


async def test_a_negative_offset_keeps_only_the_newest(bot: Bot, people: People, ada: int):
    for number in range(3):
        await people.send(ada, ada, f"{number}")
    assert [update.message.text for update in await bot.get_updates(offset=-2)] == ["1", "2"]
    assert len(await bot.get_updates()) == 2


async def test_the_limit_bounds_a_batch(bot: Bot, people: People, ada: int):
    await people.send(ada, ada, "second")
    assert len(await bot.get_updates(limit=1)) == 1


async def test_a_long_poll_wakes_at_once(bot: Bot, people: People, ada: int):
    await drain(bot)
    async with asyncio.timeout(15), asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(bot.get_updates(timeout=30))
        await people.send(ada, ada, "hello")
    assert poll.result()[0].message.text == "hello"


async def test_a_second_poller_throws_out_the_first(telegram: LocalTelegram, bot: Bot, people: People, ada: int):
    await drain(bot)
    other = bot_for(telegram)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(_conflict(bot))
        while not first.done():
            await other.get_updates(timeout=0)
            await asyncio.sleep(0)
        assert "terminated by other getUpdates request" in first.result()
    await other.session.close()


async def _conflict(bot: Bot) -> str:
    with pytest.raises(TelegramConflictError) as refusal:
        await bot.get_updates(timeout=20)
    return refusal.value.message


async def test_allowed_updates_stick_and_drop_other_kinds(bot: Bot, people: People, ada: int):
    await drain(bot)
    await bot.get_updates(allowed_updates=["callback_query"])
    await people.send(ada, ada, "unseen")
    assert await bot.get_updates() == []
    await bot.get_updates(allowed_updates=["message"])
    await people.send(ada, ada, "seen")
    assert [update.message.text for update in await bot.get_updates()] == ["seen"]
    with pytest.raises(TelegramBadRequest, match="unknown update type"):
        await bot.get_updates(allowed_updates=["mesage"])


async def test_updates_live_a_day(bot: Bot, people: People, ada: int):
    await people.post("clock", shift_s=24 * 3600 + 1)
    assert await bot.get_updates() == []


async def test_update_ids_of_two_servers_differ(bot: Bot, ada: int, people: People):
    other = LocalTelegram()
    await other.start()
    async with People(other.url) as others:
        user_id = await others.add_person("Zoe")
        await others.start(user_id)
        theirs = await others.get("updates")
    await other.stop()
    assert theirs[0]["update_id"] != (await bot.get_updates())[0].update_id


async def test_a_wrong_token_is_unauthorized(telegram: LocalTelegram):
    stranger = bot_for(telegram, "4200000001:wrong")
    with pytest.raises(TelegramUnauthorizedError):
        await stranger.get_me()
    await stranger.session.close()


class Receiver:
    """A webhook that answers with the given statuses, then 200."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[tuple[str | None, dict]] = []
        self.enough = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 200
        self.got.append((request.headers.get("X-Telegram-Bot-Api-Secret-Token"), await request.json()))
        if status == 200 and len(self.got) >= 4:
            self.enough.set()
        return web.Response(status=status)


async def test_a_webhook_gets_updates_in_order_with_its_secret_and_retries(bot: Bot, people: People, ada: int):
    receiver = Receiver(500)
    app = web.Application()
    app.add_routes([web.post("/hook", receiver.handle)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await bot.set_webhook(f"http://127.0.0.1:{runner.addresses[0][1]}/hook", secret_token="s3cret")
    with pytest.raises(TelegramConflictError, match="can't use getUpdates method while webhook is active"):
        await bot.get_updates()
    await people.send(ada, ada, "one")
    await people.send(ada, ada, "two")
    async with asyncio.timeout(10):
        await receiver.enough.wait()
    texts = [body["message"]["text"] for _, body in receiver.got]
    assert texts == ["/start", "/start", "one", "two"]
    assert {secret for secret, _ in receiver.got} == {"s3cret"}
    assert (
        await bot.get_webhook_info()
    ).last_error_message == "Wrong response from the webhook: 500 Internal Server Error"
    assert "s3cret" not in str(await people.log())
    await bot.delete_webhook()
    assert await bot.get_updates() == []
    await runner.cleanup()
