"""One connection, from its connect command to its close."""

import asyncio
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from gateway import client_socket
from gateway.client_socket import ClientSocket, websocket_url
from gateway.errors import CommandError, DisconnectCode, DisconnectError, UnreachableError
from tests.protocol_server import ProtocolServer, protocol_server


def ignore(_push: dict[str, Any], _size: int) -> None:
    pass


async def opened(server: ProtocolServer) -> ClientSocket:
    socket = ClientSocket(ignore)
    await socket.open(websocket_url(server.url), token=None)
    return socket


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000", "ws://127.0.0.1:8000/connection/websocket"),
        ("http://127.0.0.1:8000/", "ws://127.0.0.1:8000/connection/websocket"),
        ("https://example.org/agents", "wss://example.org/agents/connection/websocket"),
        ("wss://example.org/connection/websocket", "wss://example.org/connection/websocket"),
        ("ws://[::1]:80", "ws://[::1]:80/connection/websocket"),
        ("https://example.org/?a=b#c", "wss://example.org/connection/websocket?a=b"),
    ],
)
def test_websocket_url_of_an_address(url: str, expected: str) -> None:
    assert websocket_url(url) == expected


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "localhost", "ftp://example.org", "http://", "/path"])
def test_websocket_url_of_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected a gateway's address"):
        websocket_url(url)


async def test_open_without_a_reply_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_socket, "OPEN_PATIENCE", 0.3)

    async def say_nothing(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(say_nothing, "127.0.0.1", 0) as listening:
        (listener,) = listening.sockets
        socket = ClientSocket(ignore)
        with pytest.raises(UnreachableError, match="no reply to the connect command") as caught:
            await socket.open(f"ws://127.0.0.1:{listener.getsockname()[1]}", token=None)
        assert caught.value.temporary


async def test_open_that_is_closed_tells_the_code() -> None:
    async def refuse(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.close(3500, "invalid token")

    async with serve(refuse, "127.0.0.1", 0) as listening:
        (listener,) = listening.sockets
        with pytest.raises(DisconnectError, match="3500: invalid token"):
            await ClientSocket(ignore).open(f"ws://127.0.0.1:{listener.getsockname()[1]}", token=None)


async def test_ask_gives_the_body_or_raises_the_refusal() -> None:
    async with protocol_server() as server:
        socket = await opened(server)
        first, second = asyncio.create_task(socket.ask("rpc", {})), asyncio.create_task(socket.ask("rpc", {}))
        commands = [await server.command("rpc") for _ in range(2)]
        await commands[1].refuse(111, temporary=True)
        await commands[0].reply({"data": 1})
        assert await first == {"data": 1}
        with pytest.raises(CommandError) as caught:
            await second
        assert caught.value.temporary
        await socket.aclose()


async def test_ask_on_a_connection_that_ends_is_told() -> None:
    async with protocol_server() as server:
        socket = await opened(server)
        asking = asyncio.create_task(socket.ask("rpc", {}))
        await (await server.command("rpc")).close(3008, "slow")
        with pytest.raises(DisconnectError, match="3008: slow"):
            await asking
        with pytest.raises(DisconnectError, match="3008: slow"):
            await socket.ask("rpc", {})
        await socket.aclose()


async def test_close_without_a_word_is_1006() -> None:
    async with protocol_server() as server:
        socket = await opened(server)
        asking = asyncio.create_task(socket.ask("rpc", {}))
        (await server.command("rpc")).connection.transport.abort()
        with pytest.raises(DisconnectError) as caught:
            await asking
        assert caught.value.code == 1006
        await socket.aclose()


async def test_aclose_ends_it() -> None:
    async with protocol_server() as server:
        socket = await opened(server)
        await socket.aclose()
        assert socket.closed.result().code == 1000


async def test_silence_right_after_the_connect_reply_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_socket, "PING_PATIENCE", 0.1)
    async with protocol_server() as server:
        server.ping = {"ping": 0.1, "pong": True}
        socket = await opened(server)
        async with asyncio.timeout(20):
            assert (await socket.closed).code == DisconnectCode.NO_PONG
        await socket.aclose()
