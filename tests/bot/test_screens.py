"""What people see when they write and press: every screen over the whole way, against the local Telegram."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from aiogram import Bot
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from codemojex.bot.interaction.callbacks import ComposerPress
from codemojex.play import games, keys, rooms
from codemojex.play.games import GameSnapshot
from codemojex.play.people import players
from tests.bot.stage import whole_way
from tests.play.table import GameTable
from tests.support.telegram import Json, People, buttons


class Show:
    """Ada, Boris and a group, with the bot at work."""

    def __init__(self, table: GameTable, people: People, bot: Bot, *, ada: int, boris: int, group: int) -> None:
        self.table = table
        self.people = people
        self.bot = bot
        self.ada, self.boris, self.group = ada, boris, group

    async def says(self, who: int, text: str, chat: int | None = None, **more: int) -> Json:
        return await self.people.send(who, self.group if chat is None else chat, text, **more)

    async def sees(self, *parts: str, chat: int | None = None, after: int = 0) -> Json:
        """The first message of the bot with all the parts."""

        def fits(message: Json) -> bool:
            text = message.get("text", "")
            return message["from"]["is_bot"] and all(part in text for part in parts)

        return await self.people.wait_for_message(self.group if chat is None else chat, fits, after=after)

    async def game(self, chat: int | None = None) -> GameSnapshot:
        chat = self.group if chat is None else chat
        kind, title = ("private", "Ada <3") if chat > 0 else ("supergroup", "The Den")
        room = await rooms.room_for(self.table.play, chat, None, kind, title)
        game = await games.live_game(self.table.play, room.id)
        assert game is not None
        return game

    async def secret(self, chat: int | None = None) -> str:
        return "".join(await self.table.secret(await self.game(chat)))

    async def wrong(self, number: int = 1, chat: int | None = None) -> str:
        return "".join(await self.table.wrong(await self.game(chat), number))

    async def quiet(self, chat: int | None = None) -> list[str]:
        """The bot's texts so far, once a question asked now has been answered: what came before is done."""
        chat = self.group if chat is None else chat
        mark = await self.says(self.ada, "/rules", chat)
        await self.sees("Rules", chat=chat, after=mark["message_id"])
        return [m["text"] for m in await self.people.messages(chat) if m["from"]["is_bot"] and m.get("text")]


@pytest.fixture
async def show(table: GameTable, bot: Bot, people: People) -> AsyncIterator[Show]:
    ada, boris = await people.add_person("Ada <3"), await people.add_person("Boris")
    group = await people.add_group("The Den", [ada, boris], bot_admin=True)
    for person in (ada, boris):
        await people.start(person)
    async with whole_way(table.play, bot):
        yield Show(table, people, bot, ada=ada, boris=boris, group=group)


