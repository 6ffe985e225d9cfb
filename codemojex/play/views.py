"""What a game looks like: the fold of its stream, kept up to date step by step.

A process keeps the folds of the games it looked at last and reads only what was appended since. A game whose
stream is archived is folded from the durable store and gives the same state.
"""

from __future__ import annotations

from codemojex.game.fold import GameState

from .context import Play


async def view(play: Play, game_id: str) -> GameState | None:
    """The state of the game now; None when no stream, live or archived, is known. The secret is in it once closed."""
    raise NotImplementedError
