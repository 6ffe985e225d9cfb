"""Builds and finds messages, and decides who hears of them.

The one place that knows a message's JSON, the rule of privacy mode, and where the bot may write.
"""

from codemojex.local_telegram.errors import ApiError, Json, bad_request, forbidden
from codemojex.local_telegram.state.model import Chat
from codemojex.local_telegram.state.world import World

SERVICE = (
    "new_chat_members",
    "left_chat_member",
    "forum_topic_created",
    "forum_topic_closed",
    "forum_topic_reopened",
    "migrate_to_chat_id",
    "migrate_from_chat_id",
    "pinned_message",
)


def compose(
    world: World,
    chat: Chat,
    sender: Json,
    body: Json,
    *,
    thread_id: int | None = None,
    reply_to: int | None = None,
    receiver: int | None = None,
) -> Json:
    """Create a message in the chat with the next id and tell the people there; `body` is its content.

    An ephemeral message is for `receiver` alone. Its id here is its place among what that person sees; the bot knows
    it by `ephemeral_message_id`.
    """
    message: Json = {
        "message_id": chat.take_message_id(),
        "from": sender,
        "chat": world.state.chat_json(chat),
        "date": world.clock.date(),
        **body,
    }
    if thread_id is not None:
        message["message_thread_id"] = thread_id
        message["is_topic_message"] = True
    target = chat.messages.get(reply_to) if reply_to is not None else None
    if target is not None and "ephemeral_message_id" not in target:
        message["reply_to_message"] = {k: v for k, v in target.items() if k != "reply_to_message"}
    if receiver is not None:
        message |= {"receiver_user": world.state.user(receiver), "ephemeral_message_id": chat.next_ephemeral_id}
        chat.next_ephemeral_id += 1
    chat.add(message)
    world.publish("message", chat, {"message": message})
    return message


def deliver(world: World, chat: Chat, message: Json) -> bool:
    """Queue a person's message for the bot if the bot may see it; whether it was queued."""
    if not sees(world, chat, message):
        return False
    return world.updates.push("message", message) is not None


def sees(world: World, chat: Chat, message: Json) -> bool:
    """Whether the bot receives this message: privacy mode hides the talk of a group from a bot without rights."""
    if chat.private:
        return not chat.blocked
    if not chat.present(world.bot_id):
        return False
    if not chat.privacy or chat.admin(world.bot_id) or any(kind in message for kind in SERVICE):
        return True
    if message.get("reply_to_message", {}).get("from", {}).get("id") == world.bot_id:
        return True
    name = "@" + world.state.bot.username.lower()
    text: str = message.get("text", "")
    units = text.encode("utf-16-le")
    for entity in message.get("entities", []):
        part = units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le").lower()
        if entity["type"] == "bot_command" and ("@" not in part or part.endswith(name)):
            return True
        if entity["type"] == "mention" and part == name:
            return True
    return False


def find_chat(world: World, chat_id: int | str | None) -> Chat:
    """The chat that a bot names, or 400."""
    if chat_id is None or chat_id == "":
        raise bad_request("chat_id is empty")
    try:
        number = int(chat_id)
    except ValueError:
        raise bad_request("chat not found") from None
    chat = world.state.chats.get(number)
    if chat is None and (person := world.state.people.get(number)):
        chat = world.state.private_chat(person)
    if chat is None:
        raise bad_request("chat not found")
    if chat.migrated_to is not None:
        raise bad_request("group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": chat.migrated_to})
    return chat


def reachable_chat(world: World, chat_id: int | str | None) -> Chat:
    """The chat if the bot is in it, or Telegram's refusal."""
    chat = find_chat(world, chat_id)
    if chat.private:
        if chat.blocked:
            raise forbidden("bot was blocked by the user")
        if not chat.started:
            raise forbidden("bot can't initiate conversation with a user")
    elif not chat.present(world.bot_id):
        raise _outside(chat, world.bot_id)
    return chat


def writable_chat(world: World, chat_id: int | str | None, thread_id: int | None = None) -> Chat:
    """The chat if the bot may write there (into that topic), or Telegram's refusal."""
    chat = reachable_chat(world, chat_id)
    if chat.bot_muted and not chat.admin(world.bot_id):
        raise bad_request("not enough rights to send text messages to the chat")
    if thread_id:
        topic = chat.topics.get(thread_id)
        if topic is None:
            raise bad_request("message thread not found")
        if topic.closed and not chat.admin(world.bot_id):
            raise bad_request("TOPIC_CLOSED")
    return chat


def _outside(chat: Chat, bot_id: int) -> ApiError:
    place = "supergroup chat" if chat.kind == "supergroup" else "group chat"
    if chat.members.get(bot_id) == "kicked":
        return forbidden(f"bot was kicked from the {place}")
    return forbidden(f"bot is not a member of the {place}")
