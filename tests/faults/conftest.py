"""One gateway, one publisher and the truth in Redis, for the tests that need no world of proxies."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.publisher import Publisher
from tests.faults.hurry import in_a_hurry
from tests.faults.store import Archive
from tests.serving import Gateway, serve


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_hurry(monkeypatch)


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str, _quick: None) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix, drain=0) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker, flush_interval=0) as publisher:
        yield publisher


@pytest.fixture
def archive(redis: "Redis", key_prefix: str) -> Archive:
    return Archive(redis, key_prefix)
