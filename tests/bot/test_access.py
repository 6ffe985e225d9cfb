"""Who is outside sees nothing of a game and does nothing in it, whichever way they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiogram import Bot

from codemojex.bot.factory import build_dispatcher
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.screens import all_routers
from codemojex.bot.sending.sender import Sender
from codemojex.bot.storage import SessionStorage
from codemojex.bot.telegram.identity import identify
from codemojex.bot.texts import load_texts
from codemojex.bot.updates import UpdateHandler
from codemojex.engine.jobs import claims
from codemojex.game.presets import settings_for
from codemojex.play import games, rooms
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import composers, messages
from codemojex.play.outcomes import Job, Outcome
from codemojex.play.people import membership, players, sessions
from tests.play.table import GameTable
from tests.support.telegram import Json, People, unmarked


class House:
    """A group with Ada and Boris, its game, and the bot's updates and sender, moved step by step."""

    def __init__(self, table: GameTable, bot: Bot, desk: Desk, people: People) -> None:
        self.table, self.bot, self.desk, self.people = table, bot, desk, people
        self.updates = UpdateHandler(bot, build_dispatcher(SessionStorage(table.play)), desk)
        self._number = 0

    async def update(self, body: Json) -> Outcome | None:
        self._number += 1
        payload = json.dumps({"update_id": self._number, **body}).encode()
        return await self.updates(Job("j", payload, "1", None, 0, 0, "q", 0))

    def user(self, who: int) -> Json:
        return {"id": who, "is_bot": False, "first_name": "Somebody", "language_code": "en"}

    async def says(self, who: int, text: str, chat: Json | None = None) -> Outcome | None:
        chat = chat or {"id": who, "type": "private", "first_name": "Somebody"}
        message = {"message_id": 900, "date": 1, "chat": chat, "from": self.user(who), "text": text}
        return await self.update({"message": message})

    async def presses(self, who: int, data: str, message_id: int = 901) -> str | None:
        """A press on a message of the private chat; the toast that the bot answered with."""
        at = len(await self.people.log("answerCallbackQuery"))
        chat = {"id": who, "type": "private", "first_name": "Somebody"}
        message = {"message_id": message_id, "date": 1, "chat": chat, "text": "x"}
        query = {"id": str(self._number), "from": self.user(who), "chat_instance": "1", "data": data}
        assert await self.update({"callback_query": {**query, "message": message}}) is None
        calls = (await self.people.log("answerCallbackQuery"))[at:]
        return calls[-1]["fields"].get("text") if calls else None

    async def orders(self) -> list[messages.Message]:
        """What was ordered since the last look."""
        claimed = await claims.claim_many(self.table.play.bus, self.table.play.options.outbound, 100, 60_000)
        return [messages.decode(job.payload) for job in claimed.jobs]

    async def send(self, *orders: messages.Message) -> None:
        """As a sender that has just been started."""
        sender = Sender(self.bot, self.desk)
        for order in orders or await self.orders():
            await sender(Job(self.table.play.mint.mint("JOB"), messages.encode(order), "1", None, 0, 0, "q", 0))

    async def shown(self, who: int) -> list[str]:
        return [m["text"] for m in await self.people.messages(who) if m["from"]["is_bot"] and "text" in m]

    async def composes(self, who: int, game: GameSnapshot) -> str:
        """Open the composer and give its text."""
        await self.says(who, f"/start g_{game.id}")
        await self.send()
        return (await self.shown(who))[-1]


@pytest.fixture
async def house(table: GameTable, bot: Bot, people: People) -> House:
    desk = Desk(table.play, load_texts(), await identify(bot))
    return House(table, bot, desk, people)


@pytest.fixture
async def group(house: House) -> tuple[int, int, int]:
    """Ada, Boris and the group's id; Ada has started a game there and guessed."""
    ada, boris = await house.people.add_person("Ada"), await house.people.add_person("Boris")
    chat = await house.people.add_group("The Den", [ada, boris], bot_admin=True)
    for person in (ada, boris):
        await house.people.start(person)
    house.table.room = await rooms.room_for(house.table.play, chat, None, "supergroup", "The Den")
    house.table.people["Ada"] = await players.player_for(house.table.play, ada, "Ada", "en")
    return ada, boris, chat


