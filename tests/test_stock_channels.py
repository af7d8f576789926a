"""Subscriptions that the token names (`channels`): the gateway makes them with the connect reply."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from centrifuge import (  # type: ignore[import-untyped]  # it ships no types
    Client,
    ClientEventHandler,
    ConnectedContext,
    ConnectingContext,
    DisconnectedContext,
    ServerPublicationContext,
    ServerSubscribedContext,
    ServerUnsubscribedContext,
)

from gateway.broker.redis import RedisBroker
from gateway.client import Client as OurClient
from gateway.errors import BrokerUnavailableError
from tests.servers import RedisServer, free_port
from tests.serving import PATIENCE, Gateway, append, eventually, serve
from tests.signing import API_KEY, SECRET, token
from tests.test_stock_clients import JS, Stock, npm_packages

__all__ = ["npm_packages"]

Start = Callable[[str, str], AbstractAsyncContextManager[Stock]]


class _Events(ClientEventHandler):  # type: ignore[misc]  # untyped base
    def __init__(self, stock: Stock) -> None:
        self._put = stock.events.put_nowait

    async def on_connected(self, ctx: ConnectedContext) -> None:
        self._put({"event": "connected"})

    async def on_connecting(self, ctx: ConnectingContext) -> None:
        self._put({"event": "connecting", "code": ctx.code})

    async def on_disconnected(self, ctx: DisconnectedContext) -> None:
        self._put({"event": "disconnected", "code": ctx.code})

    async def on_subscribed(self, ctx: ServerSubscribedContext) -> None:
        self._put(
            {
                "event": "subscribed",
                "topic": ctx.channel,
                "wasRecovering": ctx.was_recovering,
                "recovered": ctx.recovered,
                "offset": ctx.stream_position.offset,
                "grants": ctx.data["grants"],
            }
        )

    async def on_unsubscribed(self, ctx: ServerUnsubscribedContext) -> None:
        self._put({"event": "unsubscribed", "topic": ctx.channel})

    async def on_publication(self, ctx: ServerPublicationContext) -> None:
        self._put({"event": "publication", "topic": ctx.channel, "offset": ctx.pub.offset, "data": ctx.pub.data})


@contextlib.asynccontextmanager
async def python_client(url: str, shown: str) -> AsyncIterator[Stock]:
    stock = Stock()
    delays = {"min_reconnect_delay": 0.02, "max_reconnect_delay": 0.1, "proxy": None}
    client = Client(url, events=_Events(stock), token=shown, **delays)
    await client.connect()
    try:
        yield stock
    finally:
        await client.disconnect()


@contextlib.asynccontextmanager
async def npm_client(url: str, shown: str) -> AsyncIterator[Stock]:
    stock = Stock()
    pipe = asyncio.subprocess.PIPE
    script = str(JS / "stock" / "channels.mjs")
    process = await asyncio.create_subprocess_exec("node", script, url, shown, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    lines = process.stdout

    async def read() -> None:
        while line := await lines.readline():
            stock.events.put_nowait(json.loads(line))

    reading = asyncio.create_task(read())
    try:
        yield stock
    finally:
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await reading


@pytest.fixture(params=["npm", "python"])
def start(request: pytest.FixtureRequest) -> Start:
    """What starts a client of one of the two kinds with a token."""
    if request.param == "npm":
        request.getfixturevalue("npm_packages")
        return npm_client
    return python_client


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def test_stock_client_gets_what_its_token_names(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "a", {"n": 1})
    shown = token("ann", channels=["a", "b", "no topic"])
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway, start(gateway.url, shown) as stock:
        first, second = await stock.until("subscribed"), await stock.until("subscribed")
        assert {(first["topic"], first["offset"]), (second["topic"], second["offset"])} == {("a", 1), ("b", 0)}
        assert first["grants"] == ["read", "topics"]
        await append(broker, "a", {"n": 2})
        event = await stock.until("publication")
        assert (event["topic"], event["offset"], event["data"]) == ("a", 2, {"n": 2})
        await append(broker, "b", {"n": 3})
        assert (await stock.until("publication"))["topic"] == "b"


async def test_stock_client_recovers_what_its_token_names(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    port = free_port()
    names = ["a", "b", "c"]
    for name in names:
        await append(broker, name, {"n": 1})
    async with contextlib.AsyncExitStack() as stack:
        async with serve(redis_url, key_prefix, port=port, drain=0.0, token_secrets=SECRET) as gateway:
            stock = await stack.enter_async_context(start(gateway.url, token("ann", channels=names)))
            for _ in names:
                await stock.until("subscribed")
        for name in names:
            # Together they are more than one reply carries: the rest comes as pushes.
            for _ in range(10):
                await append(broker, name, *[{"text": "y" * 2000} for _ in range(2)])
        async with serve(redis_url, key_prefix, port=port, token_secrets=SECRET):
            for _ in names:
                subscribed = await stock.until("subscribed")
                assert (subscribed["wasRecovering"], subscribed["recovered"]) == (True, True)
            found: dict[str, list[int]] = {name: [] for name in names}
            while any(len(offsets) < 20 for offsets in found.values()):
                event = await stock.until("publication")
                found[event["topic"]].append(event["offset"])
            assert found == {name: list(range(2, 22)) for name in names}
            await append(broker, "b", {"n": "live"})
            assert (await stock.until("publication"))["data"] == {"n": "live"}
            assert not any(event["event"] == "unsubscribed" for event in stock.seen)


async def test_stock_client_is_unsubscribed_and_disconnected(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    shown = token("ann", channels=["a", "b"])
    async with (
        serve(redis_url, key_prefix, token_secrets=SECRET, api_keys=API_KEY) as gateway,
        httpx.AsyncClient(base_url=gateway.http, headers={"x-api-key": API_KEY}, trust_env=False) as backend,
        start(gateway.url, shown) as stock,
    ):
        await stock.until("subscribed")
        await stock.until("subscribed")
        await backend.post("/api/unsubscribe", json={"user": "ann", "channel": "a"})
        assert (await stock.until("unsubscribed"))["topic"] == "a"
        await append(broker, "a", {"n": 1})
        await append(broker, "b", {"n": 2})
        assert (await stock.until("publication"))["topic"] == "b"
        await backend.post("/api/disconnect", json={"user": "ann"})
        assert (await stock.until("disconnected"))["code"] == 3503
        await eventually(lambda: not gateway.hub.readers)


async def test_stock_client_comes_back_to_a_history_that_was_replaced(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "a", {"n": 1}, {"n": 2})
    shown = token("ann", channels=["a"])
    async with (
        serve(redis_url, key_prefix, token_secrets=SECRET, api_keys=API_KEY) as gateway,
        httpx.AsyncClient(base_url=gateway.http, headers={"x-api-key": API_KEY}, trust_env=False) as backend,
        start(gateway.url, shown) as stock,
    ):
        assert (await stock.until("subscribed"))["offset"] == 2
        await backend.post("/api/history_remove", json={"channel": "a"})
        assert (await stock.until("subscribed"))["offset"] == 0
        assert {event["event"] for event in stock.seen} == {"connecting", "connected", "subscribed", "unsubscribed"}
        await append(broker, "a", {"n": "new"})
        assert (await stock.until("publication"))["data"] == {"n": "new"}


async def connect(gateway: Gateway, shown: str, **more: Any) -> Any:
    async with gateway.plain(hello=False) as plain:
        return await plain.ask("connect", {"token": shown, **more})


async def test_grants_and_limits_hold_for_what_a_token_names(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "a", {"type": "log", "message": "hidden"}, {"n": 2})
    async with serve(redis_url, key_prefix, token_secrets=SECRET, max_topics=2, max_topics_per_user=3) as gateway:
        # The first grant that names a topic decides, alone.
        caps = [
            {"channels": ["b"], "allow": ["pub"]},
            {"channels": ["a"], "allow": ["sub"], "redact": {"drop": ["logs"]}},
        ]
        subs = {"a": {"recover": True}}
        reply = await connect(gateway, token("ann", channels=["a", "b"], caps=caps), subs=subs)
        assert list(reply["subs"]) == ["a"]
        assert [publication["offset"] for publication in reply["subs"]["a"]["publications"]] == [2]
        async with gateway.plain(hello=False) as plain:
            await plain.command("connect", {"token": token("ann", channels=["a", "b", "c"])})
            assert (await plain.closed())[0] == 3505
        async with gateway.plain(hello=False) as one, gateway.plain(hello=False) as other:
            assert len((await one.ask("connect", {"token": token("ann", channels=["a", "b"])}))["subs"]) == 2
            await other.command("connect", {"token": token("ann", channels=["c", "d"])})
            assert (await other.closed())[0] == 3505
        await eventually(lambda: not gateway.hub.readers)
        # All was given back.
        assert len((await connect(gateway, token("ann", channels=["a", "b"])))["subs"]) == 2
    assert [name for name, _ in await broker.topics()] == ["a"]


async def test_commands_with_the_connect_command_wait_for_its_subscriptions(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "a", {"n": 1})
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway, gateway.plain(hello=False) as plain:
        shown = token("ann", channels=["a"])
        lines = [{"id": 1, "connect": {"token": shown}}, {"id": 2, "unsubscribe": {"channel": "a"}}]
        await plain.socket.send("\n".join(map(json.dumps, lines)))
        assert (await plain.line())["connect"]["subs"]["a"]["offset"] == 1
        assert (await plain.line()) == {"id": 2, "unsubscribe": {}}
        # Who is not subscribed any more may be again, as a client.
        assert (await plain.ask("subscribe", {"channel": "a"}))["offset"] == 1


async def test_who_subscribes_by_itself_takes_over_what_it_was_given(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "a", {"n": 1})
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway:
        async with OurClient(gateway.url, token=token("ann", channels=["a"])) as client:
            updates = client.subscribe("a", since="start")
            assert (await anext(updates)).data == {"n": 1}
            await append(broker, "a", {"n": 2})
            assert (await anext(updates)).data == {"n": 2}
        async with gateway.plain(hello=False) as plain:
            await plain.ask("connect", {"token": token("ann", channels=["a"])})
            reply = await plain.ask("subscribe", {"channel": "a", "data": {"mirror": True}})
            assert reply["data"]["snapshot"]["offset"] == 2
            assert (await plain.ask("subscribe", {"channel": "a"}))["code"] == 105


async def test_fresh_token_that_names_less_ends_the_rest(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway, gateway.plain(hello=False) as plain:
        await plain.ask("connect", {"token": token("ann", lasts=60, channels=["a", "b"])})
        await plain.ask("refresh", {"token": token("ann", lasts=60, channels=["b"])})
        push = plain.pushes.pop()
        assert (push["channel"], push["unsubscribe"]["code"]) == ("a", 2000)


async def test_connect_with_channels_can_be_tried_again_while_the_broker_is_away(
    tmp_path: Any, key_prefix: str
) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes"}) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        await append(broker, "a", {"n": 1})
        async with (
            serve(server.url, key_prefix, token_secrets=SECRET, command_timeout=0.3) as gateway,
            gateway.plain(hello=False) as plain,
        ):
            shown = {"token": token("ann", channels=["a"])}
            with server.away():
                refusal = await plain.ask("connect", shown)
                assert (refusal["code"], refusal["temporary"]) == (100, True)
            reply: dict[str, Any] = {}
            while "subs" not in reply:
                reply = await plain.ask("connect", shown)
            assert reply["subs"]["a"]["offset"] == 1
        with contextlib.suppress(BrokerUnavailableError):
            await broker.aclose()
