"""A bounded memory of folded games, least recently used first out. Used by `views`; holds no secret of a live game."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from codemojex.game.fold import GameState


@dataclass(frozen=True, slots=True)
class Folded:
    """A game's state after the record `last` of its stream (the stream's own id)."""

    state: GameState
    last: str


class Folds:
    """Up to `max_games` folded games of this process."""

    def __init__(self, max_games: int = 512) -> None:
        self._max = max_games
        self._games: OrderedDict[str, Folded] = OrderedDict()

    def get(self, game_id: str) -> Folded | None:
        """What is known of the game, which counts as its use."""
        found = self._games.get(game_id)
        if found is not None:
            self._games.move_to_end(game_id)
        return found

    def put(self, game_id: str, folded: Folded) -> None:
        """Remember the game; the one that was not used for longest may go."""
        self._games[game_id] = folded
        self._games.move_to_end(game_id)
        while len(self._games) > self._max:
            self._games.popitem(last=False)

    def drop(self, game_id: str) -> None:
        """Forget the game."""
        self._games.pop(game_id, None)
