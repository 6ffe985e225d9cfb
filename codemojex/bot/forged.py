"""What no update of Telegram's says and a forged one may: ids out of range. Looked for before any handler runs.

An update that fails here can never be worked, so it is a dead letter at once, with the field's name. The ranges are
those of the game (`play.door`), and so of the durable store.
"""

from __future__ import annotations

from aiogram.types import CallbackQuery, Chat, ChatMemberUpdated, InaccessibleMessage, Message, Update, User

from codemojex.play.people import input_checks

MAX_UPDATE_ID = 2**53


def fault(update: Update) -> str | None:
    """What is wrong with the update, naming the field; None when nothing is."""
    try:
        if not 0 <= update.update_id <= MAX_UPDATE_ID:
            return f"update_id is out of range: 0 to {MAX_UPDATE_ID}"
        match update.event:
            case Message() as message:
                _message(message)
            case CallbackQuery() as query:
                _user(query.from_user)
                if query.message is not None:
                    _message(query.message)
            case ChatMemberUpdated() as event:
                _chat(event.chat)
                _user(event.from_user)
                _user(event.new_chat_member.user)
            case _:
                pass
    except ValueError as error:
        return str(error)[:200]
    return None


def _message(message: Message | InaccessibleMessage) -> None:
    _chat(message.chat)
    input_checks.message_id(message.message_id)
    if isinstance(message, InaccessibleMessage):
        return
    input_checks.thread_id(message.message_thread_id, "message_thread_id")
    for user in (message.from_user, message.left_chat_member, *(message.new_chat_members or ())):
        if user is not None:
            _user(user)
    for field in ("migrate_to_chat_id", "migrate_from_chat_id"):
        if (moved := getattr(message, field)) is not None:
            input_checks.chat_id(moved, field)


def _chat(chat: Chat) -> None:
    input_checks.chat_id(chat.id, "chat.id")
    input_checks.kind(chat.type)


def _user(user: User) -> None:
    input_checks.user_id(user.id, "user.id")
