"""A store has one name for ever; a claim is kept whole or not at all, and claims come one after the other."""

import asyncio
from datetime import UTC, datetime

import pytest

from codemojex.store import deployment
from codemojex.store.deployment import Deployment
from codemojex.store.engine import Store


async def test_the_name_is_made_once_also_by_many_at_once(store: Store):
    names = {held.store for held in await asyncio.gather(*(deployment.read(store) for _ in range(4)))}
    assert len(names) == 1
    assert await deployment.read(store) == Deployment(names.pop())


async def test_a_claim_is_kept_and_one_that_raises_is_not(store: Store):
    now = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    async with deployment.claiming(store) as held:
        held.bot_id, held.namespace, held.bus, held.place, held.seen_at = 2**62, "", "b" * 32, "valkey://a", now
    kept = await deployment.read(store)
    assert kept == Deployment(kept.store, 2**62, "", "b" * 32, "valkey://a", now)
    with pytest.raises(KeyError):
        async with deployment.claiming(store) as held:
            held.bus = "c" * 32
            raise KeyError
    assert await deployment.read(store) == kept


async def test_claims_come_one_after_the_other(store: Store):
    async def count() -> None:
        async with deployment.claiming(store) as held:
            before = held.bot_id or 0
            await asyncio.sleep(0)
            held.bot_id = before + 1

    await asyncio.gather(*(count() for _ in range(4)))
    assert (await deployment.read(store)).bot_id == 4
