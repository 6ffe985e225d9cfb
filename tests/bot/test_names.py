"""Whatever people call themselves, a line of the board reads from left to right, names somebody, and links nowhere."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest
import regex

import codemojex.bot
from codemojex.bot.sending import board_view, result_view
from codemojex.bot.texts import FOREIGN, LONGEST_ARGUMENT, load_texts
from codemojex.game.names import FSI, NAME_LIMIT, PDI, readable
from codemojex.local_telegram.text.html_text import parse_html
from codemojex.local_telegram.text.texts import find_entities
from tests.bot.states import Match
from tests.support.telegram import unmarked

PACKAGE = Path(codemojex.bot.__file__).parent
WORDS = load_texts().of("en")
BIDI = regex.compile(r"\p{Bidi_Control}")
OURS = {"bold", "code", "italic", "strikethrough"}
LINKING = ("/end", "/end@codemojex_bot", "@admin", "evil.com", "https://evil.com/x", "t.me/evil", "#sale", "$USD",
           "a@b.org", "+7 999 123 45 67", "tg://resolve?domain=x", "x.evil.ru", "4111 1111 1111 1111")  # fmt: skip
NAMELESS = ("", " ", "\u200b", "\u3164", "\u2800", "\u202e", "\u2066\u2069", "\u115f\u1160", "\U000e0041", "\u0301",
            "\u00ad\u034f", "\ufeff\u2060", "\ufffc")  # fmt: skip


def shown(text: str) -> tuple[str, set[str]]:
    """A message as Telegram shows it: its text, and the kinds of entities in it."""
    plain, marks = parse_html(text)
    return plain, {entity["type"] for entity in find_entities(plain, marks)}


def drawn(name: str) -> list[str]:
    """Every message that holds a name or a title of somebody."""
    match = Match("classic")
    match.guess("b", name=name)
    match.accept("c", name)
    live = match.state
    match.guess("a", match.secret, name=name)
    sealing = match.state
    match.close("cracked")
    return [
        board_view.draw(WORDS, live),
        board_view.draw(WORDS, sealing),
        board_view.draw(WORDS, match.state),
        board_view.personal(WORDS, live, "a", "▫️", name),
        result_view.draw(WORDS, match.state),
        WORDS("silent-told", room=name),
        WORDS("play-unknown", word=name, sets="fruit"),
        WORDS("end-ask", room=name),
    ]


@pytest.mark.parametrize("name", LINKING)
def test_no_name_becomes_a_command_a_mention_or_a_link(name: str) -> None:
    ours = [shown(text)[1] for text in drawn("Ada")]
    for text, expected in zip(drawn(name), ours, strict=True):
        plain, kinds = shown(text)
        assert kinds <= expected | OURS, plain
        assert name[:8] in unmarked(plain), "it is still legible"


def test_the_local_telegram_sees_each_of_them_when_nothing_is_done() -> None:
    seen = [name for name in LINKING[:-1] if not find_entities(f"1. {name} – 400", [])]
    assert seen == [], "else the test above would prove nothing"


@pytest.mark.parametrize("name", NAMELESS)
def test_who_has_no_visible_name_is_a_player(name: str) -> None:
    assert readable(name, "player") == f"{FSI}player{PDI}"
    assert "player 1:" in unmarked(drawn(name)[0])
    assert "✉️ Your guess for <b>group</b>" in unmarked(drawn(name)[3])


@pytest.mark.parametrize("name", ["\u202eevil", "a\u2067b", "\u2069\u2069x", "שלום", "مرحبا", "\u200fx", "a\u061cb"])
def test_directions_stay_within_the_name(name: str) -> None:
    made = readable(name, "player")
    assert (made[0], made[-1]) == (FSI, PDI)
    assert BIDI.findall(made[1:-1]) == []
    for text in drawn(name):
        depth = 0
        for mark in BIDI.findall(text):
            depth += 1 if mark == FSI else -1
            assert mark in (FSI, PDI)
            assert 0 <= depth <= 1
        assert depth == 0
        assert regex.search(r"[\p{Bidi_Class=R}\p{Bidi_Class=AL}]", re.sub(f"{FSI}[^{PDI}]*{PDI}", "", text)) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a\nb\u2028c", "a b c"),
        ("x" * 64, "x" * 31 + "…"),
        ("👨‍👩‍👧 fam", "👨‍👩‍👧 fam"),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
        ("می‌خواهم", "می‌خواهم"),
        ("a\u200db\u200cc", "abc"),
        ("1️⃣2️⃣", "1️⃣2️⃣"),
        ("e" + "\u0301" * 90, "e" + "\u0301" * 4),
        ("👨‍👩‍👧" * 20, "👨‍👩‍👧" * 6 + "…"),
    ],
)
def test_what_makes_a_name_legible_stays(name: str, expected: str) -> None:
    assert unmarked(readable(name, "player")) == expected


def test_any_name_at_all_gives_one_short_line_that_says_something() -> None:
    random_ = random.Random(6)
    for _ in range(3_000):
        length = random_.randint(0, 80)
        name = "".join(
            chr(random_.choice((random_.randrange(0x110000), random_.randrange(0x2FF)))) for _ in range(length)
        )
        made = readable(name, "player")
        inner = unmarked(made)
        assert 1 <= len(inner) <= NAME_LIMIT, ascii(name)
        assert inner.splitlines() == [inner], ascii(name)
        made.encode()
        _, kinds = shown(f"1. {made.replace('&', '').replace('<', '')} – 400")
        assert kinds == set(), ascii(name)


def foreign(node: ast.expr) -> bool:
    """Whether an argument is somebody's name, a title, or a word that they wrote."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr in ("name", "title", "full_name", "first_name", "word"))
        or (isinstance(part, ast.Name) and part.id in ("name", "room"))
        or (isinstance(part, ast.Call) and getattr(part.func, "id", "") in ("name_of", "line_name"))
        for part in ast.walk(node)
    )


def test_every_name_and_title_goes_into_a_sentence_as_one() -> None:
    """What somebody chose is passed under a name of `FOREIGN`, which no sentence shows but through `readable`."""
    found: list[str] = []
    passed = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function not in ("words", "plain"):
                continue
            for argument in node.keywords:
                if argument.arg in FOREIGN:
                    passed += 1
                elif argument.arg and foreign(argument.value):
                    found.append(f"{path.name}:{node.lineno} {argument.arg}")
    assert found == []
    assert passed >= 8, "the search finds them"


def test_every_argument_of_a_sentence_is_known_to_be_ours_or_of_others() -> None:
    ours = {"preset", "mode", "length", "size", "palette", "deadline", "commitment", "rank", "best", "tries", "count",
            "try", "code", "feedback", "ends", "slots", "ending", "points", "nonce", "sets", "where", "example",
            "cluster", "pinned", "free", "token", "place", "seconds", "needed", "minutes", "reason", "begun",
            "order"}  # fmt: skip
    source = (PACKAGE / "locales" / "en.ftl").read_text()
    assert set(re.findall(r"\{ \$(\w+)", source)) <= ours | set(FOREIGN)


def test_no_argument_breaks_a_sentence() -> None:
    tower = "🍎" + "\u0301" * 4_080
    for value in (tower, "&" * 5_000, "x" * 100_000):
        text = WORDS("guess-unknown", cluster=value, palette="🍎")
        assert len(WORDS.plain("guess-unknown", cluster=value, palette="🍎")) <= LONGEST_ARGUMENT + 100
        assert text.endswith("🍎")
