"""Messages arrive once, boards stay one message, and each refusal of Telegram has its consequence."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from aiogram import Bot

from codemojex.bot.factory import build_bot
from codemojex.bot.interaction.scene import Desk
from codemojex.bot.sending.sender import Sender
from codemojex.bot.telegram.identity import identify
from codemojex.bot.texts import load_texts
from codemojex.engine.jobs import claims
from codemojex.local_telegram import LocalTelegram
from codemojex.play import rooms
from codemojex.play.outbound import messages, orders, silence
from codemojex.play.outbound.messages import Board, Composer, Message, ResultOrder, Say, encode
from codemojex.play.outcomes import Complete, Delay, Discard, Job, Outcome, Park, Retry
from codemojex.play.people import players
from codemojex.play.rooms import Room
from tests.play.table import GameTable
from tests.support.telegram import Json, People, buttons


class Office:
    """A sender, and a group where its messages are read."""

    def __init__(self, table: GameTable, bot: Bot, desk: Desk, people: People, room: Room) -> None:
        self.table = table
        self.bot = bot
        self.desk = desk
        self.sender = Sender(bot, desk)
        self.people = people
        self.room = room
        self._job = table.play.mint.mint

    async def send(self, message: Message, job_id: str = "", stalled: int = 0) -> Outcome | None:
        return await self.sender(self.job(message, job_id, stalled))

    def job(self, message: Message, job_id: str = "", stalled: int = 0) -> Job:
        return Job(job_id or self._job("JOB"), encode(message), "1", None, 0, stalled, "q", 0)

    async def ordered(self) -> Sequence[Job]:
        """What waits to be sent."""
        return (await claims.claim_many(self.table.play.bus, self.table.play.options.outbound, 100, 60_000)).jobs

    async def shown(self) -> list[Json]:
        """The bot's messages in the group."""
        return [m for m in await self.people.messages(self.room.chat_id) if m.get("text") and m["from"]["is_bot"]]

    def say(self, text: str = "hello", thread_id: int | None = None) -> Say:
        return Say(chat_id=self.room.chat_id, thread_id=thread_id, text=text, key="k")

    def board(self, game_id: str, fresh: bool = False) -> Board:
        return Board(chat_id=self.room.chat_id, game=game_id, room=self.room.id, fresh=fresh)


@pytest.fixture
async def office(table: GameTable, bot: Bot, people: People) -> Office:
    ada = await people.add_person("Ada")
    chat_id = await people.add_group("The Den", [ada])
    table.room = await rooms.room_for(table.play, chat_id, None, "supergroup", "The Den")
    desk = Desk(table.play, load_texts(), await identify(bot))
    return Office(table, bot, desk, people, table.room)


async def test_a_text_arrives_as_html(office: Office) -> None:
    assert await office.send(office.say("a <b>bold</b> &lt;3")) is None
    assert [m["text"] for m in await office.shown()] == ["a bold <3"]


async def test_a_whisper_is_for_one_and_for_all_where_that_cannot_be(office: Office) -> None:
    boris = await office.people.add_person("Boris")
    await office.people.members(office.room.chat_id, boris, "join")
    whisper = office.say("psst").__replace__(receiver=boris)
    assert await office.send(whisper) is None
    for refused in (True, False):  # a refusal may be about the receiver alone
        if refused:
            await office.people.fault("sendMessage", "400", description="RECEIVER_USER_INVALID")
        assert await office.send(whisper) is None
    assert [m.get("receiver_user", {}).get("id") for m in await office.shown()] == [boris, None, boris]


async def test_a_chat_that_refuses_every_whisper_is_not_asked_each_time(office: Office) -> None:
    whisper = office.say("psst").__replace__(receiver=1)  # nobody of the group
    for _ in range(5):
        assert await office.send(whisper) is None
    asked = [c for c in await office.people.log("sendMessage") if "ephemeral_message_parameters" in c["fields"]]
    assert (len(asked), len(await office.shown())) == (3, 5)


async def test_a_board_is_one_message_that_is_edited(office: Office) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    await office.table.guess(game, "Ada", await office.table.wrong(game))
    await office.table.work()
    await office.send(office.board(game.id))
    [board] = await office.shown()
    assert "Ada 1:" in board["text"]
    assert len(buttons(board)) == 4
    assert (await orders.sent_board(office.table.play, game.id)).message_id == board["message_id"]  # type: ignore[union-attr]


async def test_a_board_that_did_not_change_is_not_sent(office: Office) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    calls = len(await office.people.log())
    assert await office.send(office.board(game.id)) is None
    assert len(await office.people.log()) == calls


async def test_a_fresh_board_is_a_new_message_and_takes_the_edits(office: Office) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    await office.send(office.board(game.id, fresh=True))
    await office.table.guess(game, "Ada", await office.table.wrong(game))
    await office.table.work()
    await office.send(office.board(game.id))
    [new] = await office.shown()  # the old one is gone
    assert "Ada 1:" in new["text"]


