"""What the control API and the page show of the world."""

from codemojex.local_telegram.api.reading import menu_for
from codemojex.local_telegram.errors import Json
from codemojex.local_telegram.state.membership import person_of
from codemojex.local_telegram.state.model import Chat, Person
from codemojex.local_telegram.state.world import World


def person_view(person: Person) -> Json:
    """A person."""
    return {
        "user_id": person.user_id,
        "name": person.name,
        "username": person.username,
        "language": person.language,
    }


def chat_view(world: World, chat: Chat) -> Json:
    """A chat without its messages; `members` maps user ids (as texts) to statuses."""
    return {
        "chat_id": chat.chat_id,
        "type": chat.kind,
        "title": world.state.bot.name if chat.private else chat.title,
        "is_forum": chat.forum,
        "privacy": chat.privacy,
        "started": chat.started,
        "blocked": chat.blocked,
        "bot": chat.members.get(world.bot_id, "left"),
        "bot_muted": chat.bot_muted,
        "members": {str(user_id): status for user_id, status in chat.members.items()},
        "topics": [
            {"thread_id": topic.thread_id, "name": topic.name, "closed": topic.closed} for topic in chat.topics.values()
        ],
        "pinned": chat.pinned,
        "last_message": next((m for m in reversed(chat.messages.values()) if "receiver_user" not in m), None),
        "migrated_to": chat.migrated_to,
    }


def bot_view(world: World) -> Json:
    """The bot with its descriptions."""
    bot = world.state.bot
    return {
        "user_id": bot.user_id,
        "name": bot.texts.get("name:") or bot.name,
        "username": bot.username,
        "privacy": bot.privacy,
        "description": bot.texts.get("description:", ""),
        "short_description": bot.texts.get("short_description:", ""),
    }


def full_state(world: World) -> Json:
    """Bot, people and groups."""
    return {
        "version": world.events.version,
        "bot": bot_view(world),
        "people": [person_view(person) for person in world.state.people.values()],
        "groups": [chat_view(world, chat) for chat in world.state.chats.values() if not chat.private],
    }


def state_of(world: World, user_id: int) -> Json:
    """What one person sees: the private chat with the bot first, then the groups, each with its command menu."""
    person = person_of(world, user_id)
    world.state.private_chat(person)
    chats = sorted(world.state.chats_of(user_id), key=lambda chat: not chat.private)
    return {
        "version": world.events.version,
        "bot": bot_view(world),
        "person": person_view(person),
        "chats": [{**chat_view(world, chat), "commands": menu_for(world, chat, user_id)} for chat in chats],
    }
