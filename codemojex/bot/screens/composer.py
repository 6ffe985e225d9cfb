"""The composer in a private chat: emojis, back, clear, send. Each press edits one message; toasts tell the rest."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import CallbackQuery

from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.callbacks import ComposerPress
from codemojex.bot.interaction.drafts import Complaint, Drafted, Ready, kept, pins
from codemojex.bot.interaction.drafts import press as pressed
from codemojex.bot.interaction.filters import Pressed
from codemojex.bot.interaction.members import shut_out_press
from codemojex.bot.interaction.scene import Desk, Scene, of_query
from codemojex.play import games, guesses
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import orders
from codemojex.play.people import sessions
from codemojex.play.people.sessions import Session
from codemojex.play.views import views


def build() -> Router:
    """The router of this screen."""
    router = Router(name="composer")
    router.callback_query.register(compose, Pressed(ComposerPress))
    return router


async def compose(query: CallbackQuery, bot: Bot, desk: Desk, request: str, press: ComposerPress) -> None:
    """One press: check who and what, change the draft or hand it in, answer, order the redrawing."""
    scene = await of_query(desk, request, query)
    if scene is None or scene.room.chat_id != query.from_user.id:  # a private chat has its person's id
        await answer(bot, query, desk.texts.of(query.from_user.language_code).plain("not-yours-toast"), alert=True)
        return
    if await shut_out_press(bot, scene, press.game_id, query):
        return
    game = await games.snapshot(scene.play, press.game_id)
    if game is None or game.state != "open":
        await answer(bot, query, scene.words.plain("over-toast"))
        if game is not None:
            await _redraw(scene, game)
        return
    tries, left = await _tries(scene, game)
    if press.action == "send" and press.tries != tries:
        await answer(bot, query, scene.words.plain("outdated-toast"))
    elif left == 0:
        await answer(bot, query, scene.words.plain("refused-toast", reason="no_tries"))
    else:
        await answer(bot, query, await _act(scene, game, press.action, tries))
        if press.action == "send" and game.room == scene.room.id:
            return  # the score redraws the board in a moment; two edits would only make it wait
    await _redraw(scene, game)


async def _act(scene: Scene, game: GameSnapshot, action: str, tries: int) -> str:
    """Change the draft of the guess after `tries` others, or hand it in; the toast."""
    effect: list[Drafted | Ready | Complaint] = []

    def change(session: Session) -> Session:
        session = sessions.for_game(session, game.id, joined=game.room != scene.room.id)
        if session.data.get("press") == scene.request:
            return session  # the same press, delivered again
        locks = pins(session.locks, game.settings)
        draft = kept(sessions.draft_of(session, game.id, tries), locks, game.settings)
        outcome = pressed(action, draft, locks, game.settings)
        effect[:] = [outcome]
        if not isinstance(outcome, Drafted):
            return session
        return session.__replace__(draft=outcome.draft, tries=tries, data={**session.data, "press": scene.request})

    await sessions.update(scene.play, scene.session_id, change)
    match effect[0] if effect else None:
        case Complaint(key, token, count):
            return scene.words.plain(key, **({"token": token} if token else {"count": count} if count else {}))
        case Ready(code):
            return await _hand_in(scene, game, code)
        case _:
            return ""


async def _hand_in(scene: Scene, game: GameSnapshot, code: tuple[str, ...]) -> str:
    verdict = await guesses.submit(scene.play, game, scene.player, code, scene.request)
    if isinstance(verdict, guesses.NotAccepted):
        return scene.words.plain("refused-toast", reason=verdict.reason)
    return scene.words.plain("sent-toast", **{"try": verdict.try_no})


async def _tries(scene: Scene, game: GameSnapshot) -> tuple[int, int]:
    """The player's own guesses so far, for those of a team do not make a button old; and the tries that are left."""
    state = await views.view(scene.play, game.id)
    return (len(state.history(scene.player.id)), state.tries_left(scene.player.id)) if state else (0, 1)


async def _redraw(scene: Scene, game: GameSnapshot) -> None:
    """The private game's own board, or the composer of a game that is played elsewhere."""
    if game.room == scene.room.id:
        await orders.board(scene.play, game)
        return
    await orders.composer(
        scene.play,
        scene.player.id,
        game.id,
        scene.room.chat_id,
        scene.room.thread_id,
        pressed=scene.message_id,
    )
