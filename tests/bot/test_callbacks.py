"""Data behind buttons fits into 64 bytes and comes back as it was written."""

from __future__ import annotations

import pytest

from codemojex.bot.interaction.callbacks import MAX_BYTES, BoardPress, ComposerPress, Press, Proposal, read_press
from codemojex.bot.telegram.deep_links import game_link, read_payload
from codemojex.engine import ids
from codemojex.game.presets import PALETTE_LIMIT, PRESETS, TRIES_LIMIT
from codemojex.game.sets import EMOJI_SETS

LONGEST_GAME = ids.encode("GAM", ids.MAX_SNOWFLAKE)


@pytest.mark.parametrize(
    "press",
    [
        ComposerPress(LONGEST_GAME, str(PALETTE_LIMIT - 1), TRIES_LIMIT),
        ComposerPress(LONGEST_GAME, "clear", TRIES_LIMIT),
        BoardPress(LONGEST_GAME, "history"),
        *[Proposal(preset, mode) for preset in PRESETS for mode in ("race", "team", "solo")],
        *[Proposal("classic", "solo", emoji_set) for emoji_set in EMOJI_SETS],
    ],
)
def test_the_longest_data_fits_and_comes_back(press: Press) -> None:
    assert len(press.data().encode()) <= MAX_BYTES
    assert read_press(press.data()) == press


@pytest.mark.parametrize(
    "data",
    [
        None,
        "",
        "x",
        "c:GAM:1:1",
        f"c:{LONGEST_GAME}:explode:1",
        f"c:{LONGEST_GAME}:1",
        f"b:{LONGEST_GAME}:drop",
        "p:quick",
        "p:quick:race:",
        "p:quick:race:" + "x" * 60,
        f"c:{LONGEST_GAME}:١:1",
    ],
)
def test_other_data_means_nothing(data: str | None) -> None:
    assert read_press(data) is None


def test_a_link_names_its_game() -> None:
    payload = game_link("some_bot", LONGEST_GAME).partition("start=")[2]
    assert len(payload) <= 64
    assert read_payload(payload) == LONGEST_GAME
    assert read_payload("g_GAM1") is None
    assert read_payload(None) is None
