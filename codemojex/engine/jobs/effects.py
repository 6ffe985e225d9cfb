"""Work that commits together with an acknowledgement.

An `EffectBody` is a piece of Lua that a settlement script carries; an `Effect` is one use of it, with its keys and
arguments. It runs after the job's fence and before its row goes, so the result is written exactly when the job is
ended. Its keys must lie in the queue's slot. A stale token runs no effect; a body that raises leaves its job unsettled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.scripts import EffectBody
from codemojex.engine.transport.connector import Arg

__all__ = ["Effect", "EffectBody"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One use of the body called `name`: it sees `keys` as KEYS and `args` as ARGV, and nothing else of the command.

    Raises InvalidValue for what cannot be sent as that.
    """

    name: str
    keys: Sequence[str] = ()
    args: Sequence[Arg] = ()

    def __post_init__(self) -> None:
        validation.text("the name of an effect", self.name)
        for what, values in (("keys", self.keys), ("args", self.args)):
            if isinstance(values, str | bytes) or not isinstance(values, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidValue(
                    f"the {what} of effect {self.name!r} are a {type(values).__name__}: use a list or tuple"
                )
        for key in self.keys:
            validation.text(f"a key of effect {self.name!r}", key)
        if not all(_sendable(value) for value in self.args):
            raise InvalidValue(
                f"args of effect {self.name!r}: use str, bytes, int and float only, text that UTF-8 has, finite numbers"
            )


def _sendable(value: object) -> bool:
    if isinstance(value, str):
        return validation.encodable(value)
    return isinstance(value, bytes) or type(value) is int or (type(value) is float and math.isfinite(value))
