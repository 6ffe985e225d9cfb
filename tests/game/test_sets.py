"""The emoji sets: every palette is safe to type, to see and to tell apart."""

import pytest
import regex

from codemojex.game.emoji import canonical, clusters
from codemojex.game.sets import EMOJI_SETS, SET_SIZE, EmojiSet

# Additions of Emoji 14 and later to blocks that Emoji 13 uses; the last block is given by what 13 has in it.
NEWER = {*range(0x1F6DC, 0x1F6E0), 0x1F7F0, 0x1F979, 0x1F9CC, *range(0x1FA70, 0x1FB00)} - {
    *range(0x1FA70, 0x1FA75),
    *range(0x1FA78, 0x1FA7B),
    *range(0x1FA80, 0x1FA87),
    *range(0x1FA90, 0x1FAA9),
    *range(0x1FAB0, 0x1FAB7),
    *range(0x1FAC0, 0x1FAC3),
    *range(0x1FAD0, 0x1FAD7),
}

# Emojis of one outline that differ in colour, in the time shown or in a detail: a palette may hold one of each family.
LOOKALIKES = [
    "🔴🟠🟡🟢🔵🟣🟤⚫⚪🔘",
    "🟥🟧🟨🟩🟦🟪🟫⬛⬜🔳🔲",
    "💙💚💛💜🧡🖤🤍🤎💗💖💓💞💕💘💝",
    "🔷🔶🔹🔸💠",
    "🔺🔻🔼🔽",
    "🍎🍏",
    "🍊🍑🍅🥭",
    "🍋🍈",
    "🥦🥬",
    "🧄🧅",
    "🌞🌕🌝🌑🌚",
    "🌙🌛🌜",
    "⭐🌟",
    "💧💦",
    "☔🌂",
    "🍁🍂",
    "🌍🌎🌏",
    "🚗🚙🚕🚓",
    "🚌🚎🚍🚐",
    "🚒🚑",
    "🚂🚃🚆",
    "🔒🔓🔐🔏",
    "🔍🔎",
    "❓❔",
    "❗❕",
    "🏴🏁🚩",
    "🐶🐱🐭🐹🐻🐨🐯",
    "🐫🐪",
    "🏏🏑🏒🥍",
    "🏈🏉",
    "🏐⚽⚾🏀",
    "⏳⌛",
    "⏰⌚",
    "😀😃😄😁😆😂🤣",
    "📕📗📘📙",
]

every_set = pytest.mark.parametrize("emoji_set", EMOJI_SETS.values(), ids=lambda emoji_set: emoji_set.name)


def test_there_are_at_least_eight_sets_with_their_own_names() -> None:
    assert len(EMOJI_SETS) >= 8
    assert all(name == emoji_set.name for name, emoji_set in EMOJI_SETS.items())


@every_set
def test_a_set_has_24_different_emojis_of_one_code_point(emoji_set: EmojiSet) -> None:
    assert len(emoji_set.tokens) == len(set(emoji_set.tokens)) == SET_SIZE
    for token in emoji_set.tokens:
        assert len(token) == 1
        assert canonical(token) == token
        assert clusters(token) == [token]


@every_set
def test_every_emoji_is_shown_as_a_picture_and_has_no_skin_tones(emoji_set: EmojiSet) -> None:
    for token in emoji_set.tokens:
        assert regex.fullmatch(r"\p{Emoji_Presentation}", token), token
        assert not regex.fullmatch(r"\p{Emoji_Modifier_Base}|\p{Emoji_Modifier}|\p{Regional_Indicator}", token), token


@every_set
def test_every_emoji_is_in_emoji_13(emoji_set: EmojiSet) -> None:
    assert [token for token in emoji_set.tokens if ord(token) in NEWER] == []


@every_set
def test_no_emoji_becomes_a_dice_when_it_is_sent_alone(emoji_set: EmojiSet) -> None:
    assert set(emoji_set.tokens).isdisjoint("🎲🎯🏀⚽🎳🎰")


@every_set
def test_a_set_holds_one_of_each_family_of_lookalikes(emoji_set: EmojiSet) -> None:
    for family in LOOKALIKES:
        assert len(set(emoji_set.tokens) & set(family)) <= 1, family


@every_set
def test_every_emoji_has_a_name_of_its_own_in_english_and_russian(emoji_set: EmojiSet) -> None:
    for names in (emoji_set.names_en, emoji_set.names_ru):
        assert tuple(names) == emoji_set.tokens
        assert len(set(names.values())) == SET_SIZE
        assert all(name.strip() == name != "" for name in names.values())
    assert all(regex.fullmatch(r"[A-Za-z ]+", name) for name in emoji_set.names_en.values())
    assert all(regex.fullmatch(r"[А-Яа-яЁё ]+", name) for name in emoji_set.names_ru.values())


def test_a_name_is_russian_on_request_and_english_for_everybody_else() -> None:
    fruit = EMOJI_SETS["fruit"]
    assert fruit.name_of("🍎", "ru") == "яблоко"
    assert fruit.name_of("🍎") == fruit.name_of("🍎", "fr") == "apple"
