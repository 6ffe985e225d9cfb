"""What pressing the composer's buttons does to a draft: pure functions on tokens, pins and a palette.

A draft is the typed emojis in order; pinned emojis stand in their places and the typed ones fill the rest from the
left. Where drafts are kept and shown is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codemojex.game.locks import fill, slots
from codemojex.game.presets import GameSettings

EMPTY_SLOT = "▫️"


@dataclass(frozen=True, slots=True)
class Drafted:
    """The draft after the press."""

    draft: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The press hands in this complete code."""

    code: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Complaint:
    """Nothing changes; `key` is the toast that says why."""

    key: str
    token: str = ""
    count: int = 0


def kept(draft: Sequence[str | None], locks: Mapping[int, str], settings: GameSettings) -> tuple[str, ...]:
    """What of a stored draft still fits the game and the pins."""
    pinned = set(locks.values())
    fitting = [token for token in draft if token is not None and token in settings.palette and token not in pinned]
    return tuple(fitting)[: settings.length - len(locks)]


def pins(locks: Mapping[int, str], settings: GameSettings) -> dict[int, str]:
    """What of stored pins still fits the game."""
    return {place: token for place, token in locks.items() if place < settings.length and token in settings.palette}


def press(
    action: str, draft: tuple[str, ...], locks: Mapping[int, str], settings: GameSettings
) -> Drafted | Ready | Complaint:
    """The effect of `action`: an index of the palette, "back", "clear" or "send"."""
    match action:
        case "back" | "clear" if not draft:
            return Complaint("pinned-toast" if locks else "empty-toast")
        case "back":
            return Drafted(draft[:-1])
        case "clear":
            return Drafted(())
        case "send":
            code = fill(locks, draft, settings.length)
            if code is None:
                return Complaint("missing-toast", count=settings.length - len(locks) - len(draft))
            return Ready(code)
        case _:
            return _append(int(action), draft, locks, settings)


def _append(
    index: int, draft: tuple[str, ...], locks: Mapping[int, str], settings: GameSettings
) -> Drafted | Complaint:
    if index >= len(settings.palette):
        return Complaint("outdated-toast")
    token = settings.palette[index]
    if len(locks) >= settings.length:
        return Complaint("pinned-toast")
    if token in draft or token in locks.values():
        return Complaint("used-toast", token=token)
    if len(draft) + len(locks) >= settings.length:
        return Complaint("full-toast")
    return Drafted((*draft, token))


def shown(draft: Sequence[str], locks: Mapping[int, str], length: int) -> str:
    """The code as far as it is known, an empty mark for every open place."""
    return " ".join(token or EMPTY_SLOT for token in slots(locks, draft, length))