async def test_a_race_from_play_to_the_result(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    board = await show.sees("Quick · race", "No guess yet")
    await show.says(show.boris, await show.wrong())
    await show.sees("Boris 1:", "🟨")
    secret = await show.secret()
    await show.says(show.ada, f"/guess {secret}")
    result = await show.sees("Ada <3 cracked the code!", secret, "1. Ada <3", "points")
    final = await show.sees("Boris 1:", "Ada <3 cracked", "The code was")
    assert final["message_id"] == board["message_id"]
    assert result["message_id"] != board["message_id"]
    await show.says(show.boris, "/verify")
    await show.sees("I played fair")


async def test_an_emoji_in_words_is_talk_and_so_is_everything_without_a_game(show: Show) -> None:
    await show.says(show.ada, "🍎🍋🍇🍓")
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    for text in ("I like 🍎🍋🍇🍓", "😂😂😂😂", "🍎"):
        await show.says(show.boris, text)
    texts = await show.quiet()
    assert len(texts) == 3  # the greeting of the group, the board, the rules


async def test_a_guess_of_the_wrong_kind_is_explained(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    await show.says(show.boris, "🍎🍋🍇")
    complaint = await show.sees("The code has 4 emojis, you sent 3.")
    assert complaint["receiver_user"]["id"] == show.boris, "only who made the mistake sees it"
    await show.says(show.boris, "🍎🍎🍇🍓")
    await show.sees("🍎 stands there twice")
    await show.says(show.boris, "/guess 🍎🍋🍇🐶")
    await show.sees("🐶 is not in this game")
    await show.says(show.boris, "/guess")
    await show.sees("Write the emojis after the command")
    await show.says(show.boris, "🍎🍋🍇🍓\n🍓🍇🍋🍎\n🍇🍓🍋🍎")
    await show.sees("One guess a message, please: 4 emojis. You sent 12")


async def test_a_second_play_shows_the_game_that_is_on(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    first = await show.sees("No guess yet")
    await show.says(show.boris, "/play expert")
    await show.sees("A game is on already")
    again = await show.sees("Quick · race", after=first["message_id"])
    assert again["message_id"] > first["message_id"]


async def test_unknown_words_after_play_are_named(show: Show) -> None:
    await show.says(show.ada, "/play <b>chess</b>")
    await show.sees("I do not know “<b>chess</b>”")
    await show.says(show.ada, "/play solo")
    await show.sees("Solo games are for our private chat")


async def test_only_starter_and_admins_end_a_game_and_votes_do(show: Show) -> None:
    await show.says(show.ada, "/play quick")  # she owns the group as well
    await show.sees("No guess yet")
    await show.says(show.boris, "/end")
    await show.sees("Only who started the game")
    for _ in range(3):
        await show.says(show.boris, "/vote_end")
    await show.sees("1 of 3 votes")
    await show.sees("Your vote counts already: 1 of 3.")
    await show.says(show.ada, "/vote_end")
    await show.sees("2 of 3 votes")
    await show.says(show.ada, "/end")
    await show.sees("The game was ended", "The code was", "/verify")
    told = await show.quiet()
    assert sum("of 3 votes" in text for text in told) == 2
    assert sum("counts already" in text for text in told) == 1, "a vote that is repeated is told once"


async def test_an_admin_ends_a_game_of_somebody_else(show: Show) -> None:
    await show.says(show.boris, "/play quick")
    await show.sees("No guess yet")
    await show.says(show.ada, "/end")
    await show.sees("The game was ended")


async def test_buttons_of_the_board_answer_with_toasts(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    board = await show.sees("No guess yet")
    guess = await show.wrong()
    await show.says(show.boris, guess)
    await show.sees("Boris 1:")
    message_id = board["message_id"]
    history = await show.people.press_text(show.boris, show.group, message_id, "My guesses")
    assert history is not None
    assert guess in history["text"]
    none = await show.people.press_text(show.ada, show.group, message_id, "My guesses")
    assert none is not None
    assert none["text"] == "You have not guessed in this game yet."
    rules = await show.people.press_text(show.ada, show.group, message_id, "Rules")
    assert rules is not None
    assert rules["show_alert"]
    vote = await show.people.press_text(show.ada, show.group, message_id, "Vote")
    assert vote is not None
    assert vote["text"] == "Vote counted: 1 of 3."
    await show.sees("1 of 3 votes to end the game; 3 within 5 minutes end it")
    vote = await show.people.press_text(show.ada, show.group, message_id, "Vote")
    assert vote is not None
    assert vote["text"] == "Your vote counts already: 1 of 3."
    count = len(await show.people.messages(show.group))
    assert len(await show.quiet()) > 0
    assert len(await show.people.messages(show.group)) == count + 2  # the question and its answer, no noise


async def test_the_private_composer_plays_a_whole_solo_game(show: Show) -> None:
    start = await show.sees("Pick a game", chat=show.ada)
    await show.people.press_text(show.ada, show.ada, start["message_id"], "Quick")
    board = await show.sees("Quick · solo", chat=show.ada)
    secret = await show.table.secret(await show.game(show.ada))
    for count, token in enumerate(secret, 1):
        await show.people.press_text(show.ada, show.ada, board["message_id"], token)
        board = await show.people.wait_for_message(
            show.ada, lambda m, n=count: f"✅ {n}/4" in [b["text"] for b in buttons(m)]
        )
    toast = await show.people.press_text(show.ada, show.ada, board["message_id"], "✅")
    assert toast is not None
    assert toast["text"] == "Guess 1 is in!"
    await show.sees("cracked the code", "The code was " + "".join(secret), chat=show.ada)
    final = await show.people.wait_for_message(show.ada, lambda m: any("again" in b["text"] for b in buttons(m)))
    assert final["message_id"] == board["message_id"]


async def test_toasts_of_the_composer(show: Show) -> None:
    await show.says(show.ada, "/play quick", show.ada)
    board = await show.sees("Quick · solo", chat=show.ada)
    game = await show.game(show.ada)
    message_id = board["message_id"]

    async def press(action: str, tries: int = 0) -> str:
        answer = await show.people.press(show.ada, show.ada, message_id, ComposerPress(game.id, action, tries).data())
        assert answer is not None
        return answer.get("text") or ""

    data = {button["callback_data"] for button in buttons(board)}
    assert ComposerPress(game.id, "0", 0).data() in data
    assert await press("0") == ""
    assert await press("0") == "🍎 is in your guess already."
    assert await press("send") == "3 places are still empty."
    old = ComposerPress(game.id, "send", 1).data()
    keyboard = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="x", callback_data=old)]])
    message_id = (await show.bot.send_message(show.ada, "old", reply_markup=keyboard)).message_id
    assert await press("send", 1) == "This button is out of date."


