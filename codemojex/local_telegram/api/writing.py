"""The Bot API methods that write: send, edit, delete, pin, answer a pressed button.

Each checks in Telegram's order: where, what, how often; and changes nothing when it refuses.
"""

from aiogram import methods as api
from aiogram.types import InlineKeyboardMarkup
from pydantic import BaseModel

from codemojex.local_telegram.errors import Json, bad_request, not_simulated
from codemojex.local_telegram.state.messages import compose, reachable_chat, writable_chat
from codemojex.local_telegram.state.model import CALLBACK_LIFE_S, Chat
from codemojex.local_telegram.state.world import World
from codemojex.local_telegram.text.html_text import utf16
from codemojex.local_telegram.text.markup import check_inline_keyboard
from codemojex.local_telegram.text.texts import bot_text

PINNED_LIMIT = 100
DELETE_WITHIN_S = 48 * 3600
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)


async def send_message(world: World, call: api.SendMessage) -> Json:
    """A new message of the bot; an ephemeral one is shown to one member of a group only."""
    chat = writable_chat(world, call.chat_id, call.message_thread_id)
    receiver = _receiver(chat, call)
    text, entities = bot_text(call.text, _mode(call.parse_mode), _plain_list(call.entities))
    keyboard = _keyboard(call.reply_markup)
    reply_to = _reply_target(world, chat, call)
    _charge(world, chat)
    body: Json = {"text": text}
    if entities:
        body["entities"] = entities
    if keyboard:
        body["reply_markup"] = keyboard
    where = {"thread_id": call.message_thread_id or None, "reply_to": reply_to}
    message = compose(world, chat, world.state.bot.user(), body, **where, receiver=receiver)
    return message if receiver is None else {**message, "message_id": 0}


async def edit_message_text(world: World, call: api.EditMessageText) -> Json:
    """Replace text and keyboard of a message of the bot; without a keyboard the old one goes."""
    chat, message = _own_message(world, call.chat_id, call.message_id)
    text, entities = bot_text(call.text, _mode(call.parse_mode), _plain_list(call.entities))
    keyboard = _keyboard(call.reply_markup)
    _charge(world, chat)
    old = (message.get("text"), message.get("entities", []), message.get("reply_markup"))
    if old == (text, entities, keyboard):
        raise bad_request(NOT_MODIFIED)
    return _replace(world, chat, message, {"text": text, "entities": entities or None, "reply_markup": keyboard})


async def edit_message_reply_markup(world: World, call: api.EditMessageReplyMarkup) -> Json:
    """Replace the keyboard of a message of the bot."""
    chat, message = _own_message(world, call.chat_id, call.message_id)
    keyboard = _keyboard(call.reply_markup)
    _charge(world, chat)
    if message.get("reply_markup") == keyboard:
        raise bad_request(NOT_MODIFIED)
    return _replace(world, chat, message, {"reply_markup": keyboard})


async def delete_message(world: World, call: api.DeleteMessage) -> bool:
    """Remove a message: the bot's own, anybody's in a private chat, anybody's where the bot is an administrator."""
    chat = reachable_chat(world, call.chat_id)
    message = chat.messages.get(call.message_id)
    if message is None or "ephemeral_message_id" in message:
        raise bad_request("message to delete not found")
    own = message["from"]["id"] == world.bot_id
    if world.clock.now() - message["date"] > DELETE_WITHIN_S and not chat.admin(world.bot_id):
        raise bad_request("message can't be deleted for everyone")
    if not own and not chat.private and not chat.admin(world.bot_id):
        raise bad_request("message can't be deleted")
    del chat.messages[call.message_id]
    if call.message_id in chat.pinned:
        chat.pinned.remove(call.message_id)
    world.publish("deleted", chat, {"message_id": call.message_id})
    return True


async def answer_callback_query(world: World, call: api.AnswerCallbackQuery) -> bool:
    """Answer a pressed button once, within its life time."""
    callback = world.state.callbacks.get(call.callback_query_id)
    expired = callback is None or world.clock.now() - callback.pressed_at > CALLBACK_LIFE_S
    if callback is None or expired or callback.answered:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    if call.url:
        raise not_simulated("answerCallbackQuery with url")
    if call.text and utf16(call.text) > 200:
        raise bad_request("MESSAGE_TOO_LONG")
    callback.answered = True
    world.storage.touch()
    answer: Json = {"text": call.text or "", "show_alert": bool(call.show_alert)}
    waiter = world.answers.pop(call.callback_query_id, None)
    if waiter is not None and not waiter.done():
        waiter.set_result(answer)
    return True


