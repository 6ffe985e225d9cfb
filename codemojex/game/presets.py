"""Settings of a game and the presets they start from.

A `GameSettings` value that exists is valid: every check happens when it is made, and the error names the setting, the
value and what is allowed. The palette travels inside the settings, so a finished game stays readable when a set
changes. Room defaults and who may change them are decided elsewhere.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, TypedDict, Unpack, cast, get_args

from codemojex.game import fields
from codemojex.game.emoji import canonical, clusters
from codemojex.game.sets import EMOJI_SETS

Mode = Literal["race", "team", "solo"]
FeedbackPart = Literal["total", "pegs", "tiles"]

MODES: tuple[Mode, ...] = get_args(Mode)
FEEDBACK_PARTS: tuple[FeedbackPart, ...] = get_args(FeedbackPart)
LENGTHS = range(3, 9)
PALETTE_LIMIT = 24
TRIES_LIMIT = 100
DURATION_LIMIT_S = 7 * 24 * 60 * 60


class GameSettingsError(ValueError):
    """A setting is outside what the game allows."""

    def __init__(self, setting: str, sentence: str) -> None:
        super().__init__(f"{setting}: {sentence}")
        self.setting = setting


@dataclass(frozen=True, slots=True)
class GameSettings:
    """The rules of one game.

    `palette`: the canonical tokens a code is made of. `feedback`: what a scored guess shows; empty means blind.
    `tries`: for each player, or for everybody together in team mode. `duration_s`: from the opening to the deadline.
    Raises `GameSettingsError`.
    """

    preset: str
    mode: Mode
    set_name: str
    palette: tuple[str, ...]
    length: int
    feedback: frozenset[FeedbackPart]
    tries: int
    duration_s: int

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        for part in sorted(self.feedback):
            _one_of("feedback", part, FEEDBACK_PARTS)
        _between("length", self.length, LENGTHS.start, LENGTHS.stop - 1)
        _between("tries", self.tries, 1, TRIES_LIMIT)
        _between("duration_s", self.duration_s, 1, DURATION_LIMIT_S)
        _between("palette", len(self.palette), self.length, PALETTE_LIMIT, "emojis")
        for token in self.palette:
            if not token or token != canonical(token) or len(clusters(token)) != 1:
                raise GameSettingsError("palette", f"{token!r} is not one canonical emoji; pass it through canonical()")
        if len(set(self.palette)) != len(self.palette):
            raise GameSettingsError("palette", "an emoji stands in it twice; every emoji must be distinct")

    @property
    def blind(self) -> bool:
        """Whether players see nothing about their guesses until the end."""
        return not self.feedback

    def to_data(self) -> dict[str, object]:
        """Give the settings as a JSON object, always with the same order of keys and parts."""
        return {
            "preset": self.preset,
            "mode": self.mode,
            "set": self.set_name,
            "palette": list(self.palette),
            "length": self.length,
            "feedback": [part for part in FEEDBACK_PARTS if part in self.feedback],
            "tries": self.tries,
            "duration_s": self.duration_s,
        }

    @classmethod
    def from_data(cls, data: fields.Data) -> "GameSettings":
        """Read settings back; fields of a newer version are ignored. Raises `DataError` or `GameSettingsError`."""
        return cls(
            preset=fields.text(data, "preset"),
            mode=cast("Mode", fields.text(data, "mode")),
            set_name=fields.text(data, "set"),
            palette=fields.texts(data, "palette"),
            length=fields.whole(data, "length"),
            feedback=cast("frozenset[FeedbackPart]", frozenset(fields.texts(data, "feedback"))),
            tries=fields.whole(data, "tries"),
            duration_s=fields.whole(data, "duration_s"),
        )


@dataclass(frozen=True, slots=True)
class Preset:
    """A named starting point for settings."""

    name: str
    length: int
    palette_size: int
    feedback: frozenset[FeedbackPart]
    tries: int
    duration_s: int


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "quick": Preset("quick", 4, 8, frozenset({"tiles"}), tries=8, duration_s=10 * 60),
        "classic": Preset("classic", 6, 12, frozenset({"total", "pegs"}), tries=12, duration_s=60 * 60),
        "expert": Preset("expert", 6, 24, frozenset({"total"}), tries=15, duration_s=24 * 60 * 60),
        "blind": Preset("blind", 6, 12, frozenset(), tries=3, duration_s=24 * 60 * 60),
    }
)


class Overrides(TypedDict, total=False):
    """What may differ from a preset; `palette` (tokens, any spelling) wins over `set_name` and `palette_size`."""

    set_name: str
    palette: Sequence[str]
    palette_size: int
    length: int
    feedback: Collection[FeedbackPart]
    tries: int
    duration_s: int


DEFAULT_SET = "fruit"


def settings_for(preset: str, mode: Mode = "race", **overrides: Unpack[Overrides]) -> GameSettings:
    """Make settings from a preset; the palette is the beginning of the emoji set unless given.

    Raises `GameSettingsError` for an unknown preset, mode, set or override (with the closest name), and for a value out
    of range.
    """
    _one_of("preset", preset, PRESETS)
    for name in overrides:
        _one_of("override", name, tuple(Overrides.__annotations__))
    start = PRESETS[preset]
    set_name = overrides.get("set_name", DEFAULT_SET)
    palette = overrides.get("palette")
    if palette is None:
        _one_of("set_name", set_name, EMOJI_SETS)
        size = overrides.get("palette_size", start.palette_size)
        _between("palette_size", size, LENGTHS.start, PALETTE_LIMIT)
        palette = EMOJI_SETS[set_name].tokens[:size]
    return GameSettings(
        preset=preset,
        mode=mode,
        set_name=set_name,
        palette=tuple(canonical(token) for token in palette),
        length=overrides.get("length", start.length),
        feedback=frozenset(overrides.get("feedback", start.feedback)),
        tries=overrides.get("tries", start.tries),
        duration_s=overrides.get("duration_s", start.duration_s),
    )


def _one_of(setting: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        close = get_close_matches(str(value), list(allowed), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(allowed)}"
        raise GameSettingsError(setting, f"{value!r} is not known; {hint}")


def _between(setting: str, value: int, low: int, high: int, unit: str = "") -> None:
    # JSON and callers outside the type checker can bring a bool or a float here.
    if type(value) is not int or not low <= value <= high:
        raise GameSettingsError(
            setting, f"{value} is not allowed; use a whole number from {low} to {high} {unit}".rstrip()
        )
