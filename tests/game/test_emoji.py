"""Reading emojis: what is a guess, what is chat, and which spelling means which token."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game.emoji import (
    Guess,
    NotACode,
    Repeated,
    UnknownEmoji,
    WrongLength,
    canonical,
    clusters,
    parse_guess,
    token_of,
)
from codemojex.game.sets import EMOJI_SETS

FRUIT = EMOJI_SETS["fruit"].tokens[:12]
VS15, VS16, ZWJ, TONES = "\ufe0e", "\ufe0f", "\u200d", [chr(code) for code in range(0x1F3FB, 0x1F400)]
ALL_TOKENS = sorted({token for emoji_set in EMOJI_SETS.values() for token in emoji_set.tokens})

spellings = st.tuples(
    st.sampled_from(["", *TONES]),
    st.sampled_from(["", VS15, VS16]),
    st.sampled_from(["", " ", "\n", "\u200b", "\u00a0 "]),
)


def test_a_family_a_flag_a_tone_and_a_keycap_are_one_cluster_each() -> None:
    text = "👨‍👩‍👧🇫🇷👍🏽1️⃣🏴󠁧󠁢󠁳󠁣󠁴󠁿e\u0301"
    assert clusters(text) == ["👨‍👩‍👧", "🇫🇷", "👍🏽", "1️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "e\u0301"]


def test_a_canonical_token_loses_variation_selectors_and_keeps_joiners_tags_and_tones() -> None:
    assert canonical("❤" + VS16) == canonical("❤" + VS15) == "❤"
    assert canonical("👨‍👩‍👧") == "👨‍👩‍👧"
    assert canonical("👍🏽") == "👍🏽"
    assert canonical("🏴󠁧󠁢󠁳󠁣󠁴󠁿") == "🏴󠁧󠁢󠁳󠁣󠁴󠁿"
    assert canonical("e\u0301") == "é"
    assert canonical("Ⓜ" + VS16) == "Ⓜ"  # not M, as a compatibility form would make it


@given(st.text())
def test_clusters_lose_nothing_and_canonical_is_stable(text: str) -> None:
    assert "".join(clusters(text)) == text
    for cluster in clusters(text):
        token = canonical(cluster)
        assert canonical(token) == token
        assert canonical(unicodedata.normalize("NFD", cluster)) == token


@given(st.sampled_from(ALL_TOKENS), spellings)
def test_every_spelling_of_a_palette_emoji_maps_to_its_token(token: str, spelling: tuple[str, str, str]) -> None:
    tone, selector, _ = spelling
    assert token_of(token + tone + selector, ALL_TOKENS) == token
    assert token_of(token + selector + tone, ALL_TOKENS) == token


@given(st.permutations(FRUIT), st.lists(spellings, min_size=6, max_size=6))
def test_a_guess_in_any_spelling_gives_the_tokens_in_order(
    order: list[str], spelled: list[tuple[str, str, str]]
) -> None:
    code = order[:6]
    text = "".join(token + "".join(parts) for token, parts in zip(code, spelled, strict=True))
    assert parse_guess(text, FRUIT, 6) == Guess(tuple(code))


def test_a_palette_of_tonable_emojis_takes_every_tone_and_prefers_the_exact_one() -> None:
    assert token_of("👍🏽", ["👍"]) == "👍"
    assert token_of("👍🏽", ["👍", "👍🏽"]) == "👍🏽"
    assert token_of("❤", ["❤" + VS16]) == "❤" + VS16


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n ",
        VS16,
        "hello",
        "12345",
        "🍎🍋🍇 yes",
        "я думаю 🍎🍋🍇🍓",
        "🍎🍋🍇🍓!",
        "🍎1🍋",
        "🍎🍋🍇🍓🥝🍒 ?",
        "©",
        "🍎™",
        "#",
        "👍 ok",
    ],
)
def test_words_digits_and_punctuation_make_a_message_chat(text: str) -> None:
    assert parse_guess(text, FRUIT, 6) == NotACode()


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("🎉", "🎉"),
        ("🍎🍋🚗🍇🐶🍓", "🚗"),
        ("🍎🇫🇷🍋", "🇫🇷"),
        ("🍎👨‍👩‍👧", "👨‍👩‍👧"),
        ("🍎1️⃣", "1️⃣"),
        ("❤", "❤"),
        ("❤" + VS16, "❤" + VS16),
        ("©" + VS16, "©" + VS16),
        ("🍎" + ZWJ + "🍋🍇🍓🥝🍒", "🍎" + ZWJ + "🍋"),
        ("🍎" + ZWJ, "🍎" + ZWJ),
        ("🍎\u0301🍋", "🍎\u0301"),
        ("🍎 🏽", "🏽"),
        ("🍏🍋🍇🍓🥝🍒", "🍏"),
        ("\U0001faea🍎", "\U0001faea"),
    ],
)
def test_a_foreign_emoji_is_refused_by_name(text: str, cluster: str) -> None:
    assert parse_guess(text, FRUIT, 6) == UnknownEmoji(cluster)


def test_chat_comes_before_unknown_before_length_before_repetition() -> None:
    assert parse_guess("🎉 wow", FRUIT, 4) == NotACode()
    assert parse_guess("🍎🍎🎉", FRUIT, 4) == UnknownEmoji("🎉")
    assert parse_guess("🍎🍎🍋", FRUIT, 4) == WrongLength(3)
    assert parse_guess("🍎🍋🍇🍓🥝", FRUIT, 4) == WrongLength(5)
    assert parse_guess("🍎🍋🍎🍋", FRUIT, 4) == Repeated("🍎")
    assert parse_guess("🍎🍋🍇🍎" + VS16, FRUIT, 4) == Repeated("🍎")


def test_locks_complete_a_shorter_guess_and_a_full_one_is_taken_as_typed() -> None:
    locks = {0: "🍎", 2: "🍇"}
    assert parse_guess("🍋🍓", FRUIT, 4, locks) == Guess(("🍎", "🍋", "🍇", "🍓"))
    assert parse_guess("🍓🍒🥝🍋", FRUIT, 4, locks) == Guess(("🍓", "🍒", "🥝", "🍋"))
    assert parse_guess("🍋", FRUIT, 4, locks) == WrongLength(1)
    assert parse_guess("🍋🍓🍒", FRUIT, 4, locks) == WrongLength(3)
    assert parse_guess("🍎🍓", FRUIT, 4, locks) == Repeated("🍎")
    assert parse_guess("hm", FRUIT, 4, locks) == NotACode()


def test_a_pin_from_another_palette_brings_no_foreign_emoji_in() -> None:
    assert parse_guess("🍋🍓🍒", FRUIT, 4, {0: "🚗"}) == WrongLength(3)


@given(st.text(max_size=200))
def test_any_text_gets_a_verdict(text: str) -> None:
    verdict = parse_guess(text, FRUIT, 6)
    if isinstance(verdict, Guess):
        assert len(set(verdict.tokens)) == 6
        assert set(verdict.tokens) <= set(FRUIT)
    if isinstance(verdict, UnknownEmoji):
        assert verdict.cluster in text
