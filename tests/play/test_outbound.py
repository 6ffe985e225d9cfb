"""What people are told leaves as jobs of the outbound queue, each once."""

from __future__ import annotations

import asyncio
import time

import pytest

from codemojex.engine.jobs import claims, settlement
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.jobs.settlement import Settlement
from codemojex.engine.maintenance.retention_loop import RetentionLoop
from codemojex.engine.streams import streams
from codemojex.play import closing, keys, rooms
from codemojex.play.archive.archiver import Archiver
from codemojex.play.outbound import composers, feed, messages, orders, sent
from codemojex.play.outbound.composers import Composing
from codemojex.play.outbound.messages import Board, Composer, Edit, Message, ResultOrder, Say
from codemojex.play.outbound.orders import Sent
from tests.play.table import LEASE_MS, GameTable


async def outbox(table: GameTable) -> list[Message]:
    """Claim everything that waits to be sent."""
    jobs = (await claims.claim_many(table.play.bus, table.play.options.outbound, 100, LEASE_MS)).jobs
    return [messages.decode(job.payload) for job in jobs]


async def read_feed(table: GameTable) -> None:
    await feed.tell(table.play, await streams.read(table.play.bus, table.queue, keys.FEED))


async def test_text_is_said_once_per_key(table: GameTable) -> None:
    assert await orders.say(table.play, 7, None, "<b>Hi</b>", key="u1-1")
    assert not await orders.say(table.play, 7, None, "<b>Hi</b>", key="u1-1")
    assert await orders.say(table.play, 7, 3, "Hi", key="u1-2", reply_to=5, markup={"inline_keyboard": []})
    assert await outbox(table) == [
        Say(chat_id=7, text="<b>Hi</b>", key="u1-1"),
        Say(chat_id=7, thread_id=3, text="Hi", key="u1-2", reply_to=5, markup={"inline_keyboard": []}),
    ]
    assert not await orders.say(table.play, 7, None, "<b>Hi</b>", key="u1-1")


async def test_text_with_a_window_is_said_again_behind_it(table: GameTable) -> None:
    end = time.monotonic() + 10
    assert await orders.say(table.play, 7, None, "Hi", key="k", window_ms=50)
    while not await orders.say(table.play, 7, None, "Hi", key="k", window_ms=50):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_everything_for_a_chat_shares_its_lane(table: GameTable) -> None:
    await orders.say(table.play, 7, None, "a", key="a")
    await orders.say(table.play, 8, None, "b", key="b")
    jobs = (await claims.claim_many(table.play.bus, table.play.options.outbound, 10, LEASE_MS)).jobs
    assert {job.lane for job in jobs} == {orders.lane(7), orders.lane(8)}


async def test_waiting_boards_of_a_game_are_one(table: GameTable) -> None:
    game = await table.open()
    assert await orders.board(table.play, game)
    assert not await orders.board(table.play, game)
    assert await orders.board(table.play, game, fresh=True)
    chat = table.room.chat_id
    assert await outbox(table) == [
        Board(chat_id=chat, game=game.id, room=game.room),
        Board(chat_id=chat, game=game.id, room=game.room, fresh=True),
    ]
    assert await orders.board(table.play, game), "a claimed board makes room for the next state"


async def test_composer_and_edit_are_ordered(table: GameTable) -> None:
    game = await table.open()
    ada = table.people["Ada"]
    assert await orders.composer(table.play, ada.id, game.id, 7, None)
    assert not await orders.composer(table.play, ada.id, game.id, 7, None)
    assert await orders.composer(table.play, ada.id, game.id, 7, None, fresh=True)
    assert await orders.edit(table.play, 7, 9, "new", key="u3-1")
    assert await outbox(table) == [
        Composer(chat_id=7, player=ada.id, game=game.id),
        Composer(chat_id=7, player=ada.id, game=game.id, fresh=True),
        Edit(chat_id=7, message_id=9, text="new"),
    ]


async def test_feed_orders_one_board_and_one_result(table: GameTable) -> None:
    game = await table.open()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.secret(game))
    await table.work()
    await read_feed(table)
    await read_feed(table)
    told = await outbox(table)
    assert [type(message) for message in told] == [Board, ResultOrder]
    await read_feed(table)
    assert [type(message) for message in await outbox(table)] == [Board], "a result is told once per event"


async def test_accepted_guess_alone_orders_nothing(table: GameTable) -> None:
    game = await table.open()
    await read_feed(table)
    await outbox(table)
    await table.guess(game, "Ada", await table.wrong(game))
    [last] = (await streams.read(table.play.bus, table.queue, keys.FEED))[-1:]
    await feed.tell(table.play, [last])
    assert await outbox(table) == []


