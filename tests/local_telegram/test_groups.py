"""Groups: privacy mode, members, rights, topics, migration, command menus."""

import pytest
import pytest_asyncio
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError, TelegramMigrateToChat
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllGroupChats,
    ChatMemberAdministrator,
    ChatMemberLeft,
    ChatMemberOwner,
    ChatMemberRestricted,
)

from tests.local_telegram.conftest import drain
from tests.support.telegram import ControlRefused, People


@pytest_asyncio.fixture
async def boris(people: People) -> int:
    return await people.add_person("Boris", "boris", "ru")


async def _texts(bot: Bot) -> list[str | None]:
    return [update.message.text for update in await drain(bot) if update.message and update.message.text]


async def test_privacy_mode_hides_talk_and_shows_commands_replies_and_mentions(
    bot: Bot, people: People, ada: int, boris: int
):
    group = await people.add_group("Talk", [ada, boris], privacy=True)
    sent = await bot.send_message(group, "hi")
    await drain(bot)
    await people.send(ada, group, "hidden")
    await people.send(ada, group, "/play")
    await people.send(ada, group, "/play@codemojex_bot")
    await people.send(ada, group, "/play@another_bot")
    await people.send(ada, group, "🍕 hey @Codemojex_bot")
    await people.send(boris, group, "a reply", reply_to=sent.message_id)
    assert await _texts(bot) == ["/play", "/play@codemojex_bot", "🍕 hey @Codemojex_bot", "a reply"]
    await people.members(group, (await bot.get_me()).id, "promote")
    await drain(bot)
    await people.send(ada, group, "seen by an administrator")
    assert await _texts(bot) == ["seen by an administrator"]


async def test_get_me_tells_privacy_mode(bot: Bot, people: People):
    assert (await bot.get_me()).can_read_all_group_messages is False
    await people.post("bot", privacy=False)
    assert (await bot.get_me()).can_read_all_group_messages is True


async def test_the_bot_hears_that_it_was_added_promoted_and_kicked(bot: Bot, people: People, ada: int, boris: int):
    await drain(bot)
    group = await people.add_group("Talk", [ada, boris], bot_admin=True)
    await people.members(group, (await bot.get_me()).id, "kick")
    changes = [u.my_chat_member for u in await drain(bot) if u.my_chat_member]
    assert [(c.old_chat_member.status, c.new_chat_member.status) for c in changes] == [
        ("left", "member"),
        ("member", "administrator"),
        ("administrator", "kicked"),
    ]
    assert changes[0].from_user.id == ada
    with pytest.raises(TelegramForbiddenError, match="bot was kicked from the supergroup chat"):
        await bot.send_message(group, "x")


async def test_blocking_is_heard(bot: Bot, people: People, ada: int):
    await drain(bot)
    await people.block(ada)
    await people.start(ada)
    statuses = [u.my_chat_member.new_chat_member.status for u in await drain(bot) if u.my_chat_member]
    assert statuses == ["kicked", "member"]


async def test_joining_makes_a_service_message_and_for_administrators_an_update(
    bot: Bot, people: People, ada: int, boris: int
):
    group = await people.add_group("Talk", [ada], bot_admin=True)
    await bot.get_updates(allowed_updates=["message", "chat_member"])
    await drain(bot)
    await people.members(group, boris, "join")
    await people.members(group, boris, "leave")
    message, joined, left_message, left = await drain(bot)
    assert message.message.new_chat_members[0].id == boris
    assert joined.chat_member.new_chat_member.status == "member"
    assert left_message.message.left_chat_member.id == boris
    assert left.chat_member.new_chat_member.status == "left"
    with pytest.raises(ControlRefused, match="not in"):
        await people.send(boris, group, "x")


async def test_members_and_administrators_are_told_apart(bot: Bot, people: People, ada: int, boris: int):
    group = await people.add_group("Talk", [ada, boris], bot_admin=True)
    stranger = await people.add_person("Chen")
    assert isinstance(await bot.get_chat_member(group, ada), ChatMemberOwner)
    assert (await bot.get_chat_member(group, boris)).status == "member"
    assert isinstance(await bot.get_chat_member(group, stranger), ChatMemberLeft)
    administrators = await bot.get_chat_administrators(group)
    assert {type(a) for a in administrators} == {ChatMemberOwner, ChatMemberAdministrator}
    assert (await bot.get_chat(group)).title == "Talk"
    assert await bot.get_chat_member_count(group) == 3
    with pytest.raises(TelegramBadRequest, match="there are no administrators in the private chat"):
        await bot.get_chat_administrators(ada)
    with pytest.raises(TelegramBadRequest, match="PARTICIPANT_ID_INVALID"):
        await bot.get_chat_member(group, 12345)


