"""One update is handled once in effect, however often it is delivered; a failure is a retry and is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiogram import Bot, Dispatcher, Router
from aiogram.fsm.storage.base import StorageKey
from aiogram.types import BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats, Message

from codemojex.bot.factory import build_dispatcher
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.storage import SessionStorage
from codemojex.bot.telegram.identity import identify
from codemojex.bot.telegram.menu import publish_menu
from codemojex.bot.texts import load_texts
from codemojex.bot.updates import UpdateHandler
from codemojex.engine.errors import ServerFull, Unavailable, UnknownOutcome
from codemojex.engine.jobs import claims
from codemojex.play import games, rooms
from codemojex.play.outbound import messages
from codemojex.play.outcomes import Complete, Discard, Job, Outcome, Park, Retry
from codemojex.play.people import sessions
from tests.play.table import GameTable
from tests.support.telegram import People

ADA = {"id": 77, "is_bot": False, "first_name": "Ada", "language_code": "en"}
PRIVATE = {"id": 77, "type": "private", "first_name": "Ada"}


class Counter:
    """Handles updates and looks at what was ordered."""

    def __init__(self, table: GameTable, bot: Bot, desk: Desk, dispatcher: Dispatcher) -> None:
        self.table = table
        self.desk = desk
        self.updates = UpdateHandler(bot, dispatcher, desk)

    async def handle(self, update: dict[str, Any]) -> Outcome | None:
        return await self.raw(json.dumps(update).encode())

    async def raw(self, payload: bytes) -> Outcome | None:
        return await self.updates(Job("j", payload, "1", None, 0, 0, "q", 0))

    async def ordered(self) -> list[messages.Message]:
        claimed = await claims.claim_many(self.table.play.bus, self.table.play.options.outbound, 100, 1000)
        return [messages.decode(job.payload) for job in claimed.jobs]

    async def texts(self) -> list[str]:
        return [order.text for order in await self.ordered() if isinstance(order, messages.Say)]


@pytest.fixture
async def counter(table: GameTable, bot: Bot) -> Counter:
    desk = Desk(table.play, load_texts(), await identify(bot))
    return Counter(table, bot, desk, build_dispatcher(SessionStorage(table.play)))


def message(number: int, text: str, **more: Any) -> dict[str, Any]:
    body = {"message_id": number, "date": 1, "chat": PRIVATE, "from": ADA, "text": text}
    return {"update_id": number, "message": {**body, **more}}


def pressing(number: int, data: str) -> dict[str, Any]:
    board = {"message_id": 5, "date": 1, "chat": PRIVATE, "text": "x"}
    query = {"id": str(number), "from": ADA, "chat_instance": "1", "data": data, "message": board}
    return {"update_id": number, "callback_query": query}


async def test_a_repeated_update_says_nothing_twice(counter: Counter) -> None:
    for _ in range(3):
        assert await counter.handle(message(1, "/help")) is None
    assert len(await counter.texts()) == 1


async def test_a_repeated_play_opens_one_game_and_complains_about_nothing(counter: Counter) -> None:
    await counter.handle(message(1, "/play quick"))
    await counter.handle(message(1, "/play quick"))
    assert await counter.texts() == []


async def test_a_repeated_press_changes_the_draft_once(counter: Counter) -> None:
    await counter.handle(message(1, "/play quick"))
    room = await rooms.room_for(counter.table.play, 77, None, "private", "Ada")
    game = await games.live_game(counter.table.play, room.id)
    assert game is not None
    for number in range(3):
        await counter.handle(pressing(2 + number, f"c:{game.id}:{number}:0"))
    for _ in range(2):
        await counter.handle(pressing(5, f"c:{game.id}:back:0"))
    session = await sessions.get(counter.table.play, sessions.session_id(game.starter, 77, None))
    assert session.draft == game.settings.palette[:2]


async def test_a_repeated_guess_takes_one_try(counter: Counter) -> None:
    await counter.handle(message(1, "/play quick"))
    room = await rooms.room_for(counter.table.play, 77, None, "private", "Ada")
    game = await games.live_game(counter.table.play, room.id)
    assert game is not None
    guess = "".join(game.settings.palette[:4])
    for _ in range(2):
        await counter.handle(message(2, guess))
    state = await counter.table.state(game)
    assert len(state.rows) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"forward_origin": {"type": "hidden_user", "sender_user_name": "x", "date": 1}},
        {"via_bot": {"id": 9, "is_bot": True, "first_name": "b"}},
        {"sender_chat": {"id": -5, "type": "channel", "title": "c"}},
        {"from": None, "sender_chat": {"id": -5, "type": "channel", "title": "c"}},
    ],
)
async def test_what_nobody_wrote_here_is_no_guess(counter: Counter, more: dict[str, Any]) -> None:
    game = await counter.table.open()
    chat = {"id": counter.table.room.chat_id, "type": "group", "title": "The Den"}
    update = message(1, "".join(game.settings.palette[:4]), **{"chat": chat, **more})
    update["message"] = {name: value for name, value in update["message"].items() if value is not None}
    assert await counter.handle(update) is None
    assert (await counter.table.state(game)).rows == ()


async def test_an_update_that_cannot_be_read_is_dead_at_once(counter: Counter) -> None:
    assert isinstance(await counter.raw(b"not json"), Discard)
    assert isinstance(await counter.handle({"update_id": 1, "message": {"text": 7}}), Discard)


async def test_an_update_of_an_unknown_kind_is_passed_over(counter: Counter) -> None:
    assert isinstance(await counter.handle({"update_id": 1}), Complete)
    assert isinstance(await counter.handle({"update_id": 1, "brand_new": {"id": 1}}), Complete)


def failing(table: GameTable, error: Exception) -> Dispatcher:
    async def fail(_: Message) -> None:
        raise error

    router = Router()
    router.message.register(fail)
    dispatcher = Dispatcher(storage=SessionStorage(table.play))
    dispatcher.include_router(router)
    return dispatcher


async def test_a_handlers_failure_is_a_retry_by_its_class_and_nothing_more(
    counter: Counter, bot: Bot, table: GameTable
) -> None:
    counter.updates = UpdateHandler(bot, failing(table, LookupError("the secret is 🍎🍋🍇🍓")), counter.desk)
    assert await counter.handle(message(1, "x")) == Retry("LookupError")


@pytest.mark.parametrize("error", [Unavailable("no connection"), UnknownOutcome("cut"), ServerFull("full")])
async def test_while_a_server_is_away_the_lane_rests_and_nobody_overtakes(
    counter: Counter, bot: Bot, table: GameTable, error: Exception
) -> None:
    counter.updates = UpdateHandler(bot, failing(table, error), counter.desk)
    assert isinstance(await counter.handle(message(1, "x")), Park)


async def test_a_group_that_adds_the_bot_is_greeted(counter: Counter) -> None:
    chat = {"id": -9, "type": "supergroup", "title": "The Den"}
    me = {"id": 4_200_000_001, "is_bot": True, "first_name": "bot"}
    came = {
        "chat": chat,
        "from": ADA,
        "date": 1,
        "old_chat_member": {"status": "left", "user": me},
        "new_chat_member": {"status": "member", "user": me},
    }
    await counter.handle({"update_id": 1, "my_chat_member": came})
    gone = {**came, "old_chat_member": came["new_chat_member"], "new_chat_member": came["old_chat_member"]}
    await counter.handle({"update_id": 2, "my_chat_member": gone})
    assert len(await counter.texts()) == 1


async def test_a_group_that_becomes_a_supergroup_keeps_its_game(counter: Counter) -> None:
    game = await counter.table.open()
    old = {"id": counter.table.room.chat_id, "type": "group", "title": "The Den"}
    new = {"id": -1_009_876_543_210, "type": "supergroup", "title": "The Den"}
    for number, told in enumerate(
        (
            {"chat": old, "migrate_to_chat_id": new["id"]},
            {"chat": new, "migrate_from_chat_id": old["id"]},
        ),
        1,
    ):
        update = message(number, "", **told)
        del update["message"]["text"]
        assert await counter.handle(update) is None
    room = await rooms.room_for(counter.table.play, -1_009_876_543_210, None, "supergroup", "The Den")
    assert room.id == game.room


async def test_dialogue_state_is_kept_apart_from_the_players_session(counter: Counter, bot: Bot) -> None:
    storage = SessionStorage(counter.table.play)
    key = StorageKey(bot.id, 77, 77)
    other = StorageKey(bot.id, 77, 78)
    await storage.set_state(key, "asking")
    await storage.set_data(key, {"n": 1})
    assert (await storage.get_state(key), await storage.get_data(key)) == ("asking", {"n": 1})
    assert (await storage.get_state(other), await storage.get_data(other)) == (None, {})
    await storage.set_state(key, None)
    assert await storage.get_state(key) is None


async def test_the_menu_differs_between_private_chats_and_groups(bot: Bot, people: People) -> None:
    await publish_menu(bot, load_texts())
    private = [entry.command for entry in await bot.get_my_commands(BotCommandScopeAllPrivateChats())]
    group = [entry.command for entry in await bot.get_my_commands(BotCommandScopeAllGroupChats())]
    assert "lock" in private
    assert "vote_end" not in private
    assert "vote_end" in group
