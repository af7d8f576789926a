"""A broker on the shared server, under names of its own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.broker.keys import Keys
from gateway.broker.redis import RedisBroker
from gateway.types import Topic

TOPIC = Topic("chat:42/a@b")


@pytest.fixture
def keys(key_prefix: str) -> tuple[str, ...]:
    """The six keys of `TOPIC`: state, events, open, snap, archive, blobs."""
    return Keys(key_prefix).of(TOPIC)


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()
