"""The data behind buttons: ids and small numbers only, at most 64 bytes, and one place that writes and reads it.

`c:GAM…:12:3` is the composer, `b:GAM…:h` a game's board, `e:GAM…` ends a game, `p:quick:race:sports` proposes one. Text
of another shape reads as None: an old button, or one that somebody made up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codemojex.play.people import input_checks

MAX_BYTES = 64  # Telegram's own limit

_GAME = r"GAM[0-9A-Za-z]{11}"  # the form; the range is checked by `door.game_id`
_COMPOSER = re.compile(rf"c:({_GAME}):([0-9]{{1,2}}|back|clear|send):([0-9]{{1,4}})")
_BOARD = re.compile(rf"b:({_GAME}):(history|rules|vote)")
_END = re.compile(rf"e:({_GAME})")
_PROPOSAL = re.compile(r"p:([a-z]{1,16}):([a-z]{1,16})(?::([a-z]{1,16}))?")


@dataclass(frozen=True, slots=True)
class ComposerPress:
    """A press on the composer: `action` is an index of the palette, "back", "clear" or "send"; `tries` were used."""

    game_id: str
    action: str
    tries: int

    def data(self) -> str:
        return f"c:{self.game_id}:{self.action}:{self.tries}"


@dataclass(frozen=True, slots=True)
class BoardPress:
    """A press on a game's board: "history", "rules" or "vote"."""

    game_id: str
    action: str

    def data(self) -> str:
        return f"b:{self.game_id}:{self.action}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A press that starts a game with a preset in a mode, and with an emoji set unless it is the usual one."""

    preset: str
    mode: str
    emoji_set: str = ""

    def data(self) -> str:
        return f"p:{self.preset}:{self.mode}:{self.emoji_set}".removesuffix(":")


@dataclass(frozen=True, slots=True)
class EndPress:
    """The confirmation that a group's game shall end, which was asked for in private."""

    game_id: str

    def data(self) -> str:
        return f"e:{self.game_id}"


Press = ComposerPress | BoardPress | EndPress | Proposal


def read_press(data: str | None) -> Press | None:
    """What a button meant; None for data that none of today's buttons carries."""
    if not data or len(data.encode(errors="replace")) > MAX_BYTES:
        return None
    if (match := _COMPOSER.fullmatch(data)) and input_checks.game_id(match[1]):
        return ComposerPress(match[1], match[2], int(match[3]))
    if (match := _BOARD.fullmatch(data)) and input_checks.game_id(match[1]):
        return BoardPress(match[1], match[2])
    if (match := _END.fullmatch(data)) and input_checks.game_id(match[1]):
        return EndPress(match[1])
    if match := _PROPOSAL.fullmatch(data):
        return Proposal(match[1], match[2], match[3] or "")
    return None
