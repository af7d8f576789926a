"""Commands while the store, or the gateway, is away; real ones."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.processes import Gateway, Process
from tests.servers import RedisServer

COMMANDS = [
    ["topics"],
    ["publish", "t", "{}"],
    ["send", "t", "hi"],
    ["cancel", "t"],
    ["decide", "t", "approve"],
    ["tail", "t", "--no-follow"],
    ["tail", "t", "--from", "3"],
]


@pytest.fixture
def store(tmp_path: Path) -> RedisServer:
    return RedisServer(tmp_path / "store")


@pytest_asyncio.fixture
async def gateway(store: RedisServer) -> AsyncIterator[Gateway]:
    with store:
        gateway = Gateway(store.url, "--drain", "0")
        try:
            await gateway.start()
            yield gateway
        finally:
            await gateway.stop()


async def failed(gateway: Gateway, arguments: list[str]) -> str:
    """Run a command that must fail; gives its one line."""
    process = await Process.start(*arguments, "--url", gateway.url)
    code, out, err = await process.end()
    assert (code, out) == (1, ""), err
    warnings = [line for line in err.splitlines()[:-1] if "does not hear its broker" not in line]
    assert warnings == []
    return err.splitlines()[-1]


@pytest.mark.parametrize("how", ["dead", "silent"])
async def test_store_that_is_away_is_told(gateway: Gateway, store: RedisServer, how: str) -> None:
    with store.away() if how == "dead" else store.silent():
        for told in await asyncio.gather(*(failed(gateway, arguments) for arguments in COMMANDS)):
            assert "broker is away" in told


async def test_gateway_that_is_stopped_is_told(gateway: Gateway) -> None:
    assert gateway.process is not None
    with gateway.process.stopped():
        for told in await asyncio.gather(*(failed(gateway, arguments) for arguments in COMMANDS)):
            assert "no gateway answers at" in told
