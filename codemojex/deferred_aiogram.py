"""Imports aiogram with its models deferred: each is completed when it is first used.

aiogram completes all its 600 models one by one while it is imported: seconds of every start, and twice the memory, for
a bot that uses a few dozen. A program calls `load` before anything imports aiogram; later it does nothing, and the
program has the same models and has waited for them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

__all__ = ["load"]


def load() -> None:
    """Import aiogram, unless it is imported."""
    if "aiogram" in sys.modules:
        return
    names: dict[str, Any] = {}  # what the annotations of aiogram's models refer to
    completed: set[type[BaseModel]] = set()  # pydantic itself forgets `Response[Message]` between two answers
    config = cast("dict[str, Any]", BaseModel.model_config)
    complete = BaseModel.__dict__["model_rebuild"]

    def note(cls: type[BaseModel], *, _types_namespace: Mapping[str, Any], **_: Any) -> None:
        names.update(_types_namespace)

    def complete_with_names(cls: type[BaseModel], **options: Any) -> bool | None:
        completed.add(cls)
        return complete.__func__(cls, **{"_types_namespace": names} | options)

    config["defer_build"] = True
    cast("Any", BaseModel).model_rebuild = classmethod(note)
    try:
        from aiogram.methods import base as methods
        from aiogram.types import base as types
    finally:
        cast("Any", BaseModel).model_rebuild = complete
        del config["defer_build"]
    for root in (types.TelegramObject, methods.TelegramMethod, methods.Request, methods.Response):
        cast("Any", root).model_rebuild = classmethod(complete_with_names)
