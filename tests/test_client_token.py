"""What a client shows of itself, against a server whose every answer the test gives."""

import asyncio
from typing import Any

import pytest

from gateway import client_socket
from gateway.client_socket import ClientSocket, websocket_url
from gateway.client_token import Token, present
from gateway.errors import CommandError, UnreachableError
from tests.protocol_server import ProtocolServer, protocol_server


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_socket, "RENEW_PAUSE", 0.01)


class Maker:
    """Makes tokens: "1", "2", …; fails where it is told to."""

    def __init__(self, *, failing: tuple[int, ...] = ()) -> None:
        self.made = 0
        self._failing = failing

    async def __call__(self) -> str:
        self.made += 1
        if self.made in self._failing:
            raise OSError("the key is secret")
        return str(self.made)


async def opened(server: ProtocolServer, token: Token, **lasting: Any) -> ClientSocket:
    server.ping = {**server.ping, **lasting}
    socket = ClientSocket(lambda _push, _size: None)
    await socket.open(websocket_url(server.url), token=token)
    return socket


async def test_token_is_shown_as_it_is_or_made() -> None:
    assert await present(None, url="u") is None
    assert await present("t", url="u") == "t"
    assert await present(Maker(), url="u") == "1"


async def test_token_that_cannot_be_made_is_told_without_what_may_be_secret() -> None:
    with pytest.raises(UnreachableError, match="no token could be made") as caught:
        await present(Maker(failing=(1,)), url="u")
    assert caught.value.temporary
    assert "secret" not in str(caught.value)


async def test_fresh_token_is_shown_before_each_one_expires() -> None:
    async with protocol_server() as server:
        socket = await opened(server, Maker(), expires=True, ttl=0)
        assert server.connected == [{"token": "1"}]
        second = await server.command("refresh")
        await second.reply({"client": "c", "expires": True, "ttl": 0})
        third = await server.command("refresh")
        assert (second.body, third.body) == ({"token": "2"}, {"token": "3"})
        await third.reply({"client": "c"})  # this one does not expire
        await socket.aclose()


async def test_renewal_that_is_refused_or_fails_is_tried_again() -> None:
    async with protocol_server() as server:
        socket = await opened(server, Maker(failing=(2,)), expires=True, ttl=0)
        refused = await server.command("refresh")
        assert refused.body == {"token": "3"}
        await refused.refuse(109)
        again = await server.command("refresh")
        assert again.body == {"token": "4"}
        await again.close(3005, "expired")
        assert (await socket.closed).code == 3005
        await socket.aclose()


async def test_token_that_nobody_can_make_anew_is_not_renewed() -> None:
    async with protocol_server() as server:
        socket = await opened(server, "t", expires=True, ttl=0)
        asking = asyncio.create_task(socket.ask("rpc", {}))
        await (await server.command("rpc")).reply({})
        await asking
        await socket.aclose()


@pytest.mark.parametrize(("token", "temporary"), [("t", False), (Maker(), True)])
async def test_expired_token_can_help_only_where_another_can_be_made(token: Token, *, temporary: bool) -> None:
    async with protocol_server() as server:
        server.refuse_connect = {"code": 109, "message": "token expired"}
        with pytest.raises(CommandError) as caught:
            await opened(server, token)
    assert (caught.value.code, caught.value.temporary) == (109, temporary)
