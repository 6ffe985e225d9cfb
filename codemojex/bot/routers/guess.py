"""Guesses: `/guess 🍎🍋…`, or just the emojis. Words are chat; so are emojis while no game is on."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot.anonymous import tell_anonymous
from codemojex.bot.drafts import pins
from codemojex.bot.filters import OnlyEmojis, Order
from codemojex.bot.handing_in import hand_in, show_again_when_far
from codemojex.bot.scene import Desk, Scene, of_message
from codemojex.bot.texts import Html
from codemojex.game import emoji
from codemojex.game.emoji import Chat, Guess, Parsed, Repeated, Unknown, WrongLength
from codemojex.game.presets import GameSettings
from codemojex.play.games import Snapshot


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
    locks = await _locks(scene, game)
    found = _read(game, message.text or "", locks)
    if scene.private or _meant(found, game.settings):
        await _take(bot, scene, game, found, len(locks))


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
    locks = await _locks(scene, game)
    await _take(bot, scene, game, _read(game, args, locks), len(locks))


async def _locks(scene: Scene, game: Snapshot) -> dict[int, str]:
    session = await scene.session()
    return pins(session.locks, game.settings) if session.game == game.id else {}


def _read(game: Snapshot, text: str, locks: dict[int, str]) -> Parsed:
    return emoji.parse_guess(text, game.settings.palette, game.settings.length, locks)


async def _take(bot: Bot, scene: Scene, game: Snapshot, found: Parsed, pinned: int) -> None:
    if not isinstance(found, Guess):
        await scene.whisper(_complaint(scene, found, game.settings, pinned))
        return
    accepted = await hand_in(bot, scene, game, found.tokens)
    if accepted is not None:
        await show_again_when_far(scene, game, accepted)


def _meant(found: Parsed, settings: GameSettings) -> bool:
    """Whether emojis in a group's talk are meant for the game: palette emojis, and more than a reaction."""
    match found:
        case Guess() | Repeated():
            return True
        case WrongLength(n):
            return 2 <= n <= settings.length + 2 or n % settings.length == 0
        case _:
            return False


def _complaint(scene: Scene, found: Parsed, settings: GameSettings, pinned: int) -> Html:
    words = scene.words
    match found:
        case Unknown(cluster):
            return words("guess-unknown", cluster=cluster, palette="".join(settings.palette))
        case WrongLength(n) if n >= 2 * settings.length:
            return words("guess-burst", length=settings.length, count=n)
        case WrongLength(n) if pinned:
            free = settings.length - pinned
            return words("guess-length-pinned", length=settings.length, pinned=pinned, free=free, count=n)
        case WrongLength(n):
            return words("guess-length", length=settings.length, count=n)
        case Repeated(token):
            return words("guess-repeated", token=token)
        case Chat() | Guess():
            return words("guess-how", example="".join(settings.palette[: settings.length]))