async def test_a_muted_bot_cannot_write(bot: Bot, people: People, ada: int):
    group = await people.add_group("Talk", [ada])
    await drain(bot)
    await people.members(group, bot.id, "mute")
    [change] = [update.my_chat_member for update in await drain(bot) if update.my_chat_member]
    assert isinstance(change.new_chat_member, ChatMemberRestricted)
    assert not change.new_chat_member.can_send_messages
    with pytest.raises(TelegramBadRequest, match="not enough rights to send text messages to the chat"):
        await bot.send_message(group, "x")


async def test_topics_exist_only_in_forums(bot: Bot, people: People, ada: int):
    forum = await people.add_group("Forum", [ada], forum=True, privacy=False)
    plain = await people.add_group("Plain", [ada])
    thread = await people.topic(ada, forum, "Daily")
    sent = await bot.send_message(forum, "x", message_thread_id=thread)
    assert (sent.message_thread_id, sent.is_topic_message) == (thread, True)
    assert [m["message_id"] for m in await people.messages(forum, thread)] == [thread, sent.message_id]
    await drain(bot)
    await people.send(ada, forum, "in the topic", thread_id=thread)
    assert (await drain(bot))[0].message.message_thread_id == thread
    for chat_id, missing in ((plain, thread), (forum, 999)):
        with pytest.raises(TelegramBadRequest, match="message thread not found"):
            await bot.send_message(chat_id, "x", message_thread_id=missing)
    await people.post("topics", user_id=ada, chat_id=forum, thread_id=thread, closed=True)
    with pytest.raises(TelegramBadRequest, match="TOPIC_CLOSED"):
        await bot.send_message(forum, "x", message_thread_id=thread)


async def test_a_basic_group_migrates_once(bot: Bot, people: People, ada: int):
    old = await people.add_group("Small", [ada], kind="group")
    await drain(bot)
    new = (await people.post("migrate", chat_id=old))["chat_id"]
    with pytest.raises(TelegramMigrateToChat) as refusal:
        await bot.send_message(old, "x")
    assert refusal.value.migrate_to_chat_id == new
    first, second = await drain(bot)
    assert (first.message.chat.id, first.message.migrate_to_chat_id) == (old, new)
    assert (second.message.chat.id, second.message.migrate_from_chat_id) == (new, old)
    assert await bot.send_message(new, "x")


async def test_an_anonymous_administrator_has_no_name(bot: Bot, people: People, ada: int):
    group = await people.add_group("Talk", [ada], privacy=False)
    await drain(bot)
    await people.send(ada, group, "x", anonymous=True)
    message = (await drain(bot))[0].message
    assert (message.from_user.id, message.sender_chat.id) == (1087968824, group)


async def test_the_menu_follows_scope_and_language(bot: Bot, people: People, ada: int, boris: int):
    group = await people.add_group("Talk", [ada, boris])
    await bot.set_my_commands([BotCommand(command="play", description="Play")])
    await bot.set_my_commands([BotCommand(command="play", description="Играть")], language_code="ru")
    await bot.set_my_commands([BotCommand(command="end", description="End")], scope=BotCommandScopeAllGroupChats())

    async def menu(user_id: int, chat_id: int) -> list[str]:
        chats = (await people.state(user_id))["chats"]
        return [c["description"] for chat in chats if chat["chat_id"] == chat_id for c in chat["commands"]]

    assert await menu(ada, ada) == ["Play"]
    assert await menu(boris, boris) == ["Играть"]
    assert await menu(boris, group) == ["End"]
    assert [c.description for c in await bot.get_my_commands(language_code="ru")] == ["Играть"]
    with pytest.raises(TelegramBadRequest, match="BOT_COMMAND_INVALID"):
        await bot.set_my_commands([BotCommand(command="Play!", description="x")])


async def test_descriptions_are_kept_per_language(bot: Bot):
    await bot.set_my_description("Hello")
    await bot.set_my_short_description("Привет", language_code="ru")
    assert (await bot.get_my_description()).description == "Hello"
    assert (await bot.get_my_short_description(language_code="ru")).short_description == "Привет"
    assert (await bot.get_my_name()).name == "Codemojex"


async def test_pinning_needs_rights(bot: Bot, people: People, ada: int):
    group = await people.add_group("Talk", [ada])
    sent = await bot.send_message(group, "x")
    with pytest.raises(TelegramBadRequest, match="not enough rights to manage pinned messages in the chat"):
        await bot.pin_chat_message(group, sent.message_id)
    await people.members(group, (await bot.get_me()).id, "promote")
    await bot.pin_chat_message(group, sent.message_id)
    assert (await bot.get_chat(group)).pinned_message.message_id == sent.message_id
    await bot.unpin_chat_message(group)
    assert (await bot.get_chat(group)).pinned_message is None


async def test_an_edited_message_is_heard(bot: Bot, people: People, ada: int):
    await drain(bot)
    message = await people.send(ada, ada, "frist")
    await people.edit(ada, ada, message["message_id"], "first")
    written, edited = await drain(bot)
    assert (written.message.text, edited.edited_message.text) == ("frist", "first")
