"""The bot's own coming and going, its right to write, and groups that become supergroups."""

from __future__ import annotations

import logging

from aiogram import Router
from aiogram.types import ChatMemberRestricted, ChatMemberUpdated, Message

from codemojex.bot.filters import Migrated, Reopened
from codemojex.bot.scene import Desk
from codemojex.play import outbound, rooms, silence

log = logging.getLogger(__name__)
_PRESENT = ("member", "administrator", "creator", "restricted")


def build() -> Router:
    """The router of this screen."""
    router = Router(name="membership")
    router.my_chat_member.register(moved)
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
        await outbound.say(desk.play, event.chat.id, None, text, key=f"{request}-1")


def _may_write(event: ChatMemberUpdated) -> bool:
    now = event.new_chat_member
    return now.can_send_messages if isinstance(now, ChatMemberRestricted) else now.status in _PRESENT


async def reopened(message: Message, desk: Desk) -> None:
    """A topic that was closed can be written to again."""
    await silence.end(desk.play, message.chat.id, message.message_thread_id)


async def migrated(message: Message, desk: Desk, old: int, new: int) -> None:
    """Both service messages tell the same; the second one finds nothing to move."""
    count = await rooms.migrate(desk.play, old, new)
    log.info("a group became a supergroup, %d rooms moved", count)
