"""Work that commits together with an acknowledgement.

An `EffectBody` is a piece of Lua that a settlement script carries; an `Effect` is one use of it, with its keys and
arguments. It runs after the job's fence and before its row goes, so the result is written exactly when the job is
ended. Its keys must lie in the queue's slot. A stale token runs no effect; a body that raises leaves its job unsettled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .connector import Arg
from .scripts import EffectBody

__all__ = ["Effect", "EffectBody"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One use of the body called `name`: it sees `keys` as KEYS and `args` as ARGV, and nothing else of the command."""

    name: str
    keys: Sequence[str] = ()
    args: Sequence[Arg] = ()
