"""What people may send, however absurd, ends in an answer or in silence at the first try, never in a dead letter."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiogram import Bot, Dispatcher, Router
from aiogram.types import Message

from codemojex.bot.factory import build_dispatcher
from codemojex.bot.interaction.filters import ORDERS
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.storage import SessionStorage
from codemojex.bot.telegram.identity import identify
from codemojex.bot.texts import UnknownText, load_texts
from codemojex.bot.updates import UpdateHandler
from codemojex.engine.errors import InvalidName
from codemojex.play import games, rooms
from codemojex.play.outcomes import Complete, Discard, Retry
from tests.bot.test_updates import ADA, PRIVATE, Counter, message, pressing
from tests.play.table import GameTable
from tests.support.telegram import unmarked

TOWER = "🍎" + "\u0301" * 4_080
ABSURD_GAME = "GAMzzzzzzzzzzz"
GROUP = {"id": -77, "type": "supergroup", "title": "The Den"}


@pytest.fixture
async def counter(table: GameTable, bot: Bot) -> Counter:
    desk = Desk(table.play, load_texts(), await identify(bot))
    return Counter(table, bot, desk, build_dispatcher(SessionStorage(table.play)))


async def own_game(counter: Counter) -> str:
    await counter.handle(message(1, "/play quick"))
    room = await rooms.room_for(counter.table.play, 77, None, "private", "Ada")
    game = await games.live_game(counter.table.play, room.id)
    assert game is not None
    return game.id


@pytest.mark.parametrize("text", [f"/guess {TOWER}", f"/lock 1 {TOWER}", TOWER[:200], f"/play {TOWER}"])
async def test_a_tower_of_marks_gets_a_short_answer(counter: Counter, text: str) -> None:
    await own_game(counter)
    await counter.texts()
    assert await counter.handle(message(2, text)) is None
    [answer] = await counter.texts()
    assert len(unmarked(answer)) < 400


async def test_a_link_to_an_absurd_game_is_a_plain_start(counter: Counter) -> None:
    for number, payload in enumerate((f"g_{ABSURD_GAME}", "g_", "g_GAM", "x" * 4_000, "g_ROM00000000001"), 1):
        assert await counter.handle(message(number, f"/start {payload}")) is None
    assert all("Pick a game" in text for text in await counter.texts())


@pytest.mark.parametrize("data", [f"c:{ABSURD_GAME}:0:0", f"b:{ABSURD_GAME}:history", f"e:{ABSURD_GAME}", "\ud83d"])
async def test_a_button_with_an_absurd_game_is_out_of_date(counter: Counter, data: str) -> None:
    assert await counter.handle(pressing(1, data)) is None


@pytest.mark.parametrize(
    ("update", "field"),
    [
        (message(1, "x", **{"from": {**ADA, "id": 0}}), "user.id"),
        (message(1, "x", **{"from": {**ADA, "id": -5}}), "user.id"),
        (message(1, "x", **{"from": {**ADA, "id": 2**63}}), "user.id"),
        (message(1, "x", chat={**PRIVATE, "id": 2**64}), "chat.id"),
        (message(1, "x", chat={**PRIVATE, "id": 0}), "chat.id"),
        (message(1, "x", chat={**PRIVATE, "type": "k" * 40}), "kind of a chat"),
        (message(1, "x", message_thread_id=-3), "message_thread_id"),
        (message(2**70, "x"), "update_id"),
        ({**message(1, "x"), "message": {**message(1, "x")["message"], "message_id": -1}}, "message_id"),
        (message(1, "x", migrate_to_chat_id=2**64), "migrate_to_chat_id"),
    ],
)
async def test_a_forged_id_is_a_dead_letter_that_names_the_field(
    counter: Counter, update: dict[str, Any], field: str
) -> None:
    outcome = await counter.handle(update)
    assert isinstance(outcome, Discard)
    assert field in outcome.error


async def test_a_forged_id_costs_one_guess_and_not_the_game(counter: Counter) -> None:
    game = await counter.table.open()
    chat = {"id": counter.table.room.chat_id, "type": "group", "title": "The Den"}
    guess = "".join(await counter.table.wrong(game))
    assert isinstance(await counter.handle(message(1, guess, chat=chat, **{"from": {**ADA, "id": -3}})), Discard)
    assert await counter.handle(message(2, guess, chat=chat)) is None
    assert len((await counter.table.state(game)).rows) == 1


@pytest.mark.parametrize(
    ("error", "hopeless"),
    [
        (OverflowError("int too big"), True),
        (InvalidName("lane", "x", "use less"), True),
        ("\ud83d", True),
        (UnknownText("too many characters"), True),
        (RecursionError(), True),
        (RuntimeError("the queue is full"), False),
    ],
)
async def test_what_can_never_succeed_is_not_tried_again(
    counter: Counter, bot: Bot, error: Exception | str, hopeless: bool
) -> None:
    async def fail(_: Message) -> None:
        if isinstance(error, str):
            error.encode()
        else:
            raise error

    router = Router()
    router.message.register(fail)
    dispatcher = Dispatcher(storage=SessionStorage(counter.table.play))
    dispatcher.include_router(router)
    counter.updates = UpdateHandler(bot, dispatcher, counter.desk)
    outcome = await counter.handle(message(1, "x"))
    assert isinstance(outcome, Discard if hopeless else Retry)


PIECES = (
    "🍎", "🍋", "🐶", "\u0301", "\u202e", "\u200b", "\ud83d", "\0", "\n", " ", "@", "/", "1", "٣",
    "9" * 400, "-1", "all",
    "quick", "team", "solo", "<b>", "&", "{ $x }", "{", "x" * 300, "GAM", "g_", ":", "_", "¼", "²", "\ufe0f", "\u20e3",
    "👨‍👩‍👧‍👦",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "\U000e0041" * 50,
)  # fmt: skip


async def test_no_command_link_or_button_makes_a_dead_letter(counter: Counter) -> None:
    random_ = random.Random(16)
    own = await own_game(counter)
    theirs = (await counter.table.open()).id
    names = (*ORDERS, "start", "new", "g", "guess@codemojex_bot", "", "x")

    def some(most: int) -> str:
        return "".join(random_.choice((*PIECES, own, theirs, ABSURD_GAME)) for _ in range(random_.randint(0, most)))

    for number in range(2, 2_500):
        kind = number % 3
        if kind == 0:
            text = f"/{random_.choice(names)}{random_.choice((' ', '', chr(10)))}{some(12)}"
            update = message(number, text[:4096], chat=random_.choice((PRIVATE, GROUP)))
        elif kind == 1:
            update = message(number, f"/start {random_.choice(('g_', '', 'g'))}{some(3)}"[:4096])
        else:
            game = random_.choice((own, theirs, ABSURD_GAME, some(1)))
            action = random_.choice(("0", "99", "back", "clear", "history", "rules", "vote", some(2)))
            data = f"{random_.choice('cbepx')}:{game}:{action}:{random_.choice(('0', '9999', some(1)))}"
            update = pressing(number, random_.choice((data, data.rpartition(":")[0], some(4))))
        outcome = await counter.handle(update)
        assert isinstance(outcome, Complete | None), f"seed 16, update {number}: {outcome} of {update!a}"
