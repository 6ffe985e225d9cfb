"""Who comes and goes: the bot itself, its right to write, members of groups, and groups that become supergroups."""

from __future__ import annotations

import logging

from aiogram import Router
from aiogram.types import ChatMemberRestricted, ChatMemberUpdated, Message, User

from codemojex.bot.interaction.filters import Arrived, Migrated, Reopened
from codemojex.bot.interaction.members import present
from codemojex.bot.interaction.scene import Desk
from codemojex.play import rooms
from codemojex.play.outbound import orders, silence
from codemojex.play.people import membership, players

log = logging.getLogger(__name__)
_PRESENT = ("member", "administrator", "creator", "restricted")


def build() -> Router:
    """The router of this screen."""
    router = Router(name="membership")
    router.my_chat_member.register(moved)
    router.chat_member.register(member_changed)
    router.message.register(member_told, Arrived())
    router.message.register(migrated, Migrated())
    router.message.register(reopened, Reopened())
    return router


async def moved(event: ChatMemberUpdated, desk: Desk, request: str) -> None:
    """Greet a group that the bot was added to; show a chat what it missed while the bot could not write."""
    if _may_write(event):
        await silence.end_everywhere(desk.play, event.chat.id)
    came = event.new_chat_member.status in _PRESENT and event.old_chat_member.status not in _PRESENT
    if came and event.chat.type in ("group", "supergroup"):
        text = str(desk.texts.of(None)("start-group"))
        await orders.say(desk.play, event.chat.id, None, text, key=f"{request}-1")


def _may_write(event: ChatMemberUpdated) -> bool:
    now = event.new_chat_member
    return now.can_send_messages if isinstance(now, ChatMemberRestricted) else now.status in _PRESENT


async def member_changed(event: ChatMemberUpdated, desk: Desk) -> None:
    """Telegram tells bots that administer a group who comes and goes."""
    await _note(desk, event.chat.id, event.new_chat_member.user, is_in=present(event.new_chat_member))


async def member_told(message: Message, desk: Desk, came: list[User], left: User | None) -> None:
    """The service messages tell every bot, though not in every group."""
    for user in came:
        await _note(desk, message.chat.id, user, is_in=True)
    if left is not None:
        await _note(desk, message.chat.id, left, is_in=False)


async def _note(desk: Desk, chat_id: int, user: User, *, is_in: bool) -> None:
    """Who is out loses the group's composers at once."""
    if user.is_bot:
        return
    if is_in:
        await membership.came(desk.play, chat_id, user.id)
        return
    await membership.left(desk.play, chat_id, user.id)
    player = await players.find(desk.play, user.id)
    if player is not None:
        await membership.redraw_composers(desk.play, chat_id, player)


async def reopened(message: Message, desk: Desk) -> None:
    """A topic that was closed can be written to again."""
    await silence.end(desk.play, message.chat.id, message.message_thread_id)


async def migrated(message: Message, desk: Desk, old: int, new: int) -> None:
    """Both service messages tell the same; the second one finds nothing to move."""
    count = await rooms.migrate(desk.play, old, new)
    log.info("a group became a supergroup, %d rooms moved", count)
