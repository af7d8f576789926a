from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.broker.redis import RedisBroker


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def other(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    """The connection of another process."""
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()
