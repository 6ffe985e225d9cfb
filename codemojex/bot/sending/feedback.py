"""How one scored guess is shown: the parts that the game lets players see, as signs.

Total as a number, pegs as ● and ○, tiles as coloured squares; a game that shows nothing gives a single dot.
"""

from __future__ import annotations

from collections.abc import Collection

from codemojex.game.closing import Row
from codemojex.game.presets import FeedbackPart
from codemojex.game.scoring import Score

TILES = {"G": "🟩", "Y": "🟨", "-": "⬜"}
HIDDEN = "·"


def signs(score: Score, parts: Collection[FeedbackPart]) -> str:
    """The visible parts of a score, in a fixed order."""
    shown: list[str] = []
    if "tiles" in parts:
        shown.append("".join(TILES[tile] for tile in score.tiles))
    if "total" in parts:
        shown.append(str(score.total))
    if "pegs" in parts:
        shown.append(f"●{score.exact} ○{score.misplaced}")
    return " ".join(shown) or HIDDEN


def code(row: Row) -> str:
    """The guess itself; empty while it is not known."""
    return "".join(row.codes)
