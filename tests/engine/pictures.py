"""The pictures of keys in the documentation: taken from a real server, compared with the pages, written into them.

A page is a story: its Python blocks run in order, and a block of the kind `keys` shows what the server holds at that
point. The words behind `keys` choose the keys, with `*` for any text; a pattern that matches nothing is shown as
absent. An id is called after the variable that holds it, others are counted; times are told from the page's start T.
`python -m tests.engine.pictures` names the pages that are stale, `--write` puts them right.
"""

from __future__ import annotations

import asyncio
import fnmatch
import random
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemojex.engine import ids
from codemojex.engine.ids import Minter
from codemojex.engine.transport.connector import Connector
from tests.architecture.sources import ROOT
from tests.support.pages import blocks, run
from tests.support.valkey import ValkeyServer

QUEUE = "q"
DATABASE = 15  # of the pages alone: each begins with an empty one
TOLERANCE_S = 20  # a busy machine takes its time from one block to the next
_WIDTH = 140
_NEAR_MS = 400 * 86_400_000
_MOMENT = re.compile(r"T([+-]\d+)(s|min|h|d)\b")
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_ID = re.compile(r"\b[A-Z]{3}[0-9A-Za-z]{11}\b")
_STREAM_ID = re.compile(r"\b(1\d{12}-\d+)\b")
_MS = re.compile(r"\b1\d{12}(?:\.\d+)?\b")
_FRAME = re.compile(r"^EC1([VNT])(\d{20})\d{16}")  # kind and version; the expiry is spread at random
_TOKEN = re.compile(r"\b[0-9a-f]{16}\b")


def pages() -> list[Path]:
    """Every page of the documentation with a picture."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in found if blocks(page.read_text(encoding="utf-8"), "keys")]


async def develop(page: Path, url: str) -> str:
    """The page's text with every picture as it is now. Raises what its Python blocks raise."""
    text = page.read_text(encoding="utf-8")
    url = f"{url}?db={DATABASE}"
    bus = await Connector.connect(url)
    try:
        await bus.execute("FLUSHDB")
        random.seed(0)  # what the engine draws, a node number for example
        space: dict[str, Any] = {"URL": url, "bus": bus, "queue": QUEUE, "mint": Minter(1), "__name__": "page"}
        camera = Camera(bus, await _now_ms(bus))
        parts, end = list[str](), 0
        for block in blocks(text, "python", "keys"):
            if block.kind == "python":
                await run(block, page, space)
                camera.name(space)
            else:
                parts += [text[end : block.span[0]], await camera.picture(block.options or ("*",))]
                end = block.span[1]
        return "".join([*parts, text[end:]])
    finally:
        await bus.execute("FLUSHDB")
        await bus.close()


def differs(page_text: str, developed: str) -> list[str]:
    """The pictures that are not as the page shows them, as they should be; moments may be a little apart."""
    pairs = zip(blocks(page_text, "keys"), blocks(developed, "keys"), strict=True)
    return [now.text for shown, now in pairs if not _same(shown.text, now.text)]


def _same(shown: str, now: str) -> bool:
    shown_s, now_s = _seconds(shown), _seconds(now)
    return (
        _plain(shown) == _plain(now)
        and len(shown_s) == len(now_s)
        and all(abs(a - b) <= TOLERANCE_S for a, b in zip(shown_s, now_s, strict=True))
    )


def _plain(picture: str) -> str:
    """A picture without moments, and without the line breaks that depend on how long these are."""
    return re.sub(r"\s+", " ", _MOMENT.sub("T", picture))


def _seconds(picture: str) -> list[int]:
    return [int(number) * _UNITS[unit] for number, unit in _MOMENT.findall(picture)]