@pytest.mark.parametrize(("kind", "points_down"), [("400", True), ("500", False)])
async def test_an_old_board_that_cannot_be_deleted_points_down_or_stays(
    kind: str, points_down: bool, office: Office
) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    await office.people.fault("deleteMessage", kind, description="message can't be deleted for everyone")
    assert await office.send(office.board(game.id, fresh=True)) is None
    old, new = await office.shown()
    assert ("further down" in old["text"], bool(buttons(old))) == (points_down, not points_down)
    assert buttons(new)


async def test_a_board_whose_message_is_gone_is_sent_anew(office: Office) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    await office.table.guess(game, "Ada", await office.table.wrong(game))
    await office.table.work()
    await office.people.fault("editMessageText", "400", description="message to edit not found")
    assert await office.send(office.board(game.id)) is None
    assert len(await office.shown()) == 2


async def test_not_modified_counts_as_sent(office: Office) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    await office.table.guess(game, "Ada", await office.table.wrong(game))
    await office.people.fault("editMessageText", "400", description="message is not modified: x")
    assert await office.send(office.board(game.id)) is None
    assert len(await office.shown()) == 1


async def test_the_result_tells_code_and_winner(office: Office) -> None:
    game = await office.table.open()
    secret = await office.table.secret(game)
    await office.table.guess(game, "Ada", secret)
    await office.table.work()
    order = ResultOrder(chat_id=office.room.chat_id, game=game.id, room=office.room.id, event="e")
    assert await office.send(order) is None
    [result] = await office.shown()
    assert "Ada cracked the code" in result["text"]
    assert "".join(secret) in result["text"]


async def test_a_result_is_not_told_while_the_game_is_on(office: Office) -> None:
    game = await office.table.open()
    order = ResultOrder(chat_id=office.room.chat_id, game=game.id, room=office.room.id, event="e")
    outcomes = [await office.send(order, "JOB00000000001") for _ in range(11)]
    assert isinstance(outcomes[0], Delay)
    assert isinstance(outcomes[-1], Discard)
    assert await office.shown() == []


