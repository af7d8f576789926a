"""Users sent away through the API, by their real tokens, on all gateways."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest
from cent import AsyncClient, Disconnect, DisconnectRequest
from websockets.exceptions import ConnectionClosed

from tests.serving import Gateway, Plain, serve

KEY = "a-key-of-sixteen-characters"
SECRET = "a secret of the tests that is long enough to sign with"


def token(user: str, *, issued: float | None) -> str:
    claims: dict[str, Any] = {"sub": user, "exp": int(time.time()) + 600}
    if issued is not None:
        claims["iat"] = int(time.time() + issued)
    return jwt.encode(claims, SECRET, algorithm="HS256")


@contextlib.asynccontextmanager
async def backend(gateway: Gateway) -> AsyncIterator[AsyncClient]:
    client = AsyncClient(f"{gateway.http}/api", KEY)
    try:
        yield client
    finally:
        await client.close()


async def closed_with(plain: Plain) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        await plain.push()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


async def test_disconnect_ends_a_users_connections_and_older_tokens_everywhere(redis_url: str, key_prefix: str) -> None:
    keys: dict[str, Any] = {"api_keys": KEY, "token_secrets": SECRET}
    async with serve(redis_url, key_prefix, **keys) as one, serve(redis_url, key_prefix, **keys) as two:
        old = token("ann", issued=-60)
        async with (
            one.plain(hello=False) as first,
            two.plain(hello=False) as second,
            two.plain(hello=False) as bob,
        ):
            for plain, one_token in ((first, old), (second, old), (bob, token("bob", issued=-60))):
                assert "client" in await plain.ask("connect", {"token": one_token})
            async with backend(one) as client:
                await client.disconnect(DisconnectRequest(user="ann"))
            sent_away = time.time()
            assert await closed_with(first) == 3503
            assert await closed_with(second) == 3503
            assert await bob.ask("ping", {}) == {}
        # A token says by the second when it was made.
        while int(time.time()) <= sent_away:
            await asyncio.sleep(0.05)
        for gateway in (one, two):
            async with gateway.plain(hello=False) as plain:
                await plain.command("connect", {"token": old})
                assert await closed_with(plain) == 3500
            async with httpx.AsyncClient(base_url=gateway.http, trust_env=False) as http:
                answer = await http.get("/topics/t", headers={"authorization": f"Bearer {old}"})
                assert answer.status_code == 401
            for good in (token("ann", issued=0), token("ann", issued=None), token("bob", issued=-60)):
                async with gateway.plain(hello=False) as plain:
                    assert "client" in await plain.ask("connect", {"token": good})


async def test_a_code_that_invites_back_revokes_nothing(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, api_keys=KEY, token_secrets=SECRET) as gateway:
        old = token("ann", issued=-60)
        async with gateway.plain(hello=False) as plain:
            await plain.ask("connect", {"token": old})
            again = Disconnect(code=3011, reason="come back")
            async with backend(gateway) as client:
                await client.disconnect(DisconnectRequest(user="ann", disconnect=again))
            assert await closed_with(plain) == 3011
        async with gateway.plain(hello=False) as plain:
            assert "client" in await plain.ask("connect", {"token": old})


async def test_late_notice_spares_who_came_with_a_newer_token(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[str, Any] = {"api_keys": KEY, "token_secrets": SECRET}
    async with serve(redis_url, key_prefix, **keys) as one, serve(redis_url, key_prefix, **keys) as deaf:
        monkeypatch.setattr(deaf.hub.control, "_read", lambda: asyncio.sleep(0))
        async with backend(one) as client:
            await client.disconnect(DisconnectRequest(user="ann"))
        async with deaf.plain(hello=False) as newer, deaf.plain(hello=False) as older:
            assert "client" in await newer.ask("connect", {"token": token("ann", issued=2)})
            assert "client" in await older.ask("connect", {"token": token("ann", issued=-60)})
            monkeypatch.undo()
            deaf.hub.control.restored()
            assert await closed_with(older) == 3503
            assert await newer.ask("ping", {}) == {}