# Every handler: how an outsider tries it with a game that is not theirs, or why it shows and changes none.
TRIES: dict[str, Callable[[str], str] | None] = {
    "guess.typed": lambda game: "🍎🍋🍇🍓",
    "guess.ordered": lambda game: "/guess 🐶",  # the complaint would show the palette
    "composer.compose": lambda game: f"c:{game}:0:0",
    "board.show": lambda game: "/board",
    "board.press_board": lambda game: f"b:{game}:history",
    "history.show": lambda game: "/history",
    "end.end": lambda game: "/end",
    "end.confirmed": lambda game: f"e:{game}",
    "end.vote_end": lambda game: "/vote_end",
    "locks.lock": lambda game: "/lock 1 🍎",
    "locks.unlock": lambda game: "/unlock all",
    "verify.verify": lambda game: "/verify",
    "start.start": lambda game: f"/start g_{game}",
    "play.start_game": None,  # opens or shows the game of the chat in which it is said
    "play.accept_proposal": None,  # the same
    "start.help_": None,
    "start.rules": None,
    "membership.moved": None,
    "membership.member_changed": None,
    "membership.member_told": None,
    "membership.migrated": None,
    "membership.reopened": None,
    "fallback.unknown_text": None,
    "fallback.unknown_order": None,
    "fallback.unknown_button": None,
}
ASKING = {name: make for name, make in TRIES.items() if make is not None}


def test_the_table_holds_every_handler() -> None:
    handlers: set[str] = set()
    for router in all_routers():
        for observer in router.observers.values():
            handlers |= {f"{router.name}.{handler.callback.__name__}" for handler in observer.handlers}
    assert handlers == set(TRIES)


async def attempt(house: House, who: int, game: GameSnapshot, text: str) -> None:
    """An outsider whose private chat showed this game last tries something; nothing of it is told or changed."""
    play = house.table.play
    player = await players.player_for(play, who, "Somebody", "en")
    session = sessions.session_id(player.id, who, None)
    await sessions.update(play, session, lambda old: sessions.for_game(old, game.id, joined=True))
    before = await house.table.state(game)
    await house.orders()
    if text[1:2] == ":":
        toast = await house.presses(who, text)
        assert toast == "You are not in the group of this game."
    else:
        assert await house.says(who, text) is None
    orders = await house.orders()
    said = [order.text for order in orders if isinstance(order, messages.Say)]
    assert said in ([], [house.desk.texts.of("en")("not-a-member")], [house.desk.texts.of("en")("refused-not_yours")])
    assert bool(said) != (text[1:2] == ":")
    assert not [order for order in orders if isinstance(order, messages.Board | messages.ResultOrder)]
    await house.send(*orders)
    seen = "".join(await house.shown(who))
    assert "🍎" not in seen
    assert "Quick" not in seen
    assert await house.table.state(game) == before
    found = await games.read(play, game.id)
    assert found == game
    assert (await sessions.get(play, session)).locks == {}


@pytest.mark.parametrize("name", ASKING)
async def test_a_stranger_gets_nothing_of_a_groups_game(house: House, group: tuple[int, int, int], name: str) -> None:
    game = await house.table.open()
    await house.table.guess(game, "Ada", await house.table.wrong(game))
    stranger = await house.people.add_person("Xeno")
    await house.people.start(stranger)
    await attempt(house, stranger, game, ASKING[name](game.id))


@pytest.mark.parametrize("name", ASKING)
async def test_a_stranger_gets_nothing_of_a_solo_game(house: House, group: tuple[int, int, int], name: str) -> None:
    ada, boris, _ = group
    house.table.room = await rooms.room_for(house.table.play, ada, None, "private", "Ada")
    game = await house.table.open(settings_for("quick", "solo"))
    await attempt(house, boris, game, ASKING[name](game.id))


@pytest.mark.parametrize("name", ASKING)
async def test_a_starter_who_has_left_gets_nothing(house: House, group: tuple[int, int, int], name: str) -> None:
    _, boris, chat = group
    house.table.people["Boris"] = await players.player_for(house.table.play, boris, "Somebody", "en")
    game = await house.table.open(by="Boris")
    await house.people.members(chat, boris, "kick")
    await attempt(house, boris, game, ASKING[name](game.id))


async def test_a_removed_member_loses_the_composer_at_once(house: House, group: tuple[int, int, int]) -> None:
    _, boris, chat = group
    game = await house.table.open()
    assert "Your guess for The Den" in await house.composes(boris, game)
    await house.people.members(chat, boris, "kick")
    left = {"chat": {"id": chat, "type": "supergroup", "title": "The Den"}, "from": house.user(boris), "date": 1}
    status = {"user": house.user(boris)}
    old, new = {"status": "member", **status}, {"status": "kicked", "until_date": 0, **status}
    await house.update({"chat_member": {**left, "old_chat_member": old, "new_chat_member": new}})
    await house.send()
    assert (await house.shown(boris))[-1] == "✉️ This game belongs to a group that you are not in any more."
    await house.table.guess(game, "Ada", await house.table.wrong(game))
    await house.table.work()
    assert await composers.follow(house.table.play, game.id) == 0, "it is kept up no longer"


