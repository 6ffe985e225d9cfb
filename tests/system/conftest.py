"""A running product for the tests of one module, and fresh people in it for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from codemojex.store.engine import Store, close, open_store
from tests.support.telegram import People
from tests.system.company import Company
from tests.system.product import Product


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """The product with its usual settings; it must end well when the module is done."""
    product = Product()
    try:
        yield product.start()
        assert product.interrupt().code == 0, product.output
    finally:
        product.close()


@pytest_asyncio.fixture
async def people(product: Product) -> AsyncIterator[People]:
    async with People(product.url) as people:
        yield people


@pytest_asyncio.fixture
async def company(people: People) -> Company:
    return await Company.gather(people)


@pytest_asyncio.fixture
async def store(product: Product) -> AsyncIterator[Store]:
    """The product's own archive, while the product writes it."""
    store = await open_store(product.database)
    yield store
    await close(store)
