"""A Bot API whose updates are any text at all, and mutations of good updates: for what no Telegram would send."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

TOKEN = "4200000001:hostile-token-for-tests-00000000000"


class Hostile:
    """getUpdates of given texts: those from the offset on. `offset` is what the bot has confirmed."""

    def __init__(self, updates: list[tuple[int, str]]) -> None:
        self.updates = updates
        self.offset = 0
        self.limits: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        data = await request.post()
        self.offset = max(self.offset, int(str(data.get("offset", 0))))
        limit = int(str(data["limit"]))
        self.limits.append(limit)
        texts = [text for number, text in self.updates if number >= self.offset][:limit]
        return web.Response(text=f'{{"ok":true,"result":[{",".join(texts)}]}}', content_type="application/json")

    @property
    def confirmed(self) -> bool:
        return self.offset > self.updates[-1][0]


@asynccontextmanager
async def serving(hostile: Hostile) -> AsyncIterator[str]:
    """The server's address."""
    app = web.Application(client_max_size=10**8)
    app.router.add_post(f"/bot{TOKEN}/getUpdates", hostile.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**31, 2**63, -(2**63), 2**64, 10**400, 1.5, 1e308, float("nan"), "", "x", "0",
    "\ud83d", "\0", "\u202e", "🍎" + "\u0301" * 4_000, "g_GAMzzzzzzzzzzz", [], [[]], [None], {}, {"id": None},
    {"id": "x"}, {"id": -(2**70)}, {"id": 2**70, "type": "group"},
)  # fmt: skip


def mutate(update: dict[str, Any], random_: random.Random) -> dict[str, Any]:
    """One to three changes anywhere in the update: a field is gone, odd, or stands in another's place."""
    changed = copy.deepcopy(update)
    for _ in range(random_.randint(1, 3)):
        spots = list(_spots(changed))
        if not spots:
            break
        holder, name = random_.choice(spots)
        kind = random_.random()
        if kind < 0.3 and isinstance(holder, dict):
            del holder[name]
        elif kind < 0.9:
            holder[name] = copy.deepcopy(random_.choice(ODD))
        else:
            other, its = random_.choice(spots)
            holder[name] = copy.deepcopy(other.get(its) if isinstance(other, dict) else other[its])
    return changed


def _spots(thing: Any) -> Any:
    pairs = thing.items() if isinstance(thing, dict) else enumerate(thing)
    for name, value in list(pairs):
        if name != "update_id":
            yield thing, name
        if isinstance(value, dict | list):
            yield from _spots(value)


def text_of(update: object) -> str:
    """Its JSON, half surrogates and NaN included."""
    return json.dumps(update)