async def test_orders_follow_the_room_to_its_new_chat(table: GameTable) -> None:
    game = await table.open()
    await rooms.migrate(table.play, table.room.chat_id, -100_999)
    await orders.board(table.play, game)
    [board] = await outbox(table)
    assert board.chat_id == -100_999


async def test_readers_serve_the_feed(table: GameTable) -> None:
    work = Archiver(table.play)
    readers = [
        feed.outbound_reader(table.play, table.queue, "c1"),
        feed.archive_reader(table.play, table.queue, "c1", work),
    ]
    async with asyncio.TaskGroup() as tasks:
        for reader in readers:
            tasks.create_task(reader.run())
        tasks.create_task(work.run())
        game = await table.open()
        await table.guess(game, "Boris", await table.secret(game))
        await table.work()
        told: list[Message] = []
        end = time.monotonic() + 10
        while ResultOrder not in map(type, told) or await table.play.bus.execute("ZCARD", keys.complete(table.queue)):
            assert time.monotonic() < end
            told += await outbox(table)
            await asyncio.sleep(0.02)
        work.stop()
        for reader in readers:
            reader.stop()
    assert (await table.state(game)).phase == "settled"


async def test_feed_is_trimmed_behind_its_slowest_group_only(table: GameTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "KEEP", 0)
    await table.open()
    stream = f"emq:{{{table.queue}}}:stream:feed"
    await table.play.bus.execute("XGROUP", "CREATE", stream, "outbound", "0")
    retention = RetentionLoop(table.play.bus, [feed.retention(table.queue)])
    (trimmed,) = await retention.sweep()
    assert trimmed is not None
    assert trimmed.held_by == "group:outbound"
    assert await table.play.bus.execute("XLEN", stream) == 1


async def test_board_message_is_noted_and_an_older_one_does_not_replace_it(table: GameTable) -> None:
    game = await table.open()
    assert await orders.sent_board(table.play, game.id) is None
    newer, older = Sent(7, 20, "d2", 2), Sent(7, 10, "d1", 1)
    assert await orders.board_was_sent(table.play, game.id, newer)
    assert not await orders.board_was_sent(table.play, game.id, older)
    assert await orders.sent_board(table.play, game.id) == newer
    assert not await orders.forget_board(table.play, game.id, 10)
    assert await orders.forget_board(table.play, game.id, 20)
    assert await orders.sent_board(table.play, game.id) is None


async def test_board_message_is_noted_together_with_the_acknowledgement(table: GameTable) -> None:
    game = await table.open()
    await orders.board(table.play, game)
    queue = table.play.options.outbound
    [job] = (await claims.claim_many(table.play.bus, queue, 1, LEASE_MS)).jobs
    note = Sent(7, 20, "d", 1)
    outcome = Complete(effect=orders.board_sent_effect(table.play, game.id, note))
    items = [Settlement(job.id, job.token, outcome)]
    await settlement.settle_many(table.play.bus, queue, items, effects=sent.effects())
    assert await orders.sent_board(table.play, game.id) == note


async def test_noted_composers_of_a_game_follow_and_no_more_than_may(
    table: GameTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composers, "LIMIT", 3)
    monkeypatch.setattr(composers, "FOLLOWED", 2)
    game, people = await table.open(), [*table.people.values(), *table.people.values()][:3]
    assert await composers.follow(table.play, game.id) == 0
    for number, player in enumerate(people, 1):
        assert await composers.was_sent(table.play, game.id, player.id, Composing(number, None, 9, "d"))
    assert not await composers.was_sent(table.play, game.id, table.play.mint.mint("PLR"), Composing(4, None, 9, "d"))
    assert await composers.was_sent(table.play, game.id, people[0].id, Composing(1, None, 10, "e"))
    assert await composers.of(table.play, game.id, people[0].id) == Composing(1, None, 10, "e")
    await outbox(table)
    assert await composers.follow(table.play, game.id) == 2, "as many as one change of the board may redraw"
    await outbox(table)
    await closing.end(table.play, game, table.people["Ada"], by_admin=False, request="e")
    assert await composers.follow(table.play, game.id) == 3, "everybody hears of the end"
    assert {message.chat_id for message in await outbox(table)} == {1, 2, 3}


async def test_payload_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind"):
        messages.decode(b'{"kind":"shout","chat_id":1}')
