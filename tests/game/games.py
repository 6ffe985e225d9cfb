"""Builds the events of whole games for the tests of this folder: `Game` plays, `hidden` is its secret."""

from dataclasses import dataclass, field

from codemojex.game.commitment import commit
from codemojex.game.events import CloseReason, Event, GameClosed, GameCracked, GameOpened, GuessAccepted, GuessRefused
from codemojex.game.events import GuessScored as Scored
from codemojex.game.presets import GameSettings, settings_for
from codemojex.game.scoring import score

NONCE = bytes(range(16))
NAMES = {"PLR1": "Ada", "PLR2": "Boris", "PLR3": "Chen"}
ADA, BORIS, CHEN = NAMES


@dataclass
class Game:
    """One game; every verb returns the events that it makes. Codes are written as digits: places in the palette."""

    settings: GameSettings = field(default_factory=lambda: settings_for("quick", feedback={"total"}))
    hidden: str = "0123"
    tries: dict[str, int] = field(default_factory=dict)
    seq: int = 0

    @property
    def secret(self) -> tuple[str, ...]:
        return self.code(self.hidden)

    def code(self, digits: str) -> tuple[str, ...]:
        return tuple(self.settings.palette[int(digit)] for digit in digits)

    def opened(self) -> GameOpened:
        return GameOpened(self.settings, commit(self.secret, NONCE), "ROM1", ADA, 1_000)

    def accepted(self, player: str) -> GuessAccepted:
        self.seq += 1
        self.tries[player] = self.tries.get(player, 0) + 1
        return GuessAccepted(f"GES{self.seq}", player, NAMES[player], self.seq, self.tries[player])

    def scored(self, accepted: GuessAccepted, digits: str) -> Scored:
        return Scored.of(accepted, self.code(digits), score(self.secret, self.code(digits)))

    def guess(self, player: str, digits: str) -> list[Event]:
        accepted = self.accepted(player)
        return [accepted, self.scored(accepted, digits)]

    @staticmethod
    def refused(accepted: GuessAccepted, reason: str = "cut") -> GuessRefused:
        return GuessRefused(accepted.guess, accepted.player, accepted.name, accepted.seq, reason)

    @staticmethod
    def cracked(accepted: GuessAccepted) -> GameCracked:
        return GameCracked(accepted.player, accepted.seq, accepted.guess)

    def closed(self, reason: CloseReason = "cracked", cut: int | None = None, winner: str | None = None) -> GameClosed:
        return GameClosed(reason, self.secret, NONCE.hex(), cut, winner)
