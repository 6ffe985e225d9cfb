"""The package's own Lua commands and effects, as the engine's loader sees them."""

from __future__ import annotations

from codemojex.engine.scripts import Library

LUA = Library("codemojex.play")
