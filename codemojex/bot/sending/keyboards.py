"""The inline keyboards: the composer, a group board's buttons, and the proposals of /start. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from codemojex.bot.interaction.callbacks import BoardPress, ComposerPress, EndPress, Proposal
from codemojex.bot.telegram.deep_links import game_link
from codemojex.bot.texts import Words
from codemojex.game.presets import GameSettings

ROW = 8  # buttons side by side at most
USED = "·"

Button = dict[str, str]
Markup = dict[str, object]  # Telegram's reply_markup, as the Bot API takes it


def composer(
    words: Words,
    game_id: str,
    settings: GameSettings,
    *,
    draft: tuple[str, ...],
    locks: Mapping[int, str],
    tries: int,
) -> Markup:
    """The palette, then back, clear and send. Emojis that stand in the draft already are shown as a dot."""

    def button(label: str, action: str) -> Button:
        return {"text": label, "callback_data": ComposerPress(game_id, action, tries).data()}

    taken = {*draft, *locks.values()}
    palette = [button(USED if token in taken else token, str(i)) for i, token in enumerate(settings.palette)]
    columns = ceil(len(palette) / ceil(len(palette) / ROW))
    rows = [palette[start : start + columns] for start in range(0, len(palette), columns)]
    filled = len(draft) + len(locks)
    send = words.plain("send-label", count=filled, length=settings.length)
    rows.append(
        [
            button(words.plain("back-label"), "back"),
            button(words.plain("clear-label"), "clear"),
            button(send, "send"),
        ]
    )
    return {"inline_keyboard": rows}


def board(words: Words, game_id: str, bot_username: str) -> Markup:
    """What a group finds under its board."""

    def button(key: str, action: str) -> Button:
        return {"text": words.plain(key), "callback_data": BoardPress(game_id, action).data()}

    compose = {"text": words.plain("compose-label"), "url": game_link(bot_username, game_id)}
    return {
        "inline_keyboard": [
            [compose],
            [button("history-label", "history"), button("rules-label", "rules")],
            [button("vote-label", "vote")],
        ]
    }


def again(words: Words, settings: GameSettings) -> Markup:
    """Under the finished board of a private game."""
    proposal = Proposal(settings.preset, settings.mode, settings.set_name).data()
    return {"inline_keyboard": [[{"text": words.plain("again-label"), "callback_data": proposal}]]}


def end(words: Words, game_id: str) -> Markup:
    """Under the question whether a group's game shall end."""
    return {"inline_keyboard": [[{"text": words.plain("end-label"), "callback_data": EndPress(game_id).data()}]]}


def start(words: Words) -> Markup:
    """Three games to begin with."""
    return {
        "inline_keyboard": [
            [{"text": words.plain(f"start-{preset}-label"), "callback_data": Proposal(preset, "solo").data()}]
            for preset in ("quick", "classic", "expert")
        ]
    }
