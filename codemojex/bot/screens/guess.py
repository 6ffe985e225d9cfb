"""Guesses: `/guess 🍎🍋…`, or just the emojis. Words are chat; so are emojis while no game is on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.drafts import pins
from codemojex.bot.interaction.filters import OnlyEmojis, Order
from codemojex.bot.interaction.members import shut_out
from codemojex.bot.interaction.scene import Desk, Scene, of_message
from codemojex.bot.interaction.submission import hand_in, show_again_when_far
from codemojex.game import emoji
from codemojex.game.emoji import Guess, NotACode, Parsed, Repeated, UnknownEmoji, WrongLength
from codemojex.game.presets import GameSettings
from codemojex.play.games import GameSnapshot

MAX_CLUSTER = 16  # characters of a sign that is told back: a family or a flag fits, a tower of marks does not
_SIGNS = re.compile("[,;，、]")  # between the emojis of a list


def build() -> Router:
    """The router of this screen."""
    router = Router(name="guess")
    router.message.register(typed, OnlyEmojis())
    router.message.register(ordered, Order("guess", "g"))
    return router


async def typed(message: Message, bot: Bot, desk: Desk, request: str) -> None:
    """Emojis alone. In a group only what looks like a try at this game is answered."""
    scene = await of_message(desk, request, message)
    if scene is None:
        return
    game = await scene.game()
    if game is None:
        if scene.private:
            await scene.whisper(scene.words("no-game"))
        return
    if await shut_out(bot, scene, game):
        return
    locks = await _locks(scene, game)
    found = _read(game, message.text or "", locks)
    if scene.private or _meant(message, found, game.settings, len(locks), desk.me.user_id):
        await _take(scene, game, found, locks)


async def ordered(message: Message, bot: Bot, desk: Desk, request: str, args: str) -> None:
    """The command: whatever stands after it is meant as a guess."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game = await scene.game()
    if game is None:
        await scene.whisper(scene.words("no-game"))
        return
    if await shut_out(bot, scene, game):
        return
    locks = await _locks(scene, game)
    await _take(scene, game, _read(game, _SIGNS.sub(" ", args), locks), locks)


async def _locks(scene: Scene, game: GameSnapshot) -> dict[int, str]:
    session = await scene.session()
    return pins(session.locks, game.settings) if session.game == game.id else {}


def _read(game: GameSnapshot, text: str, locks: dict[int, str]) -> Parsed:
    return emoji.parse_guess(text, game.settings.palette, game.settings.length, locks)


async def _take(scene: Scene, game: GameSnapshot, found: Parsed, locks: Mapping[int, str]) -> None:
    if not isinstance(found, Guess):
        sentence, args = _complaint(found, game.settings, locks)
        # In a group one complaint of a kind; in private the next mistake is told as well.
        await scene.whisper(scene.words(sentence, **args), kind="" if scene.private else sentence)
        return
    accepted = await hand_in(scene, game, found.tokens)
    if accepted is not None:
        await show_again_when_far(scene, game, accepted)


def _meant(message: Message, found: Parsed, settings: GameSettings, pinned: int, bot_id: int) -> bool:
    """Whether emojis in a group's talk are meant for the game: palette emojis, and more than a reaction.

    With a foreign emoji among them: a reply to the bot, or as many as a guess has and half of them of the palette.
    """
    match found:
        case UnknownEmoji():
            seen = [cluster for cluster in emoji.clusters(message.text or "") if emoji.is_picture(cluster)]
            known = sum(emoji.token_of(cluster, settings.palette) is not None for cluster in seen)
            replied = message.reply_to_message and message.reply_to_message.from_user
            if replied and replied.id == bot_id:
                return len(seen) > 1
            return len(seen) in (settings.length, settings.length - pinned) and 2 * known >= len(seen)
        case Guess() | Repeated():
            return True
        case WrongLength(n):
            return 2 <= n <= settings.length + 2 or n % settings.length == 0
        case _:
            return False


def _complaint(found: Parsed, settings: GameSettings, locks: Mapping[int, str]) -> tuple[str, dict[str, str | int]]:
    """The sentence that says what is wrong, and its arguments."""
    length, free = settings.length, settings.length - len(locks)
    match found:
        case UnknownEmoji(cluster):
            return "guess-unknown", {"cluster": cluster[:MAX_CLUSTER], "palette": "".join(settings.palette)}
        case WrongLength(n) if n >= 2 * length:
            return "guess-burst", {"length": length, "count": n}
        case NotACode() | WrongLength() if not free:
            return "guess-all-pinned", {"length": length}
        case WrongLength(n) if locks:
            return "guess-length-pinned", {"length": length, "pinned": len(locks), "free": free, "count": n}
        case WrongLength(n):
            return "guess-length", {"length": length, "count": n}
        case Repeated(token) if token in locks.values():
            place = next(place for place, pinned in locks.items() if pinned == token)
            return "guess-repeated-pinned", {"token": token, "place": place + 1}
        case Repeated(token):
            return "guess-repeated", {"token": token}
        case NotACode() | Guess():
            return "guess-how", {"example": "".join(settings.palette[:length])}
