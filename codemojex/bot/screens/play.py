"""`/play`: one live game per room, with the preset and mode that were asked for; and the buttons that propose one."""

from __future__ import annotations

from dataclasses import dataclass

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, Message

from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.callbacks import Proposal
from codemojex.bot.interaction.filters import Order, Pressed
from codemojex.bot.interaction.scene import Desk, Scene, of_message, of_query
from codemojex.bot.telegram.admins import is_admin
from codemojex.bot.texts import Html
from codemojex.game.presets import MODES, PRESETS, GameSettings, Mode, settings_for
from codemojex.game.sets import EMOJI_SETS
from codemojex.play import games
from codemojex.play.games import AlreadyLive, Full
from codemojex.play.outbound import orders

DEFAULT_PRESET = "quick"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A word after /play that names no preset, mode or set."""

    word: str


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A mode that does not belong into this kind of chat."""


def build() -> Router:
    """The router of this screen."""
    router = Router(name="play")
    router.message.register(start_game, Order("play", "new"))
    router.callback_query.register(accept_proposal, Pressed(Proposal))
    return router


def read_play(args: str, private: bool, default: str = DEFAULT_PRESET) -> GameSettings | Unreadable | Misplaced:
    """The settings that the words after /play ask for, in any order. In private every game is solo."""
    preset, mode, emoji_set = default, "", "fruit"
    for word in args.lower().split():
        if word in PRESETS:
            preset = word
        elif word in MODES:
            mode = word
        elif word in EMOJI_SETS:
            emoji_set = word
        else:
            return Unreadable(word)
    if not private and mode == "solo":
        return Misplaced()
    chosen: Mode = "solo" if private else "team" if mode == "team" else "race"
    return settings_for(preset, chosen, set_name=emoji_set)


async def start_game(message: Message, bot: Bot, desk: Desk, request: str, args: str) -> None:
    """Open a game; when one is on, show its board instead."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    settings = read_play(args, scene.private, scene.room.preset or DEFAULT_PRESET)
    if isinstance(settings, Unreadable):
        await scene.whisper(scene.words("play-unknown", word=settings.word[:32], sets=", ".join(EMOJI_SETS)))
    elif isinstance(settings, Misplaced):
        await scene.whisper(scene.words("play-solo-here"))
    elif (obstacle := await _open(scene, settings)) is not None:
        await scene.whisper(obstacle)
    elif scene.private and {"race", "team"} & set(args.lower().split()):
        await scene.say(scene.words("play-alone"))
    elif not scene.private and not desk.me.reads_all and not await is_admin(bot, scene.room.chat_id, desk.me.user_id):
        await scene.say(scene.words("play-privacy"), once=f"{scene.room.id}-privacy")


async def accept_proposal(query: CallbackQuery, bot: Bot, desk: Desk, request: str, press: Proposal) -> None:
    """The buttons of /start and of a finished private game."""
    scene = await of_query(desk, request, query)
    if scene is None or not scene.private:
        await answer(bot, query, desk.texts.of(query.from_user.language_code).plain("start-here-toast"))
        return
    settings = read_play(f"{press.preset} {press.emoji_set}", private=True)
    if not isinstance(settings, GameSettings):
        await answer(bot, query, scene.words.plain("outdated-toast"))
        return
    await answer(bot, query)
    if (obstacle := await _open(scene, settings)) is not None:
        await scene.whisper(obstacle)


async def _open(scene: Scene, settings: GameSettings) -> Html | None:
    """Open the game; or why none begins. When the room has a live one, its board is shown again."""
    opened = await games.open_game(scene.play, scene.room, scene.player, settings, scene.request)
    if isinstance(opened, Full):
        return scene.words("play-full")
    if isinstance(opened, AlreadyLive):
        game = await games.snapshot(scene.play, opened.game_id)
        if game is not None:
            await scene.make_current(game)
            await orders.board(scene.play, game, fresh=True)
        return scene.words("play-already", where="private" if scene.private else "group")
    await scene.make_current(opened.game)
    return None
