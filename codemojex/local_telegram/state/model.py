"""What the local Telegram remembers: people, chats, messages, waiting updates, the bot's own settings.

Everything is a plain dataclass so that the whole state is written to one JSON file and read back as it was. Messages
and updates are kept in the Bot API's own JSON. Nothing here decides anything; the rules are in the modules around.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from codemojex.local_telegram.errors import Json

FIRST_USER_ID = 5_000_000_001
FIRST_GROUP_ID = -1_002_000_000_001
ANONYMOUS_ADMIN_ID = 1_087_968_824
MESSAGES_PER_CHAT = 2000
PEOPLE_LIMIT = 5000
GROUPS_LIMIT = 2000
CALLBACKS_LIMIT = 10_000
CALLBACK_LIFE_S = 150


@dataclass
class Person:
    """A human account."""

    user_id: int
    name: str
    username: str | None = None
    language: str | None = None

    def user(self) -> Json:
        """The `User` of the Bot API."""
        user: Json = {"id": self.user_id, "is_bot": False, "first_name": self.name}
        if self.username:
            user["username"] = self.username
        if self.language:
            user["language_code"] = self.language
        return user


@dataclass
class Topic:
    """A topic of a forum; its id is the id of the service message that opened it."""

    thread_id: int
    name: str
    closed: bool = False


@dataclass
class Chat:
    """A private chat (its id is the person's) or a group. `members` maps a user id to a Bot API member status."""

    chat_id: int
    kind: str  # private | group | supergroup
    title: str = ""
    forum: bool = False
    privacy: bool = True
    members: dict[int, str] = field(default_factory=dict[int, str])
    topics: dict[int, Topic] = field(default_factory=dict[int, Topic])
    messages: dict[int, Json] = field(default_factory=dict[int, Json])
    next_message_id: int = 1
    next_ephemeral_id: int = 1
    pinned: list[int] = field(default_factory=list[int])
    started: bool = False  # private: the person has written
    blocked: bool = False  # private: the person has blocked the bot
    bot_muted: bool = False  # group: the bot may not send
    migrated_to: int | None = None

    @property
    def private(self) -> bool:
        """Whether this is a person's chat with the bot."""
        return self.kind == "private"

    def present(self, user_id: int) -> bool:
        """Whether the user is in the chat now."""
        return self.members.get(user_id, "left") not in ("left", "kicked")

    def admin(self, user_id: int) -> bool:
        """Whether the user is an administrator or the owner."""
        return self.members.get(user_id) in ("administrator", "creator")

    def add(self, message: Json) -> None:
        """Remember a message; the oldest ones fall out beyond the limit."""
        self.messages[message["message_id"]] = message
        while len(self.messages) > MESSAGES_PER_CHAT:
            del self.messages[next(iter(self.messages))]

    def take_message_id(self) -> int:
        """The next message id of this chat."""
        self.next_message_id += 1
        return self.next_message_id - 1


@dataclass
class Callback:
    """A pressed button that waits for answerCallbackQuery."""

    callback_id: str
    user_id: int
    pressed_at: float
    answered: bool = False


@dataclass
class WaitingUpdate:
    """An update that the bot has not confirmed."""

    update_id: int
    kind: str
    body: Json
    born_at: float


@dataclass
class Webhook:
    """Where updates are pushed; an empty url means polling."""

    url: str = ""
    secret_token: str | None = None
    max_connections: int = 40
    last_error_date: int | None = None
    last_error_message: str | None = None


@dataclass
class BotAccount:
    """The one bot of this server."""

    user_id: int
    username: str = "codemojex_bot"
    name: str = "Codemojex"
    privacy: bool = True
    allowed_updates: list[str] | None = None
    commands: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    texts: dict[str, str] = field(default_factory=dict[str, str])  # "description:ru" → text
    webhook: Webhook = field(default_factory=Webhook)

    def user(self) -> Json:
        """The bot as a `User`."""
        return {"id": self.user_id, "is_bot": True, "first_name": self.name, "username": self.username}


@dataclass
class State:
    """All of it."""

    bot: BotAccount
    people: dict[int, Person] = field(default_factory=dict[int, Person])
    chats: dict[int, Chat] = field(default_factory=dict[int, Chat])
    callbacks: dict[str, Callback] = field(default_factory=dict[str, Callback])
    updates: list[WaitingUpdate] = field(default_factory=list[WaitingUpdate])
    next_user_id: int = FIRST_USER_ID
    next_group_id: int = FIRST_GROUP_ID
    # Random, as on the real server: a bot that remembers old update ids must not take new ones for repetitions.
    next_update_id: int = field(default_factory=lambda: 100_000_000 + secrets.randbelow(800_000_000))

    def private_chat(self, person: Person) -> Chat:
        """The person's chat with the bot; it exists from the first look."""
        chat = self.chats.get(person.user_id)
        if chat is None:
            members = {person.user_id: "member", self.bot.user_id: "member"}
            chat = Chat(person.user_id, "private", members=members)
            self.chats[person.user_id] = chat
        return chat

    def user(self, user_id: int) -> Json:
        """Any account as a `User`; an unknown id is an error of this server."""
        return self.bot.user() if user_id == self.bot.user_id else self.people[user_id].user()

    def chat_json(self, chat: Chat) -> Json:
        """The chat as a `Chat` of the Bot API."""
        if chat.private:
            person = self.people[chat.chat_id]
            body: Json = {"id": chat.chat_id, "type": "private", "first_name": person.name}
            if person.username:
                body["username"] = person.username
            return body
        body = {"id": chat.chat_id, "type": chat.kind, "title": chat.title}
        if chat.forum:
            body["is_forum"] = True
        return body

    def chats_of(self, user_id: int) -> Iterator[Chat]:
        """Every chat that the person sees."""
        return (chat for chat in self.chats.values() if chat.present(user_id) and chat.migrated_to is None)
