"""The board says what the game lets players see, within Telegram's limits, the same for the same state."""

from __future__ import annotations

import re

import pytest

from codemojex.bot.interaction.callbacks import Proposal, read_press
from codemojex.bot.sending import board_view, keyboards, result_view
from codemojex.bot.sending.board_view import TEXT_LIMIT, utf16
from codemojex.bot.texts import load_texts
from codemojex.game.events import GameExhausted
from codemojex.game.presets import settings_for
from tests.bot.states import DEADLINE_MS, NONCE, Match
from tests.support.telegram import unmarked

WORDS = load_texts().of("en")


def test_a_new_game_shows_palette_deadline_and_commitment() -> None:
    match = Match()
    text = board_view.draw(WORDS, match.state)
    assert "<b>Quick · race</b> – 4 of 8" in text
    assert "".join(match.settings.palette) in text
    assert "14:30 UTC" in text
    assert match.state.opened
    assert match.state.opened.commitment in text, "a part of a fingerprint proves less"


def test_the_same_state_draws_the_same_text() -> None:
    match = Match()
    match.guess("a")
    assert board_view.draw(WORDS, match.state) == board_view.draw(WORDS, match.state)


@pytest.mark.parametrize(
    ("preset", "shown", "hidden"),
    [
        ("quick", "🟨🟨🟨🟨", "●"),
        ("classic", "240 ●0 ○6", "🟨"),
        ("expert", "240", "●"),
        ("blind", "·", "240"),
    ],
)
def test_feedback_is_what_the_game_lets_players_see(preset: str, shown: str, hidden: str) -> None:
    match = Match(preset)
    match.guess("a")
    text = board_view.draw(WORDS, match.state)
    assert shown in text.partition("Guesses")[2]
    assert hidden not in text


def test_a_guess_that_waits_shows_an_hourglass_and_no_code() -> None:
    match = Match()
    match.accept("a", "Ada")
    assert "Ada 1: ⏳" in unmarked(board_view.draw(WORDS, match.state))


def test_a_crack_that_is_not_settled_yet_keeps_its_code() -> None:
    match = Match()
    match.guess("a", match.secret, name="Ada")
    text = board_view.draw(WORDS, match.state)
    assert "Ada</b> has cracked it" in unmarked(text)
    assert "".join(match.secret) not in text.replace("".join(match.settings.palette), "")


def test_a_guess_after_the_crack_is_struck_out() -> None:
    match = Match()
    match.guess("a", match.secret, name="Ada")
    match.void(match.accept("b", "Boris"))
    assert "Boris: <s></s> came too late" in unmarked(board_view.draw(WORDS, match.state))


def test_markup_in_names_is_escaped_everywhere() -> None:
    match = Match()
    match.guess("a", name="<3 & </b>")
    match.guess("a", match.secret, name="<3 & </b>")
    match.close("cracked")
    for text in (
        board_view.draw(WORDS, match.state),
        result_view.draw(WORDS, match.state),
        board_view.personal(WORDS, match.state, "a", "", "<i>room"),
        "\n".join(board_view.history(WORDS, match.state, "a")),
    ):
        assert re.sub(r"</?(b|i|s|code)>", "", text).count("<") == 0
        assert "<3" not in text


@pytest.mark.parametrize("name", ["&" * 64, "🦀" * 64, "n" * 64])
def test_the_text_never_exceeds_the_limit_and_drops_the_oldest_first(name: str) -> None:
    match = Match("expert")
    for number in range(60):
        match.guess(f"p{number}", name=f"{number}{name}")
    text = board_view.draw(WORDS, match.state)
    assert utf16(text) <= TEXT_LIMIT
    assert f"{59}{name[:5].replace('&', '&amp;')}" in text
    assert "earlier guesses" in text
    assert "… and 50 more" in text
    match.close("deadline")
    assert utf16(board_view.draw(WORDS, match.state)) <= TEXT_LIMIT
    assert utf16(result_view.draw(WORDS, match.state)) <= TEXT_LIMIT


def test_a_race_whose_players_are_out_of_tries_says_when_it_ends() -> None:
    match = Match()
    match.guess("a")
    match.events.append(GameExhausted(1, DEADLINE_MS - 60_000))
    for text in (board_view.draw(WORDS, match.state), board_view.personal(WORDS, match.state, "b", "", "room")):
        assert "I tell the code at 14:29 UTC, unless somebody joins." in text
    match.guess("b")
    assert "unless somebody joins" not in board_view.draw(WORDS, match.state)


def test_a_game_that_ended_without_guesses_dares_nobody() -> None:
    match = Match()
    assert "Who dares?" in board_view.draw(WORDS, match.state)
    match.close("deadline")
    text = board_view.draw(WORDS, match.state)
    assert "Nobody has guessed." in text
    assert "Who dares?" not in text


