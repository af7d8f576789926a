"""The stock clients with tokens: they bring fresh ones in place, and stop at fatal codes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from centrifuge import (  # type: ignore[import-untyped]  # it ships no types
    Client,
    ClientEventHandler,
    ConnectedContext,
    ConnectingContext,
    DisconnectedContext,
    PublicationContext,
    SubscribedContext,
    SubscribingContext,
    SubscriptionEventHandler,
    UnsubscribedContext,
)

from gateway.broker.redis import RedisBroker
from tests.serving import PATIENCE, append, serve
from tests.signing import SECRET, token
from tests.test_stock_clients import JS, Stock, npm_packages

__all__ = ["npm_packages"]

TOPIC = "chat:1"
MakeToken = Callable[[str], str]
Start = Callable[[str, MakeToken], AbstractAsyncContextManager[Stock]]


class _Connection(ClientEventHandler):  # type: ignore[misc]  # untyped base
    def __init__(self, stock: Stock) -> None:
        self._put = stock.events.put_nowait

    async def on_connected(self, ctx: ConnectedContext) -> None:
        self._put({"event": "connected"})

    async def on_connecting(self, ctx: ConnectingContext) -> None:
        self._put({"event": "connecting", "code": ctx.code})

    async def on_disconnected(self, ctx: DisconnectedContext) -> None:
        self._put({"event": "disconnected", "code": ctx.code})


class _Subscription(SubscriptionEventHandler):  # type: ignore[misc]  # untyped base
    def __init__(self, stock: Stock) -> None:
        self._put = stock.events.put_nowait

    async def on_subscribed(self, ctx: SubscribedContext) -> None:
        self._put({"event": "subscribed"})

    async def on_subscribing(self, ctx: SubscribingContext) -> None:
        self._put({"event": "subscribing", "code": ctx.code})

    async def on_unsubscribed(self, ctx: UnsubscribedContext) -> None:
        self._put({"event": "unsubscribed", "code": ctx.code})

    async def on_publication(self, ctx: PublicationContext) -> None:
        self._put({"event": "publication", "data": ctx.pub.data})


@contextlib.asynccontextmanager
async def python_client(url: str, make: MakeToken) -> AsyncIterator[Stock]:
    stock = Stock()

    async def of_connection(*_: Any) -> str:
        stock.events.put_nowait({"event": "wanted"})
        return make("")

    async def of_topic(*_: Any) -> str:
        stock.events.put_nowait({"event": "wanted", "topic": TOPIC})
        return make(TOPIC)

    delays = {"min_reconnect_delay": 0.02, "max_reconnect_delay": 0.1, "proxy": None}
    client = Client(url, events=_Connection(stock), get_token=of_connection, **delays)
    subscription = client.new_subscription(
        TOPIC,
        events=_Subscription(stock),
        get_token=of_topic,
        min_resubscribe_delay=0.02,
        max_resubscribe_delay=0.1,
    )
    await client.connect()
    await subscription.subscribe()
    try:
        yield stock
    finally:
        await client.disconnect()


@contextlib.asynccontextmanager
async def npm_client(url: str, make: MakeToken) -> AsyncIterator[Stock]:
    stock = Stock()
    pipe = asyncio.subprocess.PIPE
    script = str(JS / "stock" / "tokens.mjs")
    process = await asyncio.create_subprocess_exec("node", script, url, TOPIC, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    lines, answers = process.stdout, process.stdin

    async def read() -> None:
        while line := await lines.readline():
            event = json.loads(line)
            stock.events.put_nowait(event)
            if event["event"] == "wanted":
                answers.write(make(event.get("topic", "")).encode() + b"\n")

    reading = asyncio.create_task(read())
    try:
        yield stock
    finally:
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await reading


@pytest.fixture(params=["npm", "python"])
def start(request: pytest.FixtureRequest) -> Start:
    """What starts a client of one of the two kinds."""
    if request.param == "npm":
        request.getfixturevalue("npm_packages")
        return npm_client
    return python_client


def good(topic: str) -> str:
    return token("ann", lasts=2, **({"channel": topic} if topic else {}))


async def test_stock_client_stays_with_fresh_tokens(start: Start, redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, TOPIC, {"n": 0})
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway, start(gateway.url, good) as stock:
        await stock.until("subscribed")
        wanted = [event for event in stock.seen if event["event"] == "wanted"]
        while sum("topic" in event for event in wanted) < 3 or sum("topic" not in event for event in wanted) < 3:
            wanted.append(await stock.until("wanted"))
        await append(broker, TOPIC, {"n": 1})
        assert (await stock.until("publication"))["data"] == {"n": 1}
        happened = [event["event"] for event in stock.seen]
        assert happened.count("connected") == 1
        assert happened.count("subscribed") == 1
        assert not {"disconnected", "unsubscribed"} & set(happened)
    await broker.aclose()


async def test_stock_client_comes_back_after_its_token_ran_out(start: Start, redis_url: str, key_prefix: str) -> None:
    made: list[str] = []

    def late(topic: str) -> str:
        """Give a token that has expired, the first time one is asked for."""
        made.append(topic)
        return token("ann", lasts=-60 if made.count(topic) == 1 else 60, **({"channel": topic} if topic else {}))

    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, TOPIC, {"n": 0})
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway, start(gateway.url, late) as stock:
        await stock.until("subscribed")
        assert made.count("") == 2
        assert made.count(TOPIC) == 2
    await broker.aclose()


async def test_stock_client_stops_at_a_token_that_is_none(start: Start, redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway:
        async with start(gateway.url, lambda _: "nonsense") as stock:
            assert (await stock.until("disconnected"))["code"] == 3500
            assert not any(event["event"] == "connected" for event in stock.seen)
        async with start(gateway.url, lambda topic: "nonsense" if topic else token("ann")) as stock:
            assert (await stock.until("unsubscribed"))["code"] == 103
