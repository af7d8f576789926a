"""The stock clients, npm `centrifuge` and PyPI `centrifuge-python`, at a real gateway with a real Valkey."""

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from centrifuge import (  # type: ignore[import-untyped]  # it ships no types
    Client,
    ClientEventHandler,
    ConnectedContext,
    ConnectingContext,
    PublicationContext,
    SubscribedContext,
    SubscribingContext,
    SubscriptionErrorContext,
    SubscriptionEventHandler,
    UnsubscribedContext,
)
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.types import START, Topic
from tests.servers import RedisServer, free_port
from tests.serving import PATIENCE, append, serve

JS = Path(__file__).parent / "js"

Event = dict[str, Any]


class Stock:
    """A stock client and what has happened to it, in order."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.seen: list[Event] = []

    async def until(self, name: str) -> Event:
        """Give the next event of this name; others are passed over."""
        while True:
            event = await asyncio.wait_for(self.events.get(), PATIENCE)
            self.seen.append(event)
            if event["event"] == name:
                return event

    async def offsets(self, last: int) -> list[int]:
        """Give the offsets of publications up to one."""
        offsets: list[int] = []
        while not offsets or offsets[-1] < last:
            offsets.append((await self.until("publication"))["offset"])
        return offsets


class _Connection(ClientEventHandler):  # type: ignore[misc]  # untyped base
    def __init__(self, stock: Stock) -> None:
        self._put = stock.events.put_nowait

    async def on_connected(self, ctx: ConnectedContext) -> None:
        self._put({"event": "connected", "data": ctx.data})

    async def on_connecting(self, ctx: ConnectingContext) -> None:
        self._put({"event": "connecting", "code": ctx.code})


class _Subscription(SubscriptionEventHandler):  # type: ignore[misc]  # untyped base
    def __init__(self, stock: Stock) -> None:
        self._put = stock.events.put_nowait

    async def on_subscribed(self, ctx: SubscribedContext) -> None:
        position = ctx.stream_position
        self._put(
            {
                "event": "subscribed",
                "wasRecovering": ctx.was_recovering,
                "recovered": ctx.recovered,
                "position": {"offset": position.offset, "epoch": position.epoch} if position else None,
                "data": ctx.data,
            }
        )

    async def on_subscribing(self, ctx: SubscribingContext) -> None:
        self._put({"event": "subscribing", "code": ctx.code})

    async def on_unsubscribed(self, ctx: UnsubscribedContext) -> None:
        self._put({"event": "unsubscribed", "code": ctx.code})

    async def on_error(self, ctx: SubscriptionErrorContext) -> None:
        self._put({"event": "error", "code": getattr(ctx.error, "code", None)})

    async def on_publication(self, ctx: PublicationContext) -> None:
        self._put({"event": "publication", "offset": ctx.pub.offset, "data": ctx.pub.data})


@contextlib.asynccontextmanager
async def python_client(url: str, topic: str, data: Any = None) -> AsyncIterator[Stock]:
    stock = Stock()
    client = Client(url, events=_Connection(stock), min_reconnect_delay=0.02, max_reconnect_delay=0.1, proxy=None)
    subscription = client.new_subscription(
        topic, events=_Subscription(stock), data=data, min_resubscribe_delay=0.02, max_resubscribe_delay=0.1
    )
    await client.connect()
    await subscription.subscribe()
    try:
        yield stock
    finally:
        await client.disconnect()


@contextlib.asynccontextmanager
async def npm_client(url: str, topic: str, data: Any = None) -> AsyncIterator[Stock]:
    stock = Stock()
    process = await asyncio.create_subprocess_exec(
        "node",
        str(JS / "stock" / "reader.mjs"),
        url,
        topic,
        *([] if data is None else [json.dumps(data)]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
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


@pytest.fixture(scope="session")
def npm_packages() -> None:
    """The packages of ``tests/js``, installed where they are missing."""
    if (JS / "node_modules" / "centrifuge").is_dir():
        return
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: `make test` installs it")
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, check=True)


Start = Callable[..., AbstractAsyncContextManager[Stock]]


@pytest.fixture(params=["npm", "python"])
def start(request: pytest.FixtureRequest) -> Start:
    """What starts a client of one of the two kinds at a URL, subscribed to a topic."""
    if request.param == "npm":
        request.getfixturevalue("npm_packages")
        return npm_client
    return python_client


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def test_stock_client_receives(start: Start, redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    await append(broker, "chat:1", {"n": 1})
    async with serve(redis_url, key_prefix) as gateway, start(gateway.url, "chat:1") as stock:
        connected = await stock.until("connected")
        assert "read" in connected["data"]["grants"]
        subscribed = await stock.until("subscribed")
        assert subscribed["position"]["offset"] == 1
        await append(broker, "chat:1", {"n": 2, "text": "grüße 😀\n"}, {"n": 3})
        assert (await stock.until("publication"))["data"] == {"n": 2, "text": "grüße 😀\n"}
        assert (await stock.until("publication"))["offset"] == 3


async def test_stock_client_on_a_new_topic_hears_the_first_event(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    async with serve(redis_url, key_prefix) as gateway, start(gateway.url, "fresh") as stock:
        assert (await stock.until("subscribed"))["position"]["offset"] == 0
        await append(broker, "fresh", {"n": 1})
        assert await stock.offsets(1) == [1]
        await append(broker, "fresh", {"n": 2})
        assert await stock.offsets(2) == [2]


async def test_stock_client_recovers_what_it_missed(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "missed", {"n": 1})
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        async with serve(redis_url, key_prefix, port=port, drain=0.0) as gateway:
            stock = await stack.enter_async_context(start(gateway.url, "missed"))
            await stock.until("subscribed")
            await append(broker, "missed", {"n": 2})
            await stock.until("publication")
        # More than one reply carries, so that the rest comes as pushes.
        for _ in range(30):
            await append(broker, "missed", *[{"text": "y" * 2000} for _ in range(5)])
        async with serve(redis_url, key_prefix, port=port):
            subscribed = await stock.until("subscribed")
            assert (subscribed["wasRecovering"], subscribed["recovered"]) == (True, True)
            assert await stock.offsets(152) == list(range(3, 153))
            await append(broker, "missed", {"n": "live"})
            assert await stock.offsets(153) == [153]


async def test_stock_client_with_a_lens_recovers_from_where_it_was_told_to_be(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "lens", {"n": 1})
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        async with serve(redis_url, key_prefix, port=port, drain=0.0) as gateway:
            stock = await stack.enter_async_context(start(gateway.url, "lens", {"lens": {"types": ["logs"]}}))
            await stock.until("subscribed")
            await append(broker, "lens", {"n": 2}, {"type": "log", "message": "a"}, {"n": 4})
            assert await stock.offsets(4) == [3, 4]
            assert stock.seen[-1]["data"] == {"type": "hidden"}
        await append(broker, "lens", {"n": 5}, {"type": "log", "message": "b"}, {"n": 7})
        async with serve(redis_url, key_prefix, port=port):
            subscribed = await stock.until("subscribed")
            assert (subscribed["wasRecovering"], subscribed["recovered"]) == (True, True)
            assert await stock.offsets(7) == [6, 7]
            await append(broker, "lens", {"n": 8}, {"type": "log", "message": "c"})
            assert await stock.offsets(9) == [9]


async def test_stock_client_is_told_of_a_gap(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "gap", {"n": 1})
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        async with serve(redis_url, key_prefix, port=port, drain=0.0) as gateway:
            stock = await stack.enter_async_context(start(gateway.url, "gap"))
            await stock.until("subscribed")
            snapshot_at = await append(broker, "gap", {"n": 2}, {"n": 3})
            await stock.offsets(3)
        await append(broker, "gap", {"n": 4})
        snapshot_at = await append(broker, "gap", {"n": 5})
        async with serve(redis_url, key_prefix) as other:
            snapshot = await other.hub.snapshot(Topic("gap"))
        history = await broker.read(Topic("gap"), START, limit=0)
        await broker.trim(Topic("gap"), snapshot.text, position=snapshot_at, size=history.size)
        async with serve(redis_url, key_prefix, port=port):
            subscribed = await stock.until("subscribed")
            assert (subscribed["wasRecovering"], subscribed["recovered"]) == (True, False)
            assert subscribed["position"]["offset"] == 5
            await append(broker, "gap", {"n": 6})
            assert await stock.offsets(6) == [6]


async def test_stock_client_is_told_of_a_new_epoch(
    start: Start, redis_url: str, key_prefix: str, broker: RedisBroker, redis: "Redis"
) -> None:
    await append(broker, "epoch", {"n": 1}, {"n": 2})
    async with serve(redis_url, key_prefix) as gateway, start(gateway.url, "epoch") as stock:
        before = await stock.until("subscribed")
        await redis.delete(*[key async for key in redis.scan_iter(match=f"{broker.channel(Topic('epoch'))}*")])
        position = await append(broker, "epoch", {"n": "new"})
        assert (await stock.until("subscribing"))["code"] == 2500
        subscribed = await stock.until("subscribed")
        assert (subscribed["wasRecovering"], subscribed["recovered"]) == (True, False)
        assert before["position"]["epoch"] != subscribed["position"]["epoch"] == position.epoch
        await append(broker, "epoch", {"n": "next"})
        assert (await stock.until("publication"))["data"] == {"n": "next"}


async def test_stock_client_comes_through_a_temporary_error(start: Start, tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "always"}) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        await append(broker, "away", {"n": 1})
        async with serve(server.url, key_prefix, command_timeout=0.5) as gateway, contextlib.AsyncExitStack() as stack:
            with server.away():
                stock = await stack.enter_async_context(start(gateway.url, "away"))
                assert (await stock.until("error"))["code"] == 100
                assert (await stock.until("error"))["code"] == 100
            assert (await stock.until("subscribed"))["position"]["offset"] == 1
            await append(broker, "away", {"n": 2})
            assert (await stock.until("publication"))["data"] == {"n": 2}
            assert not any(event["event"] == "unsubscribed" for event in stock.seen)
        await broker.aclose()
