"""What many wrong messages leave in the outbound queue: a few answers, so that the board does not wait behind them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from aiogram import Bot
from aiogram.types import Chat, Message, User

from codemojex.bot.interaction.scene import Desk
from codemojex.bot.screens import guess, start
from codemojex.bot.telegram.identity import Me
from codemojex.bot.texts import load_texts
from codemojex.engine.jobs import claims
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import messages, orders
from codemojex.play.outbound.messages import Board, Say
from codemojex.play.outbound.orders import MAX_BEFORE
from codemojex.play.people import sessions
from codemojex.play.people.sessions import Session
from codemojex.play.rooms import room_for
from tests.play.table import GameTable

NOBODY = Bot("42:nobody-asks-it-anything-in-this-file")
BOT = User(id=42, is_bot=True, first_name="Codemojex")
BOT_ITSELF = Bot("42:never-asked")
BORIS = User(id=1_001, is_bot=False, first_name="Boris")


class Talk:
    """A group whose messages reach the handlers, and the queue that they fill."""

    def __init__(self, table: GameTable, game: GameSnapshot) -> None:
        self.table, self.game = table, game
        self.desk = Desk(table.play, load_texts(), Me(BOT.id, "codemojex_bot", reads_all=True))
        self._number = 0

    async def typed(self, text: str, who: User = BORIS, *, to_bot: bool = False) -> None:
        await guess.typed(self._message(text, who, to_bot=to_bot), NOBODY, self.desk, f"u{self._number}")

    async def ordered(self, args: str, who: User = BORIS) -> None:
        await guess.ordered(self._message("/guess", who), NOBODY, self.desk, f"u{self._number}", args)

    async def helped(self, who: User = BORIS) -> None:
        await start.help_(self._message("/help", who), self.desk, f"u{self._number}")

    async def waiting(self) -> Sequence[messages.Message]:
        play = self.table.play
        jobs = (await claims.claim_many(play.bus, play.options.outbound, 100, 60_000)).jobs
        return [messages.decode(job.payload) for job in jobs]

    async def answers(self) -> list[str]:
        return [message.text for message in await self.waiting() if isinstance(message, Say)]

    def _message(self, text: str, who: User, *, to_bot: bool = False) -> Message:
        self._number += 1
        chat = Chat(id=self.table.room.chat_id, type="supergroup", title="The Den")
        when = datetime.now(UTC)
        board = Message(message_id=1, date=when, chat=chat, from_user=BOT) if to_bot else None
        number = self._number + 1
        return Message(message_id=number, date=when, chat=chat, from_user=who, text=text, reply_to_message=board)


@pytest.fixture
async def talk(table: GameTable) -> Talk:
    table.room = await room_for(table.play, table.room.chat_id, None, "supergroup", "The Den")
    return Talk(table, await table.open())


async def test_thirty_wrong_guesses_leave_one_complaint_before_the_board(talk: Talk) -> None:
    for count in range(30):
        await talk.typed("🍎🍋🍇" if count % 2 else "🍎🍋🍇🍓🍌")
    await orders.board(talk.table.play, talk.game)
    complaint, board = await talk.waiting()
    assert isinstance(complaint, Say)
    assert isinstance(board, Board)


async def test_help_again_and_again_is_answered_once(talk: Talk) -> None:
    for _ in range(20):
        await talk.helped()
    await talk.helped(User(id=1_002, is_bot=False, first_name="Chen"))
    assert len(await talk.answers()) == 2, "each person is answered"


async def test_a_crowd_of_mistakes_leaves_a_few_answers_before_the_board(talk: Talk) -> None:
    for number in range(20):
        await talk.typed("🍎🍋🍇", User(id=2_000 + number, is_bot=False, first_name="X"))
    assert len(await talk.answers()) == MAX_BEFORE


async def test_commas_between_emojis_are_read_over_after_the_command(talk: Talk) -> None:
    await talk.ordered("🍎, 🍋 ,🍇; 🐶")
    assert "🐶 is not in this game" in (await talk.answers())[0]


async def test_pins_that_make_a_guess_impossible_are_named(talk: Talk) -> None:
    play, boris = talk.table.play, talk.table.people["Boris"]
    seat = sessions.session_id(boris.id, talk.table.room.chat_id, None)

    async def pin(*tokens: str) -> None:
        def pinned(session: Session) -> Session:
            return sessions.for_game(session, talk.game.id).__replace__(locks=dict(enumerate(tokens)))

        await sessions.update(play, seat, pinned)

    await pin("🍎")
    await talk.typed("🍎🍋🍇")
    await pin("🍎", "🍋", "🍇", "🍓")
    await talk.ordered("")
    repeated, pinned = await talk.answers()
    assert "🍎 is pinned at place 1" in repeated
    assert "All 4 places are pinned" in pinned


async def test_another_mistake_is_told(talk: Talk) -> None:
    await talk.typed("🍎🍋🍇")
    await talk.typed("🍎🍎🍇🍓")
    assert len(await talk.answers()) == 2


@pytest.mark.parametrize(
    ("text", "to_bot", "answered"),
    [
        ("🍎🍋🍇🐶", False, True),
        ("🍎🍋🐱🐶", False, True),
        ("🍎🐭🐱🐶", False, False),
        ("🍎🍋🐶", False, False),
        ("🍎🍋🐶", True, True),
        ("😂😂", True, True),
        ("😂", True, False),
    ],
)
async def test_a_foreign_emoji_is_refused_by_name_where_a_guess_is_meant(
    text: str, to_bot: bool, answered: bool, talk: Talk
) -> None:
    await talk.typed(text, to_bot=to_bot)
    said = await talk.answers()
    assert len(said) == answered
    assert all("is not in this game" in answer for answer in said)
