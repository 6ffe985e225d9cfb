"""Locks: a player's pinned emojis, which complete a shorter guess until they are unlocked.

Locks are a plain mapping from position (counted from 0) to token; the functions here return new mappings and never
change the one given. They say nothing about where a player's locks are kept.
"""

from collections.abc import Mapping, Sequence


def pin(locks: Mapping[int, str], position: int, token: str, length: int) -> dict[int, str]:
    """Pin `token` at `position` of a code of `length`; a pin of the same emoji elsewhere moves here.

    Raises `ValueError` when the position is outside the code.
    """
    if not 0 <= position < length:
        raise ValueError(f"position {position + 1} is outside a code of {length}; choose 1 to {length}")
    kept = {place: pinned for place, pinned in locks.items() if pinned != token}
    return dict(sorted({**kept, position: token}.items()))


def unpin(locks: Mapping[int, str], position: int | None = None) -> dict[int, str]:
    """Remove the pin at `position`, or every pin when it is `None`; a position without a pin changes nothing."""
    return {} if position is None else {place: token for place, token in locks.items() if place != position}


def slots(locks: Mapping[int, str], typed: Sequence[str], length: int) -> tuple[str | None, ...]:
    """Lay pinned and typed emojis out over the code; `None` marks a position that is still free.

    Typed emojis take the free positions from the left; those that find no room are left out.
    """
    rest = iter(typed)
    return tuple(locks[place] if place in locks else next(rest, None) for place in range(length))


def fill(locks: Mapping[int, str], typed: Sequence[str], length: int) -> tuple[str, ...] | None:
    """Complete a guess with the pinned emojis.

    A guess of full length is returned as typed, whatever is pinned. `None` when pinned and typed emojis together do not
    make exactly one code of `length`.
    """
    if len(typed) == length:
        return tuple(typed)
    inside = {place: token for place, token in locks.items() if 0 <= place < length}
    if len(inside) + len(typed) != length:
        return None
    return tuple(token for token in slots(inside, typed, length) if token is not None)
