"""A gateway, its broker, and readers of streams by hand."""

import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from tests.dialects.conftest import node
from tests.serving import PATIENCE, Gateway, serve

__all__ = ["broker", "http", "node", "served"]


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.http, trust_env=False, timeout=PATIENCE) as client:
        yield client


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    async with contextlib.aclosing(RedisBroker(redis_url, key_prefix=key_prefix)) as broker:
        yield broker