async def test_a_service_message_is_enough(house: House, group: tuple[int, int, int]) -> None:
    _, boris, chat = group
    game = await house.table.open()
    await house.composes(boris, game)
    await house.people.members(chat, boris, "leave")
    where = {"id": chat, "type": "supergroup", "title": "The Den"}
    told = {"message_id": 7, "date": 1, "chat": where, "from": house.user(boris)}
    await house.update({"message": {**told, "left_chat_member": house.user(boris)}})
    await house.send()
    assert "not in any more" in (await house.shown(boris))[-1]
    await house.people.members(chat, boris, "join")
    await house.update({"message": {**told, "new_chat_members": [house.user(boris)]}})
    assert "Your guess for The Den" in await house.composes(boris, game)


async def test_a_composer_that_follows_the_board_asks_although_nobody_told(
    house: House, group: tuple[int, int, int]
) -> None:
    _, boris, chat = group
    game = await house.table.open()
    await house.composes(boris, game)
    await house.people.members(chat, boris, "kick")
    await house.table.play.bus.execute(  # the yes of five minutes ago has lapsed; every process may have been replaced
        "DEL", f"cmx:{{{house.table.play.options.guesses}}}:member:{chat}:{boris}"
    )
    await house.table.guess(game, "Ada", await house.table.wrong(game))
    await house.table.work()
    await composers.follow(house.table.play, game.id)
    await house.send()
    assert "not in any more" in (await house.shown(boris))[-1]


@pytest.mark.parametrize(
    ("kind", "passes"), [("400", False), ("403", False), ("500", True), ("html502", True), ("429", True), ("cut", True)]
)
async def test_a_refusal_is_an_answer_and_only_silence_is_unknown(
    house: House, group: tuple[int, int, int], kind: str, passes: bool
) -> None:
    game = await house.table.open()
    outsider = await house.people.add_person("Xeno")
    await house.people.start(outsider)
    player = await players.player_for(house.table.play, outsider, "Somebody", "en")
    session = sessions.session_id(player.id, outsider, None)
    await sessions.update(house.table.play, session, lambda old: sessions.for_game(old, game.id, joined=True))
    await house.people.fault("getChatMember", kind, 9)
    await house.says(outsider, "".join(await house.table.wrong(game)))
    assert bool((await house.table.state(game)).rows) is passes


async def test_a_late_yes_does_not_outlive_the_leave(house: House, group: tuple[int, int, int]) -> None:
    _, boris, chat = group
    play = house.table.play
    await membership.left(play, chat, boris)
    await membership.was_seen(play, chat, boris)
    assert not await membership.is_known(play, chat, boris)
    await membership.came(play, chat, boris)
    await membership.was_seen(play, chat, boris)
    assert await membership.is_known(play, chat, boris)


async def test_end_in_private_names_the_groups_game_and_asks(house: House, group: tuple[int, int, int]) -> None:
    ada, _, _ = group
    game = await house.table.open()
    await house.composes(ada, game)
    await house.says(ada, "/end")
    asked = [order for order in await house.orders() if isinstance(order, messages.Say)]
    assert "The Den" in unmarked(asked[0].text)
    assert (await house.table.fresh(game)).state == "open"
    buttons: Any = asked[0].markup
    assert await house.presses(ada, buttons["inline_keyboard"][0][0]["callback_data"]) == "The game is ended."
    assert (await house.table.fresh(game)).state != "open"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/foo", None),
        ("/foo@codemojex_bot", "I do not know that command"),
        ("/bord", "Do you mean /board?"),
        ("/foo@other_bot", None),
        ("/", None),
    ],
)
async def test_a_command_that_does_not_exist_is_told_to_who_typed_it(
    house: House, group: tuple[int, int, int], text: str, answer: str | None
) -> None:
    ada, _, chat = group
    await house.orders()
    await house.says(ada, text, {"id": chat, "type": "supergroup", "title": "The Den"})
    told = [order for order in await house.orders() if isinstance(order, messages.Say)]
    assert [(order.receiver, answer in order.text) for order in told if answer] == ([(ada, True)] if answer else [])
    assert len(told) == bool(answer)
