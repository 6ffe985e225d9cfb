"""Who is in which chat: groups, joining and leaving, administrators, topics, blocking, migration.

Each change makes the service messages and the my_chat_member / chat_member updates that the real server sends.
"""

from collections.abc import Sequence

from codemojex.local_telegram.errors import ControlError, Json
from codemojex.local_telegram.state.messages import compose, deliver
from codemojex.local_telegram.state.model import GROUPS_LIMIT, Chat, Person, Topic
from codemojex.local_telegram.state.world import World

ADMIN_RIGHTS = (
    "can_manage_chat",
    "can_delete_messages",
    "can_manage_video_chats",
    "can_restrict_members",
    "can_promote_members",
    "can_change_info",
    "can_invite_users",
    "can_post_stories",
    "can_edit_stories",
    "can_delete_stories",
    "can_send_welcome_messages",
    "can_pin_messages",
    "can_manage_topics",
)
MEMBER_RIGHTS = (
    "can_send_messages",
    "can_send_audios",
    "can_send_documents",
    "can_send_photos",
    "can_send_videos",
    "can_send_video_notes",
    "can_send_voice_notes",
    "can_send_polls",
    "can_send_other_messages",
    "can_add_web_page_previews",
    "can_react_to_messages",
    "can_edit_tag",
    "can_change_info",
    "can_invite_users",
    "can_pin_messages",
    "can_manage_topics",
)
TOPICS_LIMIT = 500
STATUS_AFTER = {
    "join": "member",
    "leave": "left",
    "kick": "kicked",
    "promote": "administrator",
    "demote": "member",
}


def person_of(world: World, user_id: int) -> Person:
    """The person with this id, or a clear refusal."""
    person = world.state.people.get(user_id)
    if person is None:
        raise ControlError(f"nobody has the user id {user_id}; add people with POST /control/people", 404)
    return person


def chat_of(world: World, user_id: int, chat_id: int) -> Chat:
    """The chat in which this person acts."""
    person = person_of(world, user_id)
    if chat_id == user_id:
        return world.state.private_chat(person)
    chat = group_of(world, chat_id)
    if not chat.present(user_id):
        raise ControlError(f"{person.name} is not in {chat.title!r}; join first")
    return chat


def group_of(world: World, chat_id: int) -> Chat:
    """The group with this id."""
    chat = world.state.chats.get(chat_id)
    if chat is None or chat.private:
        raise ControlError(f"there is no group {chat_id}; add one with POST /control/groups", 404)
    if chat.migrated_to is not None:
        raise ControlError(f"group {chat_id} became the supergroup {chat.migrated_to}")
    return chat


def member_json(world: World, chat: Chat, user_id: int, status: str | None = None) -> Json:
    """The `ChatMember` of a user, by default with the present status."""
    status = status or chat.members.get(user_id, "left")
    member: Json = {"status": status, "user": world.state.user(user_id)}
    if status == "creator":
        member["is_anonymous"] = False
    elif status == "administrator":
        member |= {"can_be_edited": False, "is_anonymous": False, **dict.fromkeys(ADMIN_RIGHTS, True)}
    elif status == "kicked":
        member["until_date"] = 0
    elif status == "member" and user_id == world.bot_id and chat.bot_muted and chat.kind == "supergroup":
        rights = {**dict.fromkeys(MEMBER_RIGHTS, True), "can_send_messages": False}
        member |= {"status": "restricted", "is_member": True, "until_date": 0, **rights}
    return member


def create_group(
    world: World,
    title: str,
    members: Sequence[int],
    *,
    kind: str = "supergroup",
    forum: bool = False,
    privacy: bool | None = None,
    admins: Sequence[int] = (),
    bot_admin: bool = False,
    bot: bool = True,
) -> Chat:
    """A new group; the first member owns it and adds the bot. `privacy` None is the bot's own setting."""
    if not title.strip() or len(title) > 128:
        raise ControlError("a group needs a title of 1 to 128 characters")
    if not members:
        raise ControlError("a group needs at least one member")
    if kind not in ("group", "supergroup") or (forum and kind == "group"):
        raise ControlError("kind is group or supergroup, and only a supergroup can be a forum")
    if len(world.state.chats) >= GROUPS_LIMIT:
        raise ControlError(f"the local Telegram keeps at most {GROUPS_LIMIT} chats")
    owner = person_of(world, members[0])
    chat = Chat(_take_group_id(world, kind), kind, title.strip(), forum=forum)
    chat.privacy = world.state.bot.privacy if privacy is None else privacy
    for user_id in (*members, *admins):
        person_of(world, user_id)
        chat.members[user_id] = "administrator" if user_id in admins else "member"
    chat.members[owner.user_id] = "creator"
    world.state.chats[chat.chat_id] = chat
    world.publish("chat", chat, {})
    if bot:
        change_member(world, chat, world.bot_id, "join", by=owner)
        if bot_admin:
            change_member(world, chat, world.bot_id, "promote", by=owner)
    return chat


