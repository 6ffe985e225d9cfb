"""Guesses: `/guess 🍎🍋…`, or just the emojis. Words are chat; so are emojis while no game is on."""

from __future__ import annotations

from aiogram import Router
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


async def typed(message: Message, desk: Desk, request: str) -> None:
    """Emojis alone. In a group only what looks like a try at this game is answered."""
    scene = await of_message(desk, request, message)
    if scene is None:
        return
    game = await scene.game()
    if game is None:
        if scene.private:
            await scene.say(scene.words("no-game"))
        return
    found = await _read(scene, game, message.text or "")
    if not scene.private and not _meant(found, game.settings):
        return
    await _take(scene, game, found)


async def ordered(message: Message, desk: Desk, request: str, args: str) -> None:
    """The command: whatever stands after it is meant as a guess."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game = await scene.game()
    if game is None:
        await scene.say(scene.words("no-game"))
        return
    await _take(scene, game, await _read(scene, game, args))


async def _read(scene: Scene, game: Snapshot, text: str) -> Parsed:
    session = await scene.session()
    locks = pins(session.locks, game.settings) if session.game == game.id else {}
    return emoji.parse_guess(text, game.settings.palette, game.settings.length, locks)


async def _take(scene: Scene, game: Snapshot, found: Parsed) -> None:
    if not isinstance(found, Guess):
        await scene.say(_complaint(scene, found, game.settings))
        return
    accepted = await hand_in(scene, game, found.tokens)
    if accepted is not None:
        await show_again_when_far(scene, game, accepted)


def _meant(found: Parsed, settings: GameSettings) -> bool:
    """Whether emojis in a group's talk are meant for the game: palette emojis, and more than a reaction."""
    match found:
        case Guess() | Repeated():
            return True
        case WrongLength(n):
            return 2 <= n <= settings.length + 2
        case _:
            return False


def _complaint(scene: Scene, found: Parsed, settings: GameSettings) -> Html:
    words = scene.words
    match found:
        case Unknown(cluster):
            return words("guess-unknown", cluster=cluster, palette="".join(settings.palette))
        case WrongLength(n):
            return words("guess-length", length=settings.length, count=n)
        case Repeated(token):
            return words("guess-repeated", token=token)
        case Chat() | Guess():
            return words("guess-how", example="".join(settings.palette[: settings.length]))