async def test_a_flood_rests_the_chat_exactly_as_long_as_told(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    await office.people.fault("sendMessage", "429", retry_after=7)
    with caplog.at_level(logging.WARNING):
        assert await office.send(office.say()) == Park(7_000)
    assert "rests 7 s" in caplog.text
    assert await office.send(office.say()) is None


@pytest.mark.parametrize("kind", ["500", "html502"])
async def test_a_sick_server_is_tried_again(kind: str, office: Office) -> None:
    await office.people.fault("sendMessage", kind)
    assert isinstance(await office.send(office.say()), Retry)


async def test_no_connection_charges_nothing(office: Office, telegram: LocalTelegram) -> None:
    await telegram.stop()
    assert isinstance(await office.send(office.say()), Delay)


async def test_a_text_with_a_lost_answer_is_repeated_at_most_once(office: Office) -> None:
    await office.people.fault("sendMessage", "lost", 9)
    job = "JOB00000000001"
    assert isinstance(await office.send(office.say(), job), Retry)
    assert isinstance(await office.send(office.say(), job), Discard)
    assert isinstance(await office.send(office.say(), job), Discard)
    assert len(await office.shown()) == 2


async def test_after_a_crash_a_lost_answer_is_not_repeated_again(office: Office) -> None:
    await office.people.fault("sendMessage", "lost")
    assert isinstance(await office.send(office.say(), stalled=1), Discard)


async def test_a_board_with_a_lost_answer_is_repeated_as_an_edit(office: Office) -> None:
    game = await office.table.open()
    await office.send(office.board(game.id))
    await office.table.guess(game, "Ada", await office.table.wrong(game))
    await office.table.work()
    await office.people.fault("editMessageText", "lost")
    assert isinstance(await office.send(office.board(game.id)), Retry)
    assert await office.send(office.board(game.id)) is None
    assert len(await office.shown()) == 1


@pytest.mark.parametrize(
    ("kind", "description"),
    [
        ("403", "bot was blocked by the user"),
        ("403", "bot was kicked from the supergroup chat"),
        ("400", "chat not found"),
        ("400", "not enough rights to send text messages to the chat"),
    ],
)
async def test_a_chat_that_refuses_us_is_left_alone(kind: str, description: str, office: Office) -> None:
    game = await office.table.open()
    await office.people.fault("sendMessage", kind, description=description)
    assert await office.send(office.board(game.id)) == Complete("silent")
    calls = len(await office.people.log())
    assert await office.send(office.board(game.id)) == Complete("silent")
    assert await Sender(office.bot, office.desk)(office.job(office.board(game.id))) == Complete("silent")
    assert len(await office.people.log()) == calls, "nor does another sender try"


async def test_a_chat_that_can_be_written_to_again_gets_its_board(office: Office) -> None:
    game = await office.table.open()
    await office.people.fault("sendMessage", "403", description="bot was blocked by the user")
    assert await office.send(office.board(game.id)) == Complete("silent")
    assert await office.send(office.say()) is None
    assert await office.send(office.board(game.id)) is None
    assert len(await office.shown()) == 2


async def test_a_silent_chat_is_tried_by_answers_and_not_by_each_of_many(office: Office) -> None:
    await office.people.fault("sendMessage", "400", 9, description="not enough rights to send text messages")
    calls = len(await office.people.log())
    for _ in range(4):
        assert await office.send(office.say()) == Complete("silent")
    assert len(await office.people.log()) == calls + 2


async def test_a_person_who_starts_the_bot_by_a_link_gets_the_composer_although_the_chat_was_silent(
    office: Office,
) -> None:
    boris = await office.people.add_person("Boris")
    await office.people.members(office.room.chat_id, boris, "join")
    player = await players.player_for(office.table.play, boris, "Boris", "en")
    game = await office.table.open()
    composer = Composer(chat_id=boris, player=player.id, game=game.id)
    assert await office.send(composer) == Complete("silent"), "who has not pressed Start cannot be written to"
    await office.people.start(boris, "a-link")
    assert await office.send(composer) == Complete("silent")
    assert await office.send(composer.__replace__(fresh=True)) is None
    assert await office.send(composer) is None


async def test_a_silent_chat_gets_the_result_that_it_missed_and_the_board_of_today(office: Office) -> None:
    table, play = office.table, office.table.play
    game = await table.open()
    await office.people.fault("sendMessage", "400", description="not enough rights to send text messages")
    assert await office.send(office.board(game.id)) == Complete("silent")
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    result = ResultOrder(chat_id=office.room.chat_id, game=game.id, room=office.room.id, event="EVT")
    assert await office.send(result) == Complete("silent")
    today = await table.open(request="open-2")
    await orders.board(play, today, fresh=True)
    assert await silence.end(play, office.room.chat_id, None)
    assert not await silence.end(play, office.room.chat_id, None)
    ordered = [messages.decode(job.payload) for job in await office.ordered()]
    assert ordered[0] == Say(chat_id=1_000, text=ordered[0].text, key=f"silent-{game.id}")  # type: ignore[union-attr]
    assert "goes on unseen" in ordered[0].text
    assert [(type(order), order.game) for order in ordered[1:]] == [  # type: ignore[union-attr]
        (Board, today.id),
        (ResultOrder, game.id),
        (Board, game.id),
        (Board, today.id),
    ], "although one waited already, today's board comes below the result"
    for order in ordered[1:]:
        assert await office.send(order) is None
    texts = [message["text"] for message in await office.shown()]
    assert "Quick · race, begun 20" in texts[-3]
    assert "No guess yet" in texts[-1]


async def test_the_starter_hears_that_the_bot_was_kicked(office: Office) -> None:
    game = await office.table.open()
    await office.people.fault("sendMessage", "403", description="bot was kicked from the supergroup chat")
    for _ in range(2):
        assert await office.send(office.board(game.id)) == Complete("silent")
    told = [messages.decode(job.payload) for job in await office.ordered()]
    assert [(type(order), order.chat_id) for order in told] == [(Say, 1_000)]


async def test_a_message_to_a_group_that_moved_goes_after_it(office: Office) -> None:
    people = office.people
    ada = await people.add_person("Ada")
    chat_id = await people.add_group("Old", [ada], kind="group")
    new_id = (await people.post("migrate", chat_id=chat_id))["chat_id"]
    assert await office.send(Say(chat_id=chat_id, text="hello", key="k")) is None
    assert [m["text"] for m in await people.messages(new_id) if m.get("text")] == ["hello"]


async def test_a_topic_that_is_gone_falls_back_to_the_chat(office: Office) -> None:
    await office.people.fault("sendMessage", "400", description="message thread not found")
    assert await office.send(office.say("anyway", thread_id=5)) is None
    [message] = await office.shown()
    assert message["text"] == "anyway"
    assert "message_thread_id" not in message


async def test_a_defect_is_a_dead_letter_with_its_reason(office: Office) -> None:
    await office.people.fault("sendMessage", "400", description="BUTTON_DATA_INVALID")
    outcome = await office.send(office.say())
    assert isinstance(outcome, Discard)
    assert "BUTTON_DATA_INVALID" in outcome.error
    assert isinstance(await office.sender(Job("j", b"{}", "1", None, 0, 0, "q", 0)), Discard)


async def test_a_wrong_token_is_told_and_loses_no_message(office: Office, telegram: LocalTelegram) -> None:
    stranger = build_bot("4200000001:not-the-token-of-anybody-at-all-000", telegram.url)
    told: list[bool] = []
    sender = Sender(stranger, office.desk, lambda: told.append(True))
    outcome = await sender(Job("j", encode(office.say()), "1", None, 0, 0, "q", 0))
    await stranger.session.close()
    assert isinstance(outcome, Delay)
    assert told == [True]