def change_member(world: World, chat: Chat, user_id: int, action: str, by: Person | None = None) -> None:
    """Join, leave, kick, promote or demote a person or the bot; mute and unmute the bot."""
    if user_id != world.bot_id:
        person_of(world, user_id)
    if action in ("mute", "unmute") and user_id == world.bot_id:
        before = member_json(world, chat, user_id)
        chat.bot_muted = action == "mute"
        if member_json(world, chat, user_id) != before:
            _tell_bot(world, chat, _owner(world, chat).user(), before)
        world.publish("chat", chat, {})
        return
    if action not in STATUS_AFTER:
        raise ControlError(f"unknown action {action!r}; known: {', '.join(STATUS_AFTER)}, and mute, unmute for the bot")
    old, new = chat.members.get(user_id, "left"), STATUS_AFTER[action]
    if old == new:
        return
    if action in ("leave", "kick", "promote", "demote") and not chat.present(user_id):
        raise ControlError(f"user {user_id} is not in {chat.title!r}")
    actor = by or (_owner(world, chat) if user_id == world.bot_id or action in ("kick", "promote", "demote") else None)
    sender = actor.user() if actor else world.state.user(user_id)
    before = member_json(world, chat, user_id)
    was_admin = chat.admin(world.bot_id)
    chat.members[user_id] = new
    _service_message(world, chat, sender, user_id, action)
    if user_id == world.bot_id:
        _tell_bot(world, chat, sender, before)
    elif was_admin:
        world.updates.push("chat_member", _change(world, chat, sender, before, user_id))
    world.events.publish("chat", {"chat_id": chat.chat_id}, None)
    world.storage.touch()


def set_blocked(world: World, user_id: int, blocked: bool) -> None:
    """A person blocks the bot or lets it write again."""
    person = person_of(world, user_id)
    chat = world.state.private_chat(person)
    if chat.blocked == blocked:
        return
    before = member_json(world, chat, world.bot_id)
    chat.blocked = blocked
    chat.members[world.bot_id] = "kicked" if blocked else "member"
    _tell_bot(world, chat, person.user(), before)
    world.publish("chat", chat, {})


def open_topic(world: World, chat: Chat, user_id: int, name: str) -> Topic:
    """A new topic of a forum."""
    if not chat.forum:
        raise ControlError(f"{chat.title!r} is not a forum; create the group with forum: true")
    if len(chat.topics) >= TOPICS_LIMIT:
        raise ControlError(f"a forum has at most {TOPICS_LIMIT} topics here")
    if not 1 <= len(name) <= 128:
        raise ControlError("a topic needs a name of 1 to 128 characters")
    created = {"forum_topic_created": {"name": name, "icon_color": 7322096}}
    topic = Topic(chat.next_message_id, name)
    chat.topics[topic.thread_id] = topic
    message = compose(world, chat, person_of(world, user_id).user(), created, thread_id=topic.thread_id)
    deliver(world, chat, message)
    world.publish("chat", chat, {})
    return topic


def close_topic(world: World, chat: Chat, user_id: int, thread_id: int, closed: bool) -> None:
    """Close a topic or open it again."""
    topic = chat.topics.get(thread_id)
    if topic is None:
        raise ControlError(f"{chat.title!r} has no topic {thread_id}", 404)
    topic.closed = closed
    body: Json = {"forum_topic_closed" if closed else "forum_topic_reopened": {}}
    deliver(world, chat, compose(world, chat, person_of(world, user_id).user(), body, thread_id=thread_id))
    world.publish("chat", chat, {})


def migrate(world: World, chat: Chat) -> Chat:
    """A basic group becomes a supergroup with a new id; both chats tell so."""
    if chat.kind != "group":
        raise ControlError("only a basic group migrates; create it with kind: group")
    owner = _owner(world, chat)
    new = Chat(_take_group_id(world, "supergroup"), "supergroup", chat.title, privacy=chat.privacy)
    new.members = dict(chat.members)
    world.state.chats[new.chat_id] = new
    deliver(world, chat, compose(world, chat, owner.user(), {"migrate_to_chat_id": new.chat_id}))
    chat.migrated_to = new.chat_id
    deliver(world, new, compose(world, new, owner.user(), {"migrate_from_chat_id": chat.chat_id}))
    world.changed("chat", {"chat_id": new.chat_id})
    return new


def _tell_bot(world: World, chat: Chat, sender: Json, before: Json) -> None:
    """The my_chat_member update of a change in the bot's own standing."""
    world.updates.push("my_chat_member", _change(world, chat, sender, before, world.bot_id))


def _change(world: World, chat: Chat, sender: Json, before: Json, user_id: int) -> Json:
    return {
        "chat": world.state.chat_json(chat),
        "from": sender,
        "date": world.clock.date(),
        "old_chat_member": before,
        "new_chat_member": member_json(world, chat, user_id),
    }


def _take_group_id(world: World, kind: str) -> int:
    group_id = world.state.next_group_id
    world.state.next_group_id -= 1
    # A supergroup's id has the −100 prefix, a basic group's is small.
    return group_id if kind == "supergroup" else group_id + 1_000_000_000_000


def _owner(world: World, chat: Chat) -> Person:
    for user_id, status in chat.members.items():
        if status == "creator":
            return world.state.people[user_id]
    raise ControlError(f"{chat.title!r} has no owner any more")


def _service_message(world: World, chat: Chat, sender: Json, user_id: int, action: str) -> None:
    user = world.state.user(user_id)
    if action == "join":
        body: Json = {"new_chat_members": [user]}
    elif action in ("leave", "kick"):
        body = {"left_chat_member": user}
    else:
        return
    message = compose(world, chat, sender, body)
    if user_id != world.bot_id or action == "join":
        deliver(world, chat, message)
