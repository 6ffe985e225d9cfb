"""Writes a text so that the server's slow log cannot show it, neither as an argument of ours nor inside a script.

Of each argument the slow log (the command log since Valkey 9) keeps the first 128 bytes, a constant of the server that
no setting moves; a command that a script runs is logged like any other. So a text that nobody shall read there stands
behind 128 spaces, on its way and in its key. JSON does not mind them. A test lets a real server log every command.
"""

from __future__ import annotations

LOGGED = 128  # bytes of an argument that the server's logs keep


def hide(text: str) -> bytes:
    """`text`, which begins with no space, behind the spaces; in Lua `unlogged` takes them off again."""
    return (" " * LOGGED + text).encode()
