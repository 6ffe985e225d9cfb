"""What the composer's buttons do to a draft."""

from __future__ import annotations

from codemojex.bot.interaction.drafts import Complaint, Drafted, Ready, kept, pins, press, shown
from codemojex.game.presets import settings_for

QUICK = settings_for("quick", "solo")
A, B, C, D, E = QUICK.palette[:5]


def test_emojis_fill_the_places_from_the_left() -> None:
    assert press("1", (A,), {}, QUICK) == Drafted((A, B))
    assert shown((A, B), {}, 4) == f"{A} {B} ▫️ ▫️"


def test_pinned_emojis_keep_their_places() -> None:
    locks = {1: C}
    assert shown((A, B), locks, 4) == f"{A} {C} {B} ▫️"
    assert press("send", (A, B, D), locks, QUICK) == Ready((A, C, B, D))


def test_an_emoji_that_is_used_or_pinned_is_refused() -> None:
    assert press("0", (A,), {}, QUICK) == Complaint("used-toast", token=A)
    assert press("2", (A,), {0: C}, QUICK) == Complaint("used-toast", token=C)


def test_a_full_draft_takes_no_more() -> None:
    assert press("4", (A, B, D), {1: C}, QUICK) == Complaint("full-toast")


def test_back_takes_the_last_and_clear_takes_all() -> None:
    assert press("back", (A, B), {}, QUICK) == Drafted((A,))
    assert press("back", (), {}, QUICK) == Complaint("empty-toast")
    assert press("clear", (A, B), {1: C}, QUICK) == Drafted(())


def test_pins_are_not_taken_back_by_buttons() -> None:
    pinned = {0: A, 1: B, 2: C, 3: D}
    assert [press(action, (), pinned, QUICK) for action in ("back", "clear", "0", "4")] == [
        Complaint("pinned-toast")
    ] * 4
    assert press("clear", (), {1: C}, QUICK) == Complaint("pinned-toast")
    assert press("send", (), pinned, QUICK) == Ready((A, B, C, D))


def test_an_incomplete_draft_is_not_sent() -> None:
    assert press("send", (A,), {1: C}, QUICK) == Complaint("missing-toast", count=2)


def test_an_index_beyond_the_palette_is_out_of_date() -> None:
    assert press("8", (), {}, QUICK) == Complaint("outdated-toast")


def test_what_does_not_fit_the_game_is_forgotten() -> None:
    assert pins({0: A, 1: "🐶", 7: B}, QUICK) == {0: A}
    assert kept((A, None, "🐶", B, C, D, E), {0: A}, QUICK) == (B, C, D)
