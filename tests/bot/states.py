"""Folded games for tests of what is drawn; no bus, no clock."""

from __future__ import annotations

from codemojex.game.commitment import commit
from codemojex.game.events import (
    CloseReason,
    Event,
    GameClosed,
    GameCracked,
    GameOpened,
    GuessAccepted,
    GuessRefused,
    GuessScored,
)
from codemojex.game.fold import GameState, fold
from codemojex.game.presets import Mode, settings_for
from codemojex.game.scoring import score

NONCE = bytes(range(16))
DEADLINE_MS = 1_764_513_000_000  # 2025-11-30 14:30 UTC


class Match:
    """Collects the events of one game; `state` folds them. Players are named by a letter."""

    def __init__(self, preset: str = "quick", mode: Mode = "race") -> None:
        self.settings = settings_for(preset, mode)
        self.secret = self.settings.palette[: self.settings.length]
        commitment = commit(self.secret, NONCE)
        opened = GameOpened(self.settings, commitment, "ROM00000000001", "a", DEADLINE_MS)
        self.events: list[Event] = [opened]
        self._tries: dict[str, int] = {}

    def accept(self, player: str, name: str) -> GuessAccepted:
        """A guess that waits for its score."""
        seq = sum(isinstance(event, GuessAccepted) for event in self.events) + 1
        self._tries[player] = self._tries.get(player, 0) + 1
        accepted = GuessAccepted(f"GES{seq:011d}", player, name, seq, self._tries[player])
        self.events.append(accepted)
        return accepted

    def guess(self, player: str, code: tuple[str, ...] | None = None, name: str = "") -> GuessAccepted:
        """A scored guess; without a code the first emojis of the palette in reverse order."""
        accepted = self.accept(player, name or player.upper())
        codes = code or tuple(reversed(self.secret))
        result = score(self.secret, codes)
        self.events.append(GuessScored.of(accepted, codes, result))
        if result.perfect:
            self.events.append(GameCracked(player, accepted.seq, accepted.guess))
        return accepted

    def void(self, accepted: GuessAccepted) -> None:
        """The guess came too late."""
        self.events.append(GuessRefused(accepted.guess, accepted.player, accepted.name, accepted.seq, "late"))

    def close(self, reason: CloseReason) -> None:
        """The game is over."""
        winner, cut = self.state.winner, self.state.cut
        self.events.append(GameClosed(reason, self.secret, NONCE.hex(), cut, winner))

    @property
    def state(self) -> GameState:
        return fold(self.events)
