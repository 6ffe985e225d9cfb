"""Keeps whose this store is: its own name, and the bot, the namespace and the server that play with it.

The name is random and made once, so it stays the same under every address. Who may claim the store is not decided
here.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from codemojex.store.engine import Store, reading, writing
from codemojex.store.tables import DeploymentRow

_ONE = 1


@dataclass(slots=True)
class Deployment:
    """Whose the store is. `bus` names the data of the server, `place` says where it was, `seen_at` when.

    Without a `bus` the store is nobody's yet; without a `bot_id` nobody with a token has started yet.
    """

    store: str
    bot_id: int | None = None
    namespace: str | None = None
    bus: str | None = None
    place: str | None = None
    seen_at: datetime | None = None


async def read(store: Store) -> Deployment:
    """Whose the store is now. The first call gives the store its name."""
    for _ in range(2):
        async with reading(store) as session:
            row = await session.scalar(select(DeploymentRow))
            if row is not None:
                return _of(row)
        try:
            async with writing(store) as session:
                session.add(DeploymentRow(id=_ONE, store=secrets.token_hex(16)))
        except IntegrityError:  # somebody else was first
            pass
    raise RuntimeError("the row of the table deployment vanishes")


@asynccontextmanager
async def claiming(store: Store) -> AsyncGenerator[Deployment]:
    """Whose the store is, locked until the block ends; what the block changes is kept unless it raises."""
    await read(store)
    async with writing(store) as session:
        row = (await session.scalars(select(DeploymentRow).with_for_update())).one()
        held = _of(row)
        yield held
        row.bot_id, row.namespace, row.bus = held.bot_id, held.namespace, held.bus
        row.place, row.seen_at = held.place, held.seen_at


def _of(row: DeploymentRow) -> Deployment:
    return Deployment(row.store, row.bot_id, row.namespace, row.bus, row.place, row.seen_at)
