"""A gateway, and the npm clients in a process that serves all tests."""

import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.publisher import Publisher
from tests.dialects.clients import JS, Node
from tests.serving import PATIENCE, Gateway, serve
from tests.started import remember


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: `make test` installs it")
    if not (JS / "node_modules" / "@ag-ui" / "client").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, check=True)
    node = Node()
    remember(node.process.pid)
    yield node
    node.close()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.http, trust_env=False, timeout=PATIENCE) as client:
        yield client


@pytest_asyncio.fixture
async def publisher(redis_url: str, key_prefix: str) -> AsyncIterator[Publisher]:
    async with contextlib.AsyncExitStack() as stack:
        yield await stack.enter_async_context(Publisher(redis_url, key_prefix=key_prefix))


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    async with contextlib.aclosing(RedisBroker(redis_url, key_prefix=key_prefix)) as broker:
        yield broker
