"""`/lock 1 🍎` keeps an emoji in its place of every guess, `/unlock 1` or `/unlock all` lets it go."""

from __future__ import annotations

from collections.abc import Callable

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.drafts import pins, shown
from codemojex.bot.interaction.filters import Order
from codemojex.bot.interaction.members import shut_out
from codemojex.bot.interaction.scene import Desk, Scene, of_message
from codemojex.bot.interaction.submission import refresh_composer
from codemojex.game import emoji, locks
from codemojex.game.presets import GameSettings
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import orders
from codemojex.play.people import sessions
from codemojex.play.people.sessions import Session


def build() -> Router:
    """The router of this screen."""
    router = Router(name="locks")
    router.message.register(lock, Order("lock"))
    router.message.register(unlock, Order("unlock"))
    return router


async def lock(message: Message, bot: Bot, desk: Desk, request: str, args: str) -> None:
    """Pin an emoji at a place counted from 1."""
    found = await _scene_and_game(message, bot, desk, request)
    if found is None:
        return
    scene, game = found
    settings = game.settings
    place, _, cluster = args.partition(" ")
    token = emoji.token_of(cluster.strip(), settings.palette) if cluster.strip() else None
    if not place.isdecimal() or not cluster.strip():
        await scene.whisper(scene.words("lock-how", example=settings.palette[0]))
    elif len(several := [each for each in emoji.clusters(cluster) if each.strip()]) > 1:
        example = emoji.token_of(several[0], settings.palette) or settings.palette[0]
        await scene.whisper(scene.words("lock-one", place=place[:3], token=example))
    elif token is None:
        palette = "".join(settings.palette)
        await scene.whisper(scene.words("guess-unknown", cluster=cluster.strip()[:16], palette=palette))
    elif (at := _place(place, settings)) is None:
        await scene.whisper(scene.words("lock-place", length=settings.length))
    else:
        await _change(scene, game, lambda now: locks.pin(now, at, token, settings.length))


async def unlock(message: Message, bot: Bot, desk: Desk, request: str, args: str) -> None:
    """Let one pin go, or all of them."""
    found = await _scene_and_game(message, bot, desk, request)
    if found is None:
        return
    scene, game = found
    if args.lower() == "all":
        await _change(scene, game, locks.unpin)
    elif not args.isdecimal():
        await scene.whisper(scene.words("unlock-how"))
    elif (at := _place(args, game.settings)) is None:
        await scene.whisper(scene.words("lock-place", length=game.settings.length))
    else:
        await _change(scene, game, lambda now: locks.unpin(now, at))


def _place(digits: str, settings: GameSettings) -> int | None:
    """The place counted from 0; None for one that the code does not have."""
    return int(digits) - 1 if len(digits) < 4 and 1 <= int(digits) <= settings.length else None


async def _scene_and_game(message: Message, bot: Bot, desk: Desk, request: str) -> tuple[Scene, GameSnapshot] | None:
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return None
    game = await scene.game()
    if game is None:
        await scene.whisper(scene.words("no-game"))
        return None
    return None if await shut_out(bot, scene, game) else (scene, game)


async def _change(scene: Scene, game: GameSnapshot, change: Callable[[dict[int, str]], dict[int, str]]) -> None:
    def changed(session: Session) -> Session:
        session = sessions.for_game(session, game.id)
        return session.__replace__(locks=change(pins(session.locks, game.settings)))

    session = await sessions.update(scene.play, scene.session_id, changed)
    pinned = pins(session.locks, game.settings)
    if pinned:
        sentence = "lock-full" if len(pinned) == game.settings.length else "lock-done"
        await scene.whisper(scene.words(sentence, slots=shown((), pinned, game.settings.length)))
    else:
        await scene.whisper(scene.words("lock-none"))
    if scene.private and game.room == scene.room.id:
        await orders.board(scene.play, game)
    elif scene.private:
        await refresh_composer(scene, game)
