"""Sending, editing, deleting and pressing, through aiogram's client over HTTP."""

import asyncio

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import EphemeralMessageParameters, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters

from tests.local_telegram.conftest import drain
from tests.support.telegram import ControlRefused, People, buttons

KEYBOARD = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="🍕", callback_data="k:1")]])


async def test_a_message_reaches_the_person_with_entities_and_buttons(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "<b>Hi 🍕</b> &lt;3", parse_mode="HTML", reply_markup=KEYBOARD)
    shown = (await people.messages(ada))[-1]
    assert shown["message_id"] == sent.message_id
    assert shown["text"] == "Hi 🍕 <3"
    assert shown["entities"] == [{"type": "bold", "offset": 0, "length": 5}]
    assert buttons(shown)[0]["callback_data"] == "k:1"
    assert sent.html_text == "<b>Hi 🍕</b> &lt;3"


async def test_an_ephemeral_message_is_for_one_member_of_a_group(bot: Bot, people: People, ada: int):
    group = await people.add_group("Talk", [ada])
    alone = EphemeralMessageParameters(receiver_user_id=ada)
    sent = await bot.send_message(group, "psst", ephemeral_message_parameters=alone)
    assert (sent.message_id, sent.ephemeral_message_id) == (0, 1)
    assert sent.receiver_user is not None
    shown = (await people.messages(group))[-1]
    assert (shown["text"], shown["receiver_user"]["id"]) == ("psst", ada)
    chat = next(chat for chat in (await people.state(ada))["chats"] if chat["chat_id"] == group)
    assert chat["last_message"]["message_id"] < shown["message_id"], "it is not the group's"
    with pytest.raises(TelegramBadRequest, match="message to edit not found"):
        await bot.edit_message_text("loud", chat_id=group, message_id=shown["message_id"])
    for place, receiver in ((ada, ada), (group, 12345)):
        with pytest.raises(TelegramBadRequest, match="RECEIVER"):
            await bot.send_message(
                place, "x", ephemeral_message_parameters=EphemeralMessageParameters(receiver_user_id=receiver)
            )


async def test_message_ids_count_per_chat(bot: Bot, people: People, ada: int):
    boris = await people.add_person("Boris")
    await people.start(boris)
    assert (await bot.send_message(ada, "x")).message_id == (await bot.send_message(boris, "x")).message_id == 2


async def test_an_edit_replaces_text_and_removes_the_keyboard_that_it_does_not_name(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "one", reply_markup=KEYBOARD)
    await bot.edit_message_text("two", chat_id=ada, message_id=sent.message_id)
    shown = (await people.messages(ada))[-1]
    assert shown["text"] == "two"
    assert "edit_date" in shown
    assert "reply_markup" not in shown


async def test_an_edit_that_changes_nothing_is_refused(bot: Bot, ada: int):
    sent = await bot.send_message(ada, "<i>one</i>", parse_mode="HTML", reply_markup=KEYBOARD)
    with pytest.raises(TelegramBadRequest, match="message is not modified: specified new message content"):
        await bot.edit_message_text(
            "<i>one</i>", chat_id=ada, message_id=sent.message_id, parse_mode="HTML", reply_markup=KEYBOARD
        )
    with pytest.raises(TelegramBadRequest, match="message is not modified"):
        await bot.edit_message_reply_markup(chat_id=ada, message_id=sent.message_id, reply_markup=KEYBOARD)


async def test_only_the_bots_own_living_messages_can_be_edited(bot: Bot, ada: int):
    with pytest.raises(TelegramBadRequest, match="message can't be edited"):
        await bot.edit_message_text("x", chat_id=ada, message_id=1)
    with pytest.raises(TelegramBadRequest, match="message to edit not found"):
        await bot.edit_message_text("x", chat_id=ada, message_id=99)


async def test_a_deleted_message_is_gone(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "x")
    await bot.delete_message(ada, sent.message_id)
    assert [m["message_id"] for m in await people.messages(ada)] == [1]
    with pytest.raises(TelegramBadRequest, match="message to delete not found"):
        await bot.delete_message(ada, sent.message_id)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("  ", "message text is empty"),
        ("<b></b>", "message text is empty"),
        ("a" * 4097, "message is too long"),
        ("🍕" * 2049, "message is too long"),
        ("I <3 you", 'Unsupported start tag "3" at byte offset 2'),
        ("ы<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("ы<b>x</i>", 'Unmatched end tag at byte offset 6, expected "</b>", found "</i>"'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("x <b", "Unclosed start tag at byte offset 2"),
    ],
)
async def test_bad_texts_are_refused_in_telegrams_words(bot: Bot, ada: int, text: str, reason: str):
    with pytest.raises(TelegramBadRequest) as refusal:
        await bot.send_message(ada, text, parse_mode="HTML")
    assert reason in refusal.value.message


