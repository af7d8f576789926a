"""What all tests may use: a real server, and names of their own on it."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.servers import RedisServer
from tests.started import none_left


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_by_the_session() -> Iterator[None]:
    """Kill what fixtures of modules and of the session started and did not end."""
    with none_left():
        yield


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Kill what the test started and did not end; fixtures of wider scopes have started theirs before."""
    with none_left():
        yield


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that all tests share; to be killed it must be one of the test's own (`tests.servers`)."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
def key_prefix() -> str:
    """A key prefix that nobody else on the server has."""
    return f"t{secrets.token_hex(6)}"


@pytest_asyncio.fixture
async def redis(redis_url: str) -> AsyncIterator["Redis"]:
    """A plain client to the shared server, to look into it and to break things; answers are bytes."""
    async with Redis.from_url(redis_url) as client:
        yield client
