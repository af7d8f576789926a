from collections.abc import AsyncIterator

import pytest_asyncio

from tests.e2e.processes import Gateway, running_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway() -> AsyncIterator[Gateway]:
    """A gateway for all tests of a module; each takes topics of its own."""
    async with running_gateway() as gateway:
        yield gateway