async def test_a_group_game_is_played_from_the_private_chat(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    board = await show.sees("No guess yet")
    url = next(button["url"] for button in buttons(board) if "url" in button)
    await show.people.start(show.boris, url.partition("start=")[2])
    composer = await show.sees("Your guess for The Den", chat=show.boris)
    for token in await show.table.wrong(await show.game()):
        await show.people.press_text(show.boris, show.boris, composer["message_id"], token)
        await show.people.wait_for_message(show.boris, lambda m, t=token: f"{t}" in m.get("text", "").split("✏️")[-1])
    await show.people.press_text(show.boris, show.boris, composer["message_id"], "✅")
    await show.sees("Boris 1:", "🟨")
    own = await show.sees("Your guess for The Den", "Tries left: 7", "🟨", chat=show.boris)
    assert own["message_id"] == composer["message_id"]
    await show.says(show.ada, await show.wrong(2))
    await show.sees("Your guess for The Den", "Ada <3 1:", "Tries left: 7", chat=show.boris)
    await show.says(show.boris, "/board", show.boris)
    moved = await show.sees("Your guess for The Den", "Ada <3 1:", chat=show.boris, after=own["message_id"])
    await show.says(show.ada, "/end")
    over = await show.sees("The game was ended", "The code was", chat=show.boris)
    assert over["message_id"] == moved["message_id"]
    assert not buttons(over)
    assert own["message_id"] not in [m["message_id"] for m in await show.people.messages(show.boris)]


async def test_what_is_typed_in_private_is_for_the_game_that_was_shown_last(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    theirs = await show.game()
    await show.says(show.boris, "/play classic", show.boris)
    await show.sees("Classic · solo", chat=show.boris)
    await show.people.start(show.boris, f"g_{theirs.id}")
    composer = await show.sees("Your guess for The Den", chat=show.boris)
    await show.says(show.boris, "/play", show.boris)
    await show.sees("Classic · solo", chat=show.boris, after=composer["message_id"])
    await show.says(show.boris, await show.wrong(1, show.boris), show.boris)
    await show.sees("Classic · solo", "1: ", "Tries left: 11", chat=show.boris)
    await show.says(show.boris, "/vote_end", show.boris)
    await show.sees("This game is yours alone", chat=show.boris)
    await show.says(show.boris, "/end", show.boris)
    await show.sees("The game was ended", chat=show.boris)
    await show.says(show.boris, await show.wrong(), show.boris)
    await show.sees("Boris 1:")
    assert (await show.game()).id == theirs.id


async def test_board_history_and_verify_speak_of_the_same_finished_game(show: Show) -> None:
    await show.says(show.boris, "/play classic", show.boris)
    await show.sees("Classic · solo", chat=show.boris)
    await show.says(show.boris, "/end", show.boris)
    await show.sees("Classic · solo", "The code was", chat=show.boris)
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    secret = await show.secret()
    await show.people.start(show.boris, f"g_{(await show.game()).id}")
    await show.sees("Your guess for The Den", chat=show.boris)
    await show.says(show.ada, "/end")
    over = await show.sees("The code was", secret, chat=show.boris)
    await show.says(show.boris, "/board", show.boris)
    await show.sees("The code was", secret, chat=show.boris, after=over["message_id"])
    await show.says(show.boris, "/verify", show.boris)
    await show.sees("I played fair", secret, chat=show.boris)


async def test_nobody_joins_the_solo_game_of_somebody_else(show: Show) -> None:
    await show.says(show.ada, "/play quick", show.ada)
    await show.sees("Quick · solo", chat=show.ada)
    await show.people.start(show.boris, f"g_{(await show.game(show.ada)).id}")
    await show.sees("That game is somebody else's alone", chat=show.boris)
    await show.says(show.boris, await show.secret(show.ada), show.boris)
    await show.sees("No game is on", chat=show.boris)


async def test_a_groups_game_is_for_its_members(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    game, stranger = await show.game(), await show.people.add_person("Xeno")
    await show.people.start(stranger, f"g_{game.id}")
    await show.sees("a group that you are not in", chat=stranger)
    await show.says(stranger, "/vote_end", stranger)
    await show.sees("No game is on", chat=stranger)


async def test_who_has_left_the_group_neither_guesses_nor_votes(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    await show.people.fault("getChatMember", "500", 3)  # the link, the composer, the vote
    await show.people.start(show.boris, f"g_{(await show.game()).id}")
    await show.sees("Your guess for The Den", chat=show.boris)
    await show.says(show.boris, "/vote_end", show.boris)
    await show.sees("I cannot find out right now", chat=show.boris)
    await show.people.members(show.group, show.boris, "leave")
    await show.says(show.boris, await show.secret(), show.boris)
    refused = await show.sees("a group that you are not in", chat=show.boris)
    await show.says(show.boris, "/vote_end", show.boris)
    await show.sees("a group that you are not in", chat=show.boris, after=refused["message_id"])
    assert not (await show.table.state(await show.game())).rows


async def test_who_was_in_the_group_a_moment_ago_is_not_asked_for_again(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    await show.people.start(show.boris, f"g_{(await show.game()).id}")
    await show.sees("Your guess for The Den", chat=show.boris)
    await show.people.fault("getChatMember", "500", 1)
    await show.says(show.boris, "/vote_end", show.boris)
    await show.sees("Your vote counts: 1 of", chat=show.boris)


async def test_locks_fill_in(show: Show) -> None:
    await show.says(show.ada, "/play quick", show.ada)
    await show.sees("Quick · solo", chat=show.ada)
    code = await show.table.wrong(await show.game(show.ada))
    await show.says(show.ada, f"/lock 1 {code[0]}", show.ada)
    await show.sees(f"📌 {code[0]} ▫️ ▫️ ▫️", chat=show.ada)
    await show.says(show.ada, code[1], show.ada)
    await show.sees("4 emojis and one is pinned: send the other 3, or all 4. You sent 1.", chat=show.ada)
    await show.says(show.ada, "".join(code[1:]), show.ada)
    await show.sees("1: " + "".join(code), chat=show.ada)
    await show.says(show.ada, "/unlock all", show.ada)
    await show.sees("Nothing is pinned", chat=show.ada)
    for order in ("/lock 9 🍎", "/unlock 0", f"/lock {'9' * 4_000} 🍎"):
        asked = await show.says(show.ada, order, show.ada)
        await show.sees("This code has the places 1 to 4.", chat=show.ada, after=asked["message_id"])
    await show.says(show.ada, "/lock", show.ada)
    await show.sees("Pin an emoji like this", chat=show.ada)
    await show.says(show.ada, "/history", show.ada)
    await show.sees("Your guesses", "".join(code), "Tries left: 7", chat=show.ada)
    await show.says(show.ada, "".join(code), show.ada)
    await show.sees("You have tried", "already. It cost nothing.", chat=show.ada)
    await show.says(show.ada, "/lock 2 🍎🍋", show.ada)
    await show.sees("One emoji for a place, please: /lock 2 🍎", chat=show.ada)
    await show.says(show.ada, "/end", show.ada)
    await show.sees("The game was ended", chat=show.ada)
    asked = await show.says(show.ada, "/history", show.ada)
    history = await show.sees("Your guesses", chat=show.ada, after=asked["message_id"])
    assert "Tries left" not in history["text"]


async def test_no_game_begins_while_too_many_wait_for_the_archive_and_people_are_told(show: Show) -> None:
    play = show.table.play
    waiting = [word for n in range(play.options.max_unarchived) for word in (n, f"GAM{n}")]
    await play.bus.execute("ZADD", keys.unarchived(show.table.queue), *waiting)
    await show.says(show.ada, "/play quick", show.ada)
    await show.sees("I cannot begin a new game right now", chat=show.ada)
    await play.bus.execute("DEL", keys.unarchived(show.table.queue))
    await show.says(show.ada, "/play quick", show.ada)
    await show.sees("Quick · solo", chat=show.ada)


async def test_old_and_invented_buttons_are_answered(show: Show) -> None:
    await show.says(show.ada, "/play quick", show.ada)
    await show.sees("Quick · solo", chat=show.ada)
    game = await show.game(show.ada)
    await show.says(show.ada, "/end", show.ada)
    await show.sees("The game was ended", chat=show.ada)
    composer = ComposerPress(game.id, "0", 0).data()
    old = ("nonsense", composer, "p:quick:solo")
    keyboard = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="x", callback_data=d)] for d in old])
    there = await show.bot.send_message(show.group, "old", reply_markup=keyboard)
    here = await show.bot.send_message(show.ada, "old", reply_markup=keyboard)
    answers = [await show.people.press(show.boris, show.group, there.message_id, data) for data in old]
    assert [answer and answer["text"] for answer in answers] == [
        "This button is out of date.",
        "This button is not for you. Write to me in private to play.",
        "Send /play in this chat to start a game.",
    ]
    over = await show.people.press(show.ada, show.ada, here.message_id, composer)
    assert over is not None
    assert over["text"] == "This game is over."


async def test_anonymous_admins_are_asked_to_show_themselves(show: Show) -> None:
    await show.people.send(show.ada, show.group, "/play", anonymous=True)
    await show.sees("I cannot tell who you are")


async def test_privacy_mode_is_said_once(show: Show) -> None:
    closed = await show.people.add_group("Closed", [show.ada], privacy=True)
    await show.says(show.ada, "/play quick", closed)
    await show.sees("Plain messages are hidden from me", chat=closed)
    await show.says(show.ada, "/end", closed)
    result = await show.sees("The game was ended", chat=closed)
    await show.says(show.ada, "/play quick", closed)
    await show.sees("No guess yet", chat=closed, after=result["message_id"])
    assert sum("Plain messages are hidden" in text for text in await show.quiet(closed)) == 1


async def test_each_topic_has_its_own_game(show: Show) -> None:
    forum = await show.people.add_group("Forum", [show.ada], forum=True, bot_admin=True)
    topic = await show.people.topic(show.ada, forum, "Fruit")
    await show.says(show.ada, "/play quick", forum, thread_id=topic)
    board = await show.sees("Quick · race", chat=forum)
    assert board["message_thread_id"] == topic
    await show.says(show.ada, "/play classic", forum)
    general = await show.sees("Classic · race", chat=forum)
    assert "message_thread_id" not in general


async def test_a_group_that_mutes_the_bot_misses_nothing(show: Show) -> None:
    await show.says(show.ada, "/play blind")
    board = await show.sees("No guess yet")
    await show.people.members(show.group, show.bot.id, "demote")
    await show.people.members(show.group, show.bot.id, "mute")
    await show.says(show.boris, "/board")
    await show.sees("I may not write in The Den, so its game goes on unseen", chat=show.ada)
    for number in (1, 2):
        await show.says(show.boris, f"/guess {await show.wrong(number)}")
    end = time.monotonic() + 20
    while len((await show.table.state(await show.game())).counted) < 2:
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    await show.people.members(show.group, show.bot.id, "unmute")
    await show.sees("Boris 1:", "Boris 2:", after=board["message_id"])


async def test_a_topic_that_is_closed_is_silent_until_it_is_open_again(show: Show) -> None:
    forum = await show.people.add_group("Forum", [show.ada], forum=True)
    topic = await show.people.topic(show.ada, forum, "Fruit")
    await show.says(show.ada, "/play quick", forum, thread_id=topic)
    board = await show.sees("Quick · race", chat=forum)
    await show.people.post("topics", user_id=show.ada, chat_id=forum, thread_id=topic, closed=True)
    await show.says(show.ada, "/board", forum, thread_id=topic)
    await show.sees("I may not write in Forum", chat=show.ada)
    await show.people.post("topics", user_id=show.ada, chat_id=forum, thread_id=topic, closed=False)
    await show.sees("Quick · race", chat=forum, after=board["message_id"])


async def test_help_start_and_unknown_words_in_private(show: Show) -> None:
    await show.says(show.ada, "/help", show.ada)
    await show.sees("/vote_end", chat=show.ada)
    await show.says(show.ada, "what?", show.ada)
    await show.sees("I understand emojis and commands", chat=show.ada)
    for emojis in ("🍎🍋🍇🍓", "🍓🍋🍇🍎", "🍇🍋🍎🍓"):
        await show.people.send(show.ada, show.ada, emojis, forwarded=True)
    await show.sees("Forwarded messages are no guesses", chat=show.ada)
    assert sum("Forwarded" in text for text in await show.quiet(show.ada)) == 1
    await show.says(show.ada, "🍎🍋🍇🍓", show.ada)
    await show.sees("No game is on", chat=show.ada)


async def test_a_private_game_is_for_one_and_says_so(show: Show) -> None:
    await show.says(show.ada, "/play team", show.ada)
    await show.sees("Quick · solo", chat=show.ada)
    await show.sees("Here you play alone; race and team are for groups.", chat=show.ada)
    await show.says(show.ada, "/vote_end", show.ada)
    await show.sees("This game is yours alone: /end ends it.", chat=show.ada)


async def test_who_is_out_of_tries_is_told_and_a_flood_of_guesses_gets_one_answer(show: Show) -> None:
    await show.says(show.ada, "/play blind")
    await show.sees("No guess yet")
    for number in (1, 2, 3):
        await show.says(show.boris, await show.wrong(number))
    await show.sees("unless somebody joins")
    for _ in range(4):
        await show.says(show.boris, await show.wrong())
    await show.sees("You have no tries left")
    assert sum("no tries left" in text for text in await show.quiet()) == 1


async def test_a_player_is_known_by_the_account_and_not_by_the_name(show: Show) -> None:
    await show.says(show.ada, "/play quick")
    await show.sees("No guess yet")
    player = await players.player_for(show.table.play, show.ada, "Ada <3", "en")
    assert (await show.game()).starter == player.id