async def test_a_text_of_4096_units_after_parsing_is_accepted(bot: Bot, people: People, ada: int):
    await bot.send_message(ada, f"<b>{'🍕' * 2048}</b>", parse_mode="HTML")
    assert (await people.messages(ada))[-1]["entities"][0]["length"] == 4096


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([[{"text": "x", "callback_data": "я" * 33}]], "BUTTON_DATA_INVALID"),
        ([[{"text": "x", "callback_data": ""}]], "BUTTON_DATA_INVALID"),
        ([[{"text": "x"}]], "text buttons are unallowed in the inline keyboard"),
        ([[{"text": "x", "url": "nowhere"}]], "BUTTON_URL_INVALID"),
        ([[{"text": "x", "callback_data": "d"}] * 9], "REPLY_MARKUP_TOO_LONG"),
        ([[{"text": "x", "callback_data": "d"}]] * 101, "REPLY_MARKUP_TOO_LONG"),
        ([[{"text": "x" * 60, "callback_data": "d" * 64}]] * 80, "REPLY_MARKUP_TOO_LONG"),
    ],
)
async def test_bad_keyboards_are_refused_in_telegrams_words(bot: Bot, ada: int, rows: list, reason: str):
    with pytest.raises(TelegramBadRequest, match=reason):
        await bot.send_message(ada, "x", reply_markup=InlineKeyboardMarkup(inline_keyboard=rows))


async def test_data_of_64_bytes_is_accepted(bot: Bot, ada: int):
    rows = [[InlineKeyboardButton(text="x", callback_data="я" * 32)]]
    assert await bot.send_message(ada, "x", reply_markup=InlineKeyboardMarkup(inline_keyboard=rows))


async def test_a_reply_shows_its_target_and_a_missing_target_is_refused(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "x", reply_parameters=ReplyParameters(message_id=1))
    assert sent.reply_to_message is not None
    assert sent.reply_to_message.text == "/start"
    with pytest.raises(TelegramBadRequest, match="message to be replied not found"):
        await bot.send_message(ada, "x", reply_parameters=ReplyParameters(message_id=77))
    lone = ReplyParameters(message_id=77, allow_sending_without_reply=True)
    assert (await bot.send_message(ada, "x", reply_parameters=lone)).reply_to_message is None


async def test_a_pressed_button_is_answered_once(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "x", reply_markup=KEYBOARD)
    await drain(bot)
    async with asyncio.TaskGroup() as tasks:
        press = tasks.create_task(people.press(ada, ada, sent.message_id, "k:1"))
        updates = await bot.get_updates(timeout=5)
        query = updates[-1].callback_query
        assert query is not None
        assert (query.data, query.from_user.id, query.message.message_id) == ("k:1", ada, sent.message_id)
        await bot.answer_callback_query(query.id, text="Nice", show_alert=True)
    assert press.result() == {"text": "Nice", "show_alert": True}
    with pytest.raises(
        TelegramBadRequest, match="query is too old and response timeout expired or query ID is invalid"
    ):
        await bot.answer_callback_query(query.id)


async def test_a_button_expires_after_150_seconds(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "x", reply_markup=KEYBOARD)
    assert await people.press(ada, ada, sent.message_id, "k:1", wait_s=0.01) is None
    query = (await bot.get_updates())[-1].callback_query
    assert query is not None
    await people.post("clock", shift_s=151)
    with pytest.raises(TelegramBadRequest, match="query is too old"):
        await bot.answer_callback_query(query.id)
    assert all(update.callback_query is None for update in await bot.get_updates())


async def test_nobody_can_press_a_button_that_is_not_there(bot: Bot, people: People, ada: int):
    sent = await bot.send_message(ada, "x", reply_markup=KEYBOARD)
    with pytest.raises(ControlRefused, match="no button"):
        await people.press(ada, ada, sent.message_id, "k:2")


async def test_the_bot_cannot_write_first_nor_to_those_who_blocked_it(bot: Bot, people: People, ada: int):
    boris = await people.add_person("Boris")
    with pytest.raises(TelegramForbiddenError, match="bot can't initiate conversation with a user"):
        await bot.send_message(boris, "x")
    with pytest.raises(ControlRefused, match="/start"):
        await people.send(boris, boris, "hello")
    await people.block(ada)
    with pytest.raises(TelegramForbiddenError, match="bot was blocked by the user"):
        await bot.send_message(ada, "x")
    await people.start(ada)
    assert await bot.send_message(ada, "x")
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await bot.send_message(123, "x")


async def test_what_is_not_simulated_says_so(bot: Bot, ada: int):
    for call in (bot.send_dice(ada), bot.send_message(ada, "*x*", parse_mode="MarkdownV2")):
        with pytest.raises(Exception, match="not simulated: "):
            await call
