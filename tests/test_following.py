"""Gateways that are not up yet."""

import asyncio
import logging
from typing import Any

import pytest

from gateway.errors import CommandError
from gateway.following import subscribe
from gateway.mirror import Mirror
from tests.protocol_server import ProtocolServer, no_waiting, protocol_server

EPOCH = "aB3dE6gH"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", no_waiting)


def snapshot(offset: int) -> dict[str, Any]:
    return Mirror("t", EPOCH, offset).snapshot()


async def joined(server: ProtocolServer, *, offset: int = 4) -> None:
    """Answer a subscribe command with a snapshot."""
    command = await server.command("subscribe")
    await command.reply({"epoch": EPOCH, "offset": offset, "data": {"snapshot": snapshot(offset)}})


async def test_subscribe_waits_for_a_token() -> None:
    made = iter((None, "second", "third"))

    async def make() -> str:
        token = next(made)
        if token is None:
            raise OSError("away")
        return token

    async with protocol_server() as server:
        updates = subscribe(server.url, "t", token=make)
        first = asyncio.create_task(anext(updates))
        await joined(server)
        assert (await first).position.offset == 4
        assert server.connected == [{"token": "second"}]
        await updates.aclose()


async def test_subscribe_waits_for_a_gateway_that_is_not_up_yet(caplog: pytest.LogCaptureFixture) -> None:
    tried = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tried.set()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as nobody:
        port = nobody.sockets[0].getsockname()[1]
        updates = subscribe(f"http://127.0.0.1:{port}", "t")
        first = asyncio.ensure_future(anext(updates))
        await tried.wait()
    async with protocol_server(port) as server:
        await joined(server, offset=4)
        assert (await first).position.offset == 4
        await updates.aclose()
    told = [one for one in caplog.records if one.name == "gateway.following" and one.levelno >= logging.WARNING]
    assert [one.getMessage().rpartition(" ")[2] for one in told] == ["it", "there"]


async def test_subscribe_raises_what_is_for_good() -> None:
    async with protocol_server() as server:
        server.refuse_connect = {"code": 101, "message": "unauthorized"}
        with pytest.raises(CommandError):
            await anext(subscribe(server.url, "t", token="refused"))