async def pin_chat_message(world: World, call: api.PinChatMessage) -> bool:
    """Pin a message above the chat."""
    chat = _pinnable(world, call.chat_id)
    if call.message_id not in chat.messages:
        raise bad_request("message to pin not found")
    if call.message_id in chat.pinned:
        chat.pinned.remove(call.message_id)
    chat.pinned.append(call.message_id)
    del chat.pinned[:-PINNED_LIMIT]
    world.publish("pinned", chat, {"pinned": chat.pinned})
    return True


async def unpin_chat_message(world: World, call: api.UnpinChatMessage) -> bool:
    """Unpin one message, by default the latest pinned one."""
    chat = _pinnable(world, call.chat_id)
    target = call.message_id or (chat.pinned[-1] if chat.pinned else None)
    if target is None or target not in chat.pinned:
        raise bad_request("message to unpin not found")
    chat.pinned.remove(target)
    world.publish("pinned", chat, {"pinned": chat.pinned})
    return True


async def unpin_all_chat_messages(world: World, call: api.UnpinAllChatMessages) -> bool:
    """Unpin everything."""
    chat = _pinnable(world, call.chat_id)
    chat.pinned.clear()
    world.publish("pinned", chat, {"pinned": chat.pinned})
    return True


async def send_chat_action(world: World, call: api.SendChatAction) -> bool:
    """Show "typing…" to the people; nothing is kept."""
    chat = writable_chat(world, call.chat_id, call.message_thread_id)
    if call.action != "typing":
        raise bad_request("wrong parameter action in request")
    world.events.publish("typing", {"chat_id": chat.chat_id}, set(chat.members))
    return True


def _mode(parse_mode: object) -> str | None:
    return parse_mode if isinstance(parse_mode, str) and parse_mode else None


def _plain_list(models: object) -> list[Json] | None:
    if not isinstance(models, list):
        return None
    items: list[object] = list(models)  # pyright: ignore[reportUnknownArgumentType]  # an object says nothing of its items
    return [item.model_dump(exclude_none=True, mode="json") for item in items if isinstance(item, BaseModel)]


def _keyboard(markup: BaseModel | None) -> Json | None:
    if markup is None:
        return None
    if not isinstance(markup, InlineKeyboardMarkup):
        raise not_simulated(f"reply_markup {type(markup).__name__}")
    return check_inline_keyboard(markup.model_dump(exclude_none=True, mode="json"))


def _receiver(chat: Chat, call: api.SendMessage) -> int | None:
    """Who alone sees an ephemeral message; None for an ordinary one."""
    asked = call.ephemeral_message_parameters
    if asked is None:
        return None
    if asked.callback_query_id is not None or asked.replace_callback_query_message or call.reply_markup is not None:
        raise not_simulated("ephemeral messages with a callback query or reply_markup")
    if chat.private or not chat.present(asked.receiver_user_id):
        raise bad_request("RECEIVER_USER_INVALID")  # the real server's words are not known
    return asked.receiver_user_id


def _reply_target(world: World, chat: Chat, call: api.SendMessage) -> int | None:
    reply = call.reply_parameters
    if reply is None:
        return None
    if reply.chat_id is not None and str(reply.chat_id) != str(chat.chat_id):
        raise not_simulated("reply to a message of another chat")
    if reply.message_id is not None and reply.message_id in chat.messages:
        return reply.message_id
    if reply.allow_sending_without_reply is True:
        return None
    raise bad_request("message to be replied not found")


def _own_message(world: World, chat_id: int | str | None, message_id: int | None) -> tuple[Chat, Json]:
    if not message_id:
        raise bad_request("message identifier is not specified")
    chat = reachable_chat(world, chat_id)
    message = chat.messages.get(message_id)
    if message is None:
        raise bad_request("message to edit not found")
    if "ephemeral_message_id" in message:
        raise bad_request("message to edit not found")
    if message["from"]["id"] != world.bot_id or "text" not in message:
        raise bad_request("message can't be edited")
    topic = chat.topics.get(message.get("message_thread_id", 0))
    if topic is not None and topic.closed and not chat.admin(world.bot_id):
        raise bad_request("TOPIC_CLOSED")
    return chat, message


def _replace(world: World, chat: Chat, message: Json, changes: Json) -> Json:
    for name, value in changes.items():
        if value is None:
            message.pop(name, None)
        else:
            message[name] = value
    message["edit_date"] = world.clock.date()
    world.publish("edited", chat, {"message": message})
    return message


def _charge(world: World, chat: Chat) -> None:
    if world.limits is not None:
        world.limits.charge(chat.chat_id, chat.private, world.clock.monotonic())


def _pinnable(world: World, chat_id: int | str | None) -> Chat:
    chat = reachable_chat(world, chat_id)
    if not chat.private and not chat.admin(world.bot_id):
        raise bad_request("not enough rights to manage pinned messages in the chat")
    return chat
