"""The Bot API methods that look: the bot itself, chats, members; and the bot's own menu and descriptions."""

import re

from aiogram import methods as api

from codemojex.local_telegram.errors import Json, bad_request
from codemojex.local_telegram.state.membership import member_json
from codemojex.local_telegram.state.messages import find_chat, reachable_chat
from codemojex.local_telegram.state.model import Chat
from codemojex.local_telegram.state.world import World

DESCRIPTION_LIMITS = {"name": 64, "description": 512, "short_description": 120}


async def get_me(world: World, call: api.GetMe) -> Json:
    """The bot, with what it may do."""
    return {
        **world.state.bot.user(),
        "can_join_groups": True,
        "can_read_all_group_messages": not world.state.bot.privacy,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
    }


async def get_chat(world: World, call: api.GetChat) -> Json:
    """A chat in full."""
    chat = find_chat(world, call.chat_id)
    if not chat.private and not chat.present(world.bot_id):
        chat = reachable_chat(world, call.chat_id)
    gifts = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")
    body: Json = {
        **world.state.chat_json(chat),
        "accent_color_id": 0,
        "max_reaction_count": 11,
        "accepted_gift_types": dict.fromkeys(gifts, False),
    }
    if not chat.private:
        body["permissions"] = {"can_send_messages": not chat.bot_muted}
    if chat.pinned and (pinned := chat.messages.get(chat.pinned[-1])):
        body["pinned_message"] = pinned
    return body


async def get_chat_member(world: World, call: api.GetChatMember) -> Json:
    """What a user is in a chat; `left` for a known user who is not there."""
    chat = reachable_chat(world, call.chat_id)
    if call.user_id not in world.state.people and call.user_id != world.bot_id:
        raise bad_request("PARTICIPANT_ID_INVALID")
    return member_json(world, chat, call.user_id)


async def get_chat_administrators(world: World, call: api.GetChatAdministrators) -> list[Json]:
    """The owner and the administrators of a group."""
    chat = _group(world, call.chat_id, "there are no administrators in the private chat")
    return [member_json(world, chat, user_id) for user_id in chat.members if chat.admin(user_id)]


async def get_chat_member_count(world: World, call: api.GetChatMemberCount) -> int:
    """How many users are in a chat, the bot included."""
    chat = reachable_chat(world, call.chat_id)
    return sum(chat.present(user_id) for user_id in chat.members)


async def set_my_commands(world: World, call: api.SetMyCommands) -> bool:
    """Set the command menu for a scope and a language."""
    if len(call.commands) > 100:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in call.commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", command.command.removeprefix("/")):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(command.description) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    commands: list[Json] = [
        {"command": item.command.removeprefix("/"), "description": item.description} for item in call.commands
    ]
    world.state.bot.commands[_scope_key(call)] = commands
    world.changed("commands")
    return True


async def get_my_commands(world: World, call: api.GetMyCommands) -> list[Json]:
    """The menu of exactly this scope and language."""
    return world.state.bot.commands.get(_scope_key(call), [])


async def delete_my_commands(world: World, call: api.DeleteMyCommands) -> bool:
    """Remove the menu of a scope and a language."""
    world.state.bot.commands.pop(_scope_key(call), None)
    world.changed("commands")
    return True


async def set_my_text(world: World, call: api.SetMyName | api.SetMyDescription | api.SetMyShortDescription) -> bool:
    """Set name, description or short description for a language; an empty one is removed."""
    field = _text_field(call)
    text = str(getattr(call, field) or "")
    if len(text) > DESCRIPTION_LIMITS[field]:
        raise bad_request(f"BOT_{field.upper()}_TOO_LONG")
    world.state.bot.texts[f"{field}:{call.language_code or ''}"] = text
    world.changed("bot")
    return True


async def get_my_text(world: World, call: api.GetMyName | api.GetMyDescription | api.GetMyShortDescription) -> Json:
    """Name, description or short description: in the language, or the default."""
    field = _text_field(call)
    texts = world.state.bot.texts
    text = texts.get(f"{field}:{call.language_code or ''}") or texts.get(f"{field}:") or ""
    return {field: text or (world.state.bot.name if field == "name" else "")}


def menu_for(world: World, chat: Chat, user_id: int) -> list[Json]:
    """The commands that a person sees in a chat: the narrowest scope first, the person's language first in it."""
    scopes = [f"chat_member:{chat.chat_id}:{user_id}"] if not chat.private else []
    if not chat.private and chat.admin(user_id):
        scopes.append(f"chat_administrators:{chat.chat_id}")
    scopes.append(f"chat:{chat.chat_id}")
    if chat.private:
        scopes.append("all_private_chats")
    else:
        scopes += ["all_chat_administrators"] * chat.admin(user_id) + ["all_group_chats"]
    language = (world.state.people[user_id].language or "").split("-")[0]
    for scope in [*scopes, "default"]:
        for key in (f"{scope}/{language}", f"{scope}/"):
            if commands := world.state.bot.commands.get(key):
                return commands
    return []


def _group(world: World, chat_id: int | str, refusal: str) -> Chat:
    chat = reachable_chat(world, chat_id)
    if chat.private:
        raise bad_request(refusal)
    return chat


def _scope_key(call: api.SetMyCommands | api.GetMyCommands | api.DeleteMyCommands) -> str:
    scope = call.scope.model_dump(exclude_none=True, mode="json") if call.scope else {"type": "default"}
    parts = [str(scope[name]) for name in ("type", "chat_id", "user_id") if name in scope]
    return f"{':'.join(parts)}/{call.language_code or ''}"


def _text_field(call: object) -> str:
    name = type(call).__name__[len("SetMy") :]
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
