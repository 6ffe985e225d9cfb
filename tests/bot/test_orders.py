"""Commands and typed guesses are recognised; talk is not."""

from __future__ import annotations

import pytest

from codemojex.bot.interaction.filters import only_emojis, read_order
from codemojex.bot.screens.play import Misplaced, Unreadable, read_play
from codemojex.game.presets import GameSettings


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("/play", ("play", "")),
        ("/play@My_Bot quick team", ("play", "quick team")),
        ("/PLAY  quick ", ("play", "quick")),
        ("/guess\n🍎🍋", ("guess", "🍎🍋")),
        ("/play@other_bot", None),
        ("play", None),
        ("/", None),
        ("", None),
        (None, None),
    ],
)
def test_a_command_is_read_with_its_rest(text: str | None, order: tuple[str, str] | None) -> None:
    assert read_order(text, "my_bot") == order


@pytest.mark.parametrize("text", ["🍎🍋🍇🍓", "🍎 🍋\n🍇", "❤️", "👩‍👩‍👧", "🇫🇷"])
def test_emojis_alone_may_be_a_guess(text: str) -> None:
    assert only_emojis(text)


@pytest.mark.parametrize("text", [None, "", "hi", "🍎 or 🍋", "🍎!", "1 🍎", "🍎" * 201])
def test_words_among_emojis_are_talk(text: str | None) -> None:
    assert not only_emojis(text)


def test_words_after_play_come_in_any_order() -> None:
    settings = read_play("team CLASSIC animals", private=False)
    assert isinstance(settings, GameSettings)
    assert (settings.preset, settings.mode, settings.set_name) == ("classic", "team", "animals")


def test_a_group_races_and_a_private_chat_plays_solo() -> None:
    group, private = read_play("", private=False), read_play("race", private=True)
    assert isinstance(group, GameSettings)
    assert isinstance(private, GameSettings)
    assert (group.mode, private.mode) == ("race", "solo")


def test_solo_does_not_belong_into_a_group_and_nonsense_is_named() -> None:
    assert read_play("solo", private=False) == Misplaced()
    assert read_play("quick hard", private=False) == Unreadable("hard")
