"""People who write under the name of their group: they cannot play, and are told so."""

from __future__ import annotations

from aiogram.types import Message

from codemojex.bot.interaction.scene import Desk
from codemojex.play.outbound import orders


async def tell_anonymous(desk: Desk, request: str, message: Message) -> None:
    """Ask an anonymous admin to write as themselves; channels are not talked to."""
    if message.sender_chat is None or message.sender_chat.id != message.chat.id:
        return
    thread = message.message_thread_id if message.is_topic_message else None
    text = str(desk.texts.of(None)("as-yourself"))
    key = f"{request}-1"
    await orders.say(desk.play, message.chat.id, thread, text, key=key, reply_to=message.message_id, spare=True)
