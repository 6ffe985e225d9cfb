"""What people do: appear, write, edit, press buttons.

Refuses what the Telegram apps would not offer (writing before Start, pressing a button that is not there), so that
a test cannot reach the bot in a way that no person can.
"""

import asyncio
import hashlib
import re
import secrets

from codemojex.local_telegram.errors import ApiError, ControlError, Json
from codemojex.local_telegram.state.membership import chat_of, person_of, set_blocked
from codemojex.local_telegram.state.messages import compose, deliver
from codemojex.local_telegram.state.model import (
    ANONYMOUS_ADMIN_ID,
    CALLBACK_LIFE_S,
    CALLBACKS_LIMIT,
    PEOPLE_LIMIT,
    Callback,
    Chat,
    Person,
)
from codemojex.local_telegram.state.world import World
from codemojex.local_telegram.text.markup import find_button
from codemojex.local_telegram.text.texts import person_text

ANSWER_WAIT_S = 15.0


def add_person(world: World, name: str, username: str | None = None, language: str | None = None) -> Person:
    """A new person. A username that exists is refused."""
    if not name.strip() or len(name) > 64:
        raise ControlError("a person needs a name of 1 to 64 characters")
    if username is not None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{2,31}", username):
            raise ControlError("a username is 3 to 32 of A-Z, a-z, 0-9, _ and starts with a letter")
        if any(username.lower() == (person.username or "").lower() for person in world.state.people.values()):
            raise ControlError(f"the username {username} is taken")
    if len(world.state.people) >= PEOPLE_LIMIT:
        raise ControlError(f"the local Telegram keeps at most {PEOPLE_LIMIT} people")
    person = Person(world.state.next_user_id, name, username, language)
    world.state.next_user_id += 1
    world.state.people[person.user_id] = person
    world.changed("people")
    return person


def send(
    world: World,
    user_id: int,
    chat_id: int,
    text: str,
    *,
    thread_id: int | None = None,
    reply_to: int | None = None,
    anonymous: bool = False,
    forwarded: bool = False,
) -> Json:
    """A person writes, or forwards what somebody wrote. The first words in private are /start, which also unblocks."""
    chat = chat_of(world, user_id, chat_id)
    person = person_of(world, user_id)
    if thread_id is not None and thread_id not in chat.topics:
        raise ControlError(f"there is no topic {thread_id} in chat {chat_id}", 404)
    if thread_id is not None and chat.topics[thread_id].closed and not chat.admin(user_id):
        raise ControlError(f"topic {thread_id} is closed")
    if reply_to is not None and reply_to not in chat.messages:
        raise ControlError(f"there is no message {reply_to} in chat {chat_id}", 404)
    body = _typed(text)
    if chat.private:
        if re.match(r"/start(\s|$)", text):
            set_blocked(world, user_id, False)
            chat.started = True
        elif not chat.started:
            raise ControlError(f"{person.name} has not pressed Start; send /start first")
        elif chat.blocked:
            raise ControlError(f"{person.name} has blocked the bot; send /start to unblock it")
    sender = person.user()
    if anonymous:
        if not chat.admin(user_id):
            raise ControlError(f"{person.name} is not an administrator and cannot be anonymous")
        sender = {"id": ANONYMOUS_ADMIN_ID, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
        body["sender_chat"] = world.state.chat_json(chat)
    if forwarded:
        body["forward_origin"] = {"type": "hidden_user", "date": world.clock.date(), "sender_user_name": "Somebody"}
    message = compose(world, chat, sender, body, thread_id=thread_id, reply_to=reply_to)
    deliver(world, chat, message)
    return message


def edit(world: World, user_id: int, chat_id: int, message_id: int, text: str) -> Json:
    """A person corrects an own message."""
    chat = chat_of(world, user_id, chat_id)
    message = _message(chat, message_id)
    if message["from"]["id"] != user_id or "text" not in message:
        raise ControlError(f"message {message_id} is not a text of user {user_id}")
    message.pop("entities", None)
    message |= {**_typed(text), "edit_date": world.clock.date()}
    world.publish("edited", chat, {"message": message})
    if chat.private or not chat.privacy or chat.admin(world.bot_id):
        world.updates.push("edited_message", message)
    return message


async def press(
    world: World,
    user_id: int,
    chat_id: int,
    message_id: int,
    data: str,
    *,
    wait_s: float = ANSWER_WAIT_S,
    inaccessible: bool = False,
) -> Json | None:
    """A person presses an inline button; the bot's answer, or `None` when none came within `wait_s`."""
    chat = chat_of(world, user_id, chat_id)
    message = _message(chat, message_id)
    if find_button(message.get("reply_markup"), data) is None:
        raise ControlError(f"message {message_id} has no button with the data {data!r}")
    callback = Callback(str(secrets.randbits(63)), user_id, world.clock.now())
    _remember(world, callback)
    shown = message
    if inaccessible:
        shown = {"chat": message["chat"], "message_id": message_id, "date": 0}
    body: Json = {
        "id": callback.callback_id,
        "from": person_of(world, user_id).user(),
        "message": dict(shown),
        "chat_instance": hashlib.sha256(str(chat_id).encode()).hexdigest()[:16],
        "data": data,
    }
    waiter: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
    world.answers[callback.callback_id] = waiter
    world.updates.push("callback_query", body)
    try:
        async with asyncio.timeout(wait_s):
            return await waiter
    except TimeoutError:
        return None
    finally:
        world.answers.pop(callback.callback_id, None)


def _typed(text: str) -> Json:
    try:
        plain, entities = person_text(text)
    except ApiError as error:
        raise ControlError(error.description) from error
    return {"text": plain, "entities": entities} if entities else {"text": plain}


def _message(chat: Chat, message_id: int) -> Json:
    message = chat.messages.get(message_id)
    if message is None:
        raise ControlError(f"there is no message {message_id} in chat {chat.chat_id}", 404)
    return message


def _remember(world: World, callback: Callback) -> None:
    callbacks = world.state.callbacks
    while callbacks:
        oldest = next(iter(callbacks.values()))
        if len(callbacks) < CALLBACKS_LIMIT and callback.pressed_at - oldest.pressed_at <= CALLBACK_LIFE_S:
            break
        del callbacks[oldest.callback_id]
    callbacks[callback.callback_id] = callback
    world.storage.touch()