def test_a_private_composer_shows_everybodys_guesses_and_the_players_own_tries() -> None:
    match = Match()
    match.guess("a", name="Ada")
    text = unmarked(board_view.personal(WORDS, match.state, "b", "▫️", "The Den"))
    assert "Your guess for <b>The Den</b>" in text
    assert "Ada 1:" in text
    assert "Tries left: 8" in text
    match.close("ended")
    over = board_view.personal(WORDS, match.state, "b", "▫️", "The Den")
    assert "The game was ended" in over
    assert "▫️" not in over


def test_a_composer_without_tries_says_so_and_takes_no_draft() -> None:
    match = Match("blind")
    for number in range(3):
        match.guess("a", match.settings.palette[number + 1 : number + 7])
    text = board_view.personal(WORDS, match.state, "a", "▫️", "The Den")
    assert "You have no tries left in this game." in text
    assert "▫️" not in text
    assert "under your name" in board_view.personal(WORDS, match.state, "b", "▫️", "The Den")


def test_a_result_without_guesses_has_no_gap() -> None:
    match = Match()
    match.close("ended")
    assert "\n\n\n" not in result_view.draw(WORDS, match.state)
    match = Match()
    match.guess("a")
    match.close("ended")
    text = result_view.draw(WORDS, match.state)
    assert "season points\n\n🔏" in text


def test_the_groups_buttons_have_room_for_their_labels() -> None:
    keyboard = keyboards.board(WORDS, "GAM00000000001", "some_bot")["inline_keyboard"]
    assert isinstance(keyboard, list)
    assert [len(row) for row in keyboard] == [1, 2, 1]


def test_the_next_game_keeps_the_emoji_set() -> None:
    keyboard = keyboards.again(WORDS, settings_for("quick", "solo", set_name="sports"))["inline_keyboard"]
    assert isinstance(keyboard, list)
    assert read_press(keyboard[0][0]["callback_data"]) == Proposal("quick", "solo", "sports")


def test_a_team_shares_one_line_and_its_tries() -> None:
    match = Match(mode="team")
    match.guess("a")
    match.guess("b")
    text = unmarked(board_view.draw(WORDS, match.state))
    assert "1. Team" in text
    assert "Tries left: 6" in text


def test_the_result_names_winner_code_points_and_proof() -> None:
    match = Match()
    match.guess("b", name="Boris")
    match.guess("a", match.secret, name="Ada")
    match.close("cracked")
    text = unmarked(result_view.draw(WORDS, match.state))
    assert "<b>Ada</b> cracked the code!" in text
    assert "".join(match.secret) in text
    assert NONCE.hex() in text
    assert "1. Ada" in text
    assert "+170 season points" in text
    assert "/verify" in text


def test_a_late_result_says_which_game_it_was() -> None:
    match = Match()
    match.close("ended")
    assert "Quick · race, begun 20" in result_view.draw(WORDS, match.state, late=True)
    assert "begun" not in result_view.draw(WORDS, match.state)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("deadline", "Time is up"),
        ("ended", "The game was ended"),
        ("voted", "You voted"),
        ("out_of_tries", "All tries are used up"),
    ],
)
def test_every_ending_has_its_sentence(reason: str, sentence: str) -> None:
    match = Match()
    match.guess("a")
    match.close(reason)  # type: ignore[arg-type]  # parametrised
    assert sentence in result_view.draw(WORDS, match.state)
    assert sentence in board_view.draw(WORDS, match.state)


def test_there_is_no_result_while_the_code_is_secret() -> None:
    with pytest.raises(ValueError, match="not closed"):
        result_view.draw(WORDS, Match().state)


def test_the_history_toast_keeps_the_latest_that_fit() -> None:
    match = Match("expert")
    for _ in range(15):
        match.guess("a")
    toast = board_view.history_toast(WORDS, match.state, "a")
    assert utf16(toast) <= 200
    assert toast.splitlines()[-1].startswith("15 ")
    assert board_view.history_toast(WORDS, match.state, "b") == "You have not guessed in this game yet."


@pytest.mark.parametrize(("preset", "rows"), [("quick", [8]), ("classic", [6, 6]), ("expert", [8, 8, 8])])
def test_the_composer_has_at_most_eight_buttons_a_row(preset: str, rows: list[int]) -> None:
    settings = Match(preset).settings
    markup = keyboards.composer(WORDS, "GAM00000000001", settings, draft=(), locks={}, tries=0)
    keyboard = markup["inline_keyboard"]
    assert isinstance(keyboard, list)
    assert [len(row) for row in keyboard] == [*rows, 3]
    buttons = [button for row in keyboard for button in row]
    assert all(read_press(button["callback_data"]) for button in buttons)
    assert [button["text"] for button in buttons[:-3]] == list(settings.palette)


def test_used_and_pinned_emojis_are_dots() -> None:
    settings = Match().settings
    first, second = settings.palette[:2]
    markup = keyboards.composer(WORDS, "GAM00000000001", settings, draft=(first,), locks={3: second}, tries=0)
    keyboard = markup["inline_keyboard"]
    assert isinstance(keyboard, list)
    assert [button["text"] for button in keyboard[0]][:3] == ["·", "·", settings.palette[2]]
    assert keyboard[-1][2]["text"] == "✅ 2/4"