@dataclass
class Camera:
    """Takes pictures of one database; `start_ms` is T."""

    bus: Connector
    start_ms: int
    names: dict[str, str] = field(default_factory=dict[str, str])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def name(self, space: dict[str, Any]) -> None:
        """Call the ids that variables hold after them; the first name stays."""
        for variable, value in space.items():
            if isinstance(value, str) and ids.is_valid(value):
                self.names.setdefault(value, f"{value[:3]}-{variable}")

    async def picture(self, patterns: tuple[str, ...]) -> str:
        """The keys that match, in the order of the patterns. A pattern without a brace is one of the page's queue."""
        stored = await self._stored()
        rows = list[tuple[str, str, list[str]]]()
        for pattern in patterns:
            full = pattern if "{" in pattern else f"emq:{{{QUEUE}}}:{pattern}"
            found = [name for name in sorted(stored) if fnmatch.fnmatchcase(name, full.replace("[", "[[]"))]
            rows += [(name, *stored.pop(name)) for name in found] or [(full, "–", [])]
        wide = max(len(name) for name, _, _ in rows)
        lines = [line for row in rows for line in _lines(wide, *row)]
        return "".join(f"{line.rstrip()}\n" for line in lines)

    async def _stored(self) -> dict[str, tuple[str, list[str]]]:
        """Every key by its readable name: its type and its content."""
        keys = sorted(await self.bus.execute("KEYS", "*"))
        taken = {key: await self._content(key) for key in keys}
        return {self._text(key): content for key, content in taken.items() if content is not None}

    async def _content(self, key: bytes) -> tuple[str, list[str]] | None:
        kind = (await self.bus.execute("TYPE", key)).decode()
        parts: list[str]
        if kind == "hash":
            parts = [await self._hash(key)]
        elif kind == "zset":
            members = await self.bus.execute("ZRANGE", key, 0, -1, "WITHSCORES")
            parts = [" · ".join(f"{self._text(member)} {self._score(score)}" for member, score in members)]
        elif kind == "stream":
            parts = await self._stream(key)
        elif kind == "list":
            parts = [" · ".join(self._text(item) for item in await self.bus.execute("LRANGE", key, 0, -1))]
        elif kind == "set":
            parts = [" · ".join(sorted(self._text(item) for item in await self.bus.execute("SMEMBERS", key)))]
        elif kind == "string":
            parts = [self._text(await self.bus.execute("GET", key))]
        else:
            return None  # expired meanwhile
        end = await self.bus.execute("PEXPIRETIME", key)
        if end > 0 and not key.startswith(b"ecc:"):  # a cache spreads its life times at random
            parts[-1] += f"  (until {self._moment(end)})"
        return kind, parts

    async def _hash(self, key: bytes) -> str:
        fields = await self.bus.execute("HGETALL", key)
        ends = await self.bus.execute("HPEXPIRETIME", key, "FIELDS", len(fields), *fields)
        return " ".join(
            f"{self._text(name)}={self._text(value)}" + (f" (until {self._moment(end)})" if end > 0 else "")
            for (name, value), end in zip(fields.items(), ends, strict=True)
        )

    async def _stream(self, key: bytes) -> list[str]:
        entries = list[str]()
        for entry_id, flat in await self.bus.execute("XRANGE", key, "-", "+"):
            place, texts = self._text(entry_id), [self._text(part) for part in flat]
            pairs = list(zip(texts[::2], texts[1::2], strict=True))
            entries.append(" ".join([place, *(f"{name}={value}" for name, value in pairs if value != place)]))
        parts = [" · ".join(entries) or "(no record)"]
        for group in await self.bus.execute("XINFO", "GROUPS", key):
            name = group[b"name"].decode()
            pending = await self.bus.execute("XPENDING", key, name, "-", "+", 100)
            held = ", ".join(f"{self._text(i)} at {who.decode()} ({n}×)" for i, who, _, n in pending)
            parts.append(f"group {name} read up to {self._text(group[b'last-delivered-id'])}, pending: {held or '–'}")
        return parts

    def _score(self, score: float) -> str:
        return self._moment(score) if abs(score - self.start_ms) < _NEAR_MS else f"{score:g}"

    def _text(self, raw: bytes) -> str:
        text = raw.decode(errors="backslashreplace").replace("\0", "␀")
        text = _FRAME.sub(lambda frame: f"{frame[1]}, version {int(frame[2])}: ", text)
        text = _STREAM_ID.sub(self._record, text)
        text = _ID.sub(lambda found: self._id(found[0]), text)
        text = _MS.sub(lambda found: self._score(float(found[0])), text)
        return _TOKEN.sub("<token>", text)

    def _record(self, found: re.Match[str]) -> str:
        """A record's branded id for its stream id, which is the same number; not so in the log of a cache."""
        branded = ids.from_stream_id("EVT", found[1])
        return branded if ids.parse(branded).node else found[1]

    def _id(self, text: str) -> str:
        if not ids.is_valid(text):
            return text
        if text not in self.names:
            self.counts[text[:3]] = self.counts.get(text[:3], 0) + 1
            self.names[text] = f"{text[:3]}-{self.counts[text[:3]]}"
        return self.names[text]

    def _moment(self, unix_ms: float) -> str:
        seconds = int(unix_ms - self.start_ms) // 1000
        if seconds > 60 and seconds % 60 < 5:  # the page's own run took so long
            seconds -= seconds % 60
        unit = "s" if seconds < 60 else next(u for u in ("d", "h", "min", "s") if seconds % _UNITS[u] == 0)
        return f"T{seconds // _UNITS[unit]:+}{unit}"


def _lines(wide: int, name: str, kind: str, parts: list[str]) -> Iterator[str]:
    """A key's lines: long content goes on below itself."""
    head, indent = f"{name:{wide}}  {kind:6}  ", " " * (wide + 10)
    for part in parts or [""]:
        for line in textwrap.wrap(part, max(40, _WIDTH - len(indent)), break_on_hyphens=False) or [""]:
            yield head + line
            head = indent


async def _now_ms(bus: Connector) -> int:
    seconds, micros = await bus.execute("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def _main(write: bool) -> int:
    server, stale = ValkeyServer(), 0
    try:
        url = server.start().url
        for page in pages():
            text = page.read_text(encoding="utf-8")
            developed = await develop(page, url)
            if differs(text, developed):
                stale += 1
                print(page.relative_to(ROOT), "written" if write else "is stale")
                if write:
                    page.write_text(developed, encoding="utf-8")
    finally:
        server.close()
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main("--write" in sys.argv[1:])))
