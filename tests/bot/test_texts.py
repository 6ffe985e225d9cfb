"""Every sentence exists, is used, and cannot be broken by what people call themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import codemojex.bot
from codemojex.bot.telegram import menu
from codemojex.bot.texts import Html, Texts, UnknownText, load_texts
from codemojex.game.events import CLOSE_REASONS
from codemojex.play.guesses import NotAccepted

PACKAGE = Path(codemojex.bot.__file__).parent
KEYS = set(re.findall(r"^([a-z][\w-]*) =", (PACKAGE / "locales" / "en.ftl").read_text(), re.MULTILINE))


def patterns() -> Iterator[str]:
    """Every string of the package's code that may name a sentence, as a pattern."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"[\w-]+" for part in node.values
                ]
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.escape(node.value)


def named() -> Iterator[tuple[str, str]]:
    """Every key that the code passes to `words(…)`, `.plain(…)` or `Complaint(…)`, with its place."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function not in ("words", "plain", "Complaint"):
                continue
            choices = [node.args[0].body, node.args[0].orelse] if isinstance(node.args[0], ast.IfExp) else node.args[:1]
            for choice in choices:
                if isinstance(choice, ast.Constant):
                    yield str(choice.value), f"{path.name}:{node.lineno}"


def test_every_sentence_that_the_code_names_exists() -> None:
    missing = [f"{place} {key}" for key, place in named() if key not in KEYS]
    assert not missing
    assert len(list(named())) > 40  # the search itself finds them


def test_no_sentence_is_unused() -> None:
    used = [re.compile(pattern) for pattern in set(patterns()) if len(pattern) > 3 and pattern != r"[\w-]+"]
    assert [key for key in sorted(KEYS) if not any(pattern.fullmatch(key) for pattern in used)] == []


def test_every_reason_and_command_has_its_sentence() -> None:
    reasons = get_args(NotAccepted.__annotations__["reason"]) or get_args(
        __import__("typing").get_type_hints(NotAccepted)["reason"]
    )
    wanted = {f"refused-{reason}" for reason in reasons}
    wanted |= {f"ending-{reason}" for reason in CLOSE_REASONS}
    wanted |= {f"menu-{name}" for name in {*menu.PRIVATE, *menu.GROUP}}
    assert wanted <= KEYS


def test_a_name_with_markup_is_escaped_in_html_and_left_alone_in_toasts() -> None:
    words = load_texts().of("en")
    assert "<b>\u2068&lt;3 &amp; co\u2069</b>" in words("ending-cracked", name="<3 & co")
    assert "<3" in words.plain("used-toast", token="<3")


def test_ready_markup_is_not_escaped_again() -> None:
    words = load_texts().of("en")
    assert "<b>x</b>" in words("board-over", ending=Html("<b>x</b>"))


def test_no_isolation_marks_get_between_emojis() -> None:
    assert load_texts().of("en")("board-code", code="🍎🍋") == "The code was 🍎🍋"


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("en", "en"),
        ("en_US", "en"),
        ("", "en"),
        (None, "en"),
        ("zh-hans", "zh"),
        ("pt-br", "pt-br"),
        ("PT-PT", "en"),
        ("xx-", "en"),
    ],
)
def test_language_is_the_nearest_that_is_there(code: str | None, language: str) -> None:
    texts = Texts({"en": "a = A", "zh": "a = Z", "pt-br": "a = P"})
    assert texts.language(code) == language


def test_a_sentence_that_a_language_lacks_falls_back_to_english() -> None:
    texts = Texts({"en": "a = A\nb = B", "ru": "a = Я"})
    assert (texts.of("ru")("a"), texts.of("ru")("b")) == ("Я", "B")


def test_an_unknown_sentence_and_a_missing_argument_are_defects() -> None:
    words = Texts({"en": "a = A { $x }"}).of("en")
    with pytest.raises(UnknownText, match="nope"):
        words("nope")
    with pytest.raises(UnknownText, match="'a'"):
        words("a")


def test_a_broken_language_file_is_refused_when_it_is_loaded() -> None:
    with pytest.raises(UnknownText, match="broken"):
        Texts({"en": "broken { $x"})
