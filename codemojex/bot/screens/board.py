"""The board: `/board` shows it anew, and the buttons under a group's board."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, Message

from codemojex.bot.interaction import votes
from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.callbacks import BoardPress
from codemojex.bot.interaction.filters import Order, Pressed
from codemojex.bot.interaction.members import shut_out, shut_out_press
from codemojex.bot.interaction.scene import Desk, of_message, of_query
from codemojex.bot.sending import board_view
from codemojex.play import games
from codemojex.play.closing import NotEnded
from codemojex.play.outbound import orders
from codemojex.play.views import views


def build() -> Router:
    """The router of this screen."""
    router = Router(name="board")
    router.callback_query.register(press_board, Pressed(BoardPress))
    router.message.register(show, Order("board"))
    return router


async def show(message: Message, bot: Bot, desk: Desk, request: str) -> None:
    """Send the board below the talk; of a finished game as well."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game = await scene.game()
    game_id = game.id if game else await scene.last_game_id()
    if game_id is not None and await shut_out(bot, scene, game or game_id):
        return
    if game is not None:
        await scene.make_current(game)
    state = await views.view(desk.play, game_id) if game_id else None
    if game_id is None or state is None or state.opened is None:
        await scene.whisper(scene.words("no-game"))
    elif state.opened.room == scene.room.id:
        await orders.order_many(desk.play, [orders.board_order(game_id, scene.room, fresh=True)])
    else:
        room = scene.room
        await orders.composer(desk.play, scene.player.id, game_id, room.chat_id, room.thread_id, fresh=True)


async def press_board(query: CallbackQuery, bot: Bot, desk: Desk, request: str, press: BoardPress) -> None:
    """History and rules are told to who pressed; a vote counts once a person."""
    scene = await of_query(desk, request, query)
    if scene is None:
        await answer(bot, query)
        return
    words = desk.texts.of(query.from_user.language_code)
    if press.action == "rules":
        await answer(bot, query, words.plain("rules-alert"), alert=True)
    elif await shut_out_press(bot, scene, press.game_id, query):
        return
    elif press.action == "history":
        state = await views.view(desk.play, press.game_id)
        text = board_view.history_toast(words, state, scene.player.id) if state else words.plain("over-toast")
        await answer(bot, query, text, alert=True)
    else:
        game = await games.snapshot(desk.play, press.game_id)
        if game is None or game.state != "open" or game.room != scene.room.id:
            await answer(bot, query, words.plain("over-toast"))
            return
        vote = await votes.cast(scene, game)
        if isinstance(vote, NotEnded):
            await answer(bot, query, words.plain("over-toast"))
        elif vote.closed:
            await answer(bot, query, words.plain("vote-done-toast"))
        else:
            sentence = "vote-again-toast" if vote.again else "vote-toast"
            await answer(bot, query, words.plain(sentence, count=vote.count, needed=vote.needed))
