"""Loads Lua commands: one file a command, a checked header, shared fragments expanded once.

A header names the keys, the arguments, the reply and every refusal; the loader refuses a file whose header is
incomplete or whose includes are unknown. Other packages keep commands of their own and may include the engine's
fragments, so that a job is admitted by the same text wherever it happens. No server-side function library.

    --- claim: one line that says what the command does
    --- Keys: P (the queue's prefix)
    --- Args: n, lease_ms
    --- Returns: what comes back
    --- Refuses: EMQKIND … (or: nothing)
    --- Include: now, ring            (optional)
    --- Effects                       (optional, on a line of its own: effect bodies are spliced in here)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from codemojex.engine import validation
from codemojex.engine.errors import ScriptDefect

_HEADER = ("Keys", "Args", "Returns", "Refuses")
_LINE = re.compile(r"^---\s?(.*)$")
_FIELD = re.compile(r"^(Keys|Args|Returns|Refuses|Include):\s*(.*)$")
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")
_EFFECTS_LINE = "--- Effects"
_FRAGMENTS = "include"
_EFFECTS = "effect"


@dataclass(frozen=True, slots=True)
class EffectBody:
    """Lua statements that a settlement script runs after the fence and before the row goes.

    They see `KEYS` and `ARGV` of the one use (`Effect`), may `return` a reply, and must check everything before their
    first write: a script is not rolled back.
    """

    name: str
    lua: str

    def __post_init__(self) -> None:
        validation.text("lua", self.lua)
        if not _NAME.fullmatch(validation.text("name", self.name)):
            raise ScriptDefect(f"effect name {self.name!r} is not valid: use a-z, 0-9 and _")


@dataclass(frozen=True, slots=True)
class Script:
    """One command, ready to run: `source` is the whole text, `sha` its SHA-1 as the server computes it."""

    name: str
    source: str
    sha: str
    summary: str
    keys: str
    args: str
    returns: str
    refuses: str


@dataclass(frozen=True, slots=True)
class Fragment:
    """What the header of a shared fragment says."""

    name: str
    summary: str
    keys: str
    args: str
    returns: str
    refuses: str


@dataclass(frozen=True, slots=True)
class Library:
    """The Lua commands of one package, in `lua/` or in rooms below it; its fragments in `lua/include/`, with rooms too.

    A name is unique in the package, whichever room its file stands in.
    """

    package: str

    def script(self, name: str, effects: Sequence[EffectBody] = ()) -> Script:
        """The command `name`, with `effects` spliced in. Raises ScriptDefect for a file that breaks the rules."""
        bodies = validation.many("effects", effects, EffectBody)
        return _load(self.package, name, tuple(sorted(bodies, key=lambda e: e.name)))

    def names(self) -> list[str]:
        """Every command of the package, sorted."""
        return sorted(_files(self.package, ""))

    def fragments(self) -> list[Fragment]:
        """Every fragment of the package, by name; commands' headers refer to them."""
        names = _files(self.package, _FRAGMENTS)
        headers = [(name, _parse(f"include/{name}", _read(self.package, name, _FRAGMENTS))[0]) for name in names]
        return [
            Fragment(name, h["summary"], h["Keys"], h["Args"], h["Returns"], h["Refuses"])
            for name, h in sorted(headers, key=lambda header: header[0])
        ]

    def body(self, name: str) -> EffectBody:
        """The effect kept in `lua/effect/<name>.lua`, its includes expanded."""
        text = _read(self.package, name, _EFFECTS)
        fields, body = _parse(f"effect/{name}", text)
        return EffectBody(name, _expand(self.package, fields.get("Include", ""), set()) + body)


ENGINE = Library("codemojex.engine")


@cache
def _load(package: str, name: str, effects: tuple[EffectBody, ...]) -> Script:
    text = _read(package, name, "")
    fields, body = _parse(name, text)
    if effects and _EFFECTS_LINE not in text:
        raise ScriptDefect(f"script {name!r} takes no effects: it has no line {_EFFECTS_LINE!r}")
    spliced = "local effects = {}\n" + "".join(
        f"effects[{effect.name!r}] = function(KEYS, ARGV)\n{effect.lua}\nend\n" for effect in effects
    )
    body = body.replace(_EFFECTS_LINE, spliced)
    source = _expand(package, fields.get("Include", ""), set()) + body
    return Script(
        name,
        source,
        hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(),
        fields["summary"],
        fields["Keys"],
        fields["Args"],
        fields["Returns"],
        fields["Refuses"],
    )


def _files(package: str, kind: str) -> dict[str, Traversable]:
    """The Lua files of one kind ("" for commands) by name, from `lua/` and every room in it."""
    top = files(package) / "lua" / kind if kind else files(package) / "lua"
    folders = [top, *(entry for entry in _entries(top) if entry.is_dir() and entry.name not in (_FRAGMENTS, _EFFECTS))]
    found = [entry for folder in folders for entry in _entries(folder) if entry.name.endswith(".lua")]
    by_name = {entry.name.removesuffix(".lua"): entry for entry in found}
    if len(by_name) < len(found):
        raise ScriptDefect(f"{package} has two Lua files of one name in lua/{kind}: names are unique over all rooms")
    return by_name


def _entries(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda entry: entry.name) if folder.is_dir() else []


def _read(package: str, name: str, kind: str) -> str:
    resource = _files(package, kind).get(name)
    if resource is None:
        raise ScriptDefect(f"{package} has no Lua file {f'{kind}/{name}'.lstrip('/')}.lua")
    return resource.read_text(encoding="utf-8")


def _parse(name: str, text: str) -> tuple[dict[str, str], str]:
    """The header's fields and the text below the header."""
    fields: dict[str, str] = {}
    current = ""
    lines = text.splitlines()
    end = 0
    for end, line in enumerate(lines):
        match = _LINE.match(line)
        if not match or line == _EFFECTS_LINE:
            break
        content = match.group(1).strip()
        field = _FIELD.match(content)
        if end == 0:
            head, _, summary = content.partition(":")
            if head != name.rpartition("/")[2] or not summary.strip():
                raise ScriptDefect(f"{name}.lua must begin with '--- {name.rpartition('/')[2]}: what it does'")
            fields["summary"] = summary.strip()
            current = "summary"
        elif field:
            current = field.group(1)
            fields[current] = field.group(2)
        else:
            fields[current] += " " + content
    if "summary" not in fields:
        raise ScriptDefect(f"{name}.lua has no header")
    missing = [f for f in _HEADER if not fields.get(f, "").strip()]
    if missing:
        raise ScriptDefect(f"{name}.lua: the header lacks {', '.join(missing)}")
    return fields, "\n".join(lines[end:]) + "\n"


def _expand(package: str, include: str, seen: set[str]) -> str:
    """The fragments named in `include`, each once, those they need themselves first."""
    out: list[str] = []
    for name in (part.strip() for part in include.split(",") if part.strip()):
        if name in seen:
            continue
        seen.add(name)
        own = name in _files(package, _FRAGMENTS)
        fields, body = _parse(f"include/{name}", _read(package if own else ENGINE.package, name, _FRAGMENTS))
        out.append(_expand(package, fields.get("Include", ""), seen) + body)
    return "".join(out)
