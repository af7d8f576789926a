"""The stock clients ask who is present, and are told who comes and goes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from centrifuge import (  # type: ignore[import-untyped]  # it ships no types
    Client,
    JoinContext,
    LeaveContext,
    SubscribedContext,
    SubscriptionEventHandler,
)

from tests.serving import PATIENCE, serve
from tests.test_stock_clients import JS, Stock, npm_packages

__all__ = ["npm_packages"]

TOPIC = "p:1"

Answer = dict[str, Any]


class Visitor(msgspec.Struct):
    """A stock client; `presence` and `stats` are what it answers its user, in the words of the npm package."""

    stock: Stock
    presence: Callable[[], Awaitable[Answer]]
    stats: Callable[[], Awaitable[Answer]]


class _Handler(SubscriptionEventHandler):  # type: ignore[misc]  # untyped base
    def __init__(self, stock: Stock) -> None:
        self._put = stock.events.put_nowait

    async def on_subscribed(self, ctx: SubscribedContext) -> None:
        self._put({"event": "subscribed"})

    async def on_join(self, ctx: JoinContext) -> None:
        self._put({"event": "join", "info": {"client": ctx.info.client, "user": ctx.info.user}})

    async def on_leave(self, ctx: LeaveContext) -> None:
        self._put({"event": "leave", "info": {"client": ctx.info.client, "user": ctx.info.user}})


@contextlib.asynccontextmanager
async def python_visitor(url: str) -> AsyncIterator[Visitor]:
    stock = Stock()
    client = Client(url, proxy=None)
    subscription = client.new_subscription(TOPIC, events=_Handler(stock), join_leave=True)

    async def presence() -> Answer:
        found = (await subscription.presence()).clients
        return {name: {"client": info.client, "user": info.user} for name, info in found.items()}

    async def stats() -> Answer:
        found = await subscription.presence_stats()
        return {"numClients": found.num_clients, "numUsers": found.num_users}

    await client.connect()
    await subscription.subscribe()
    try:
        yield Visitor(stock, presence, stats)
    finally:
        await client.disconnect()


@contextlib.asynccontextmanager
async def npm_visitor(url: str) -> AsyncIterator[Visitor]:
    stock = Stock()
    process = await asyncio.create_subprocess_exec(
        "node",
        str(JS / "stock" / "presence.mjs"),
        url,
        TOPIC,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    questions, lines = process.stdin, process.stdout

    async def read() -> None:
        while line := await lines.readline():
            stock.events.put_nowait(json.loads(line))

    async def presence() -> Answer:
        questions.write(b"presence\n")
        return (await stock.until("presence"))["clients"]  # type: ignore[no-any-return]  # JSON

    async def stats() -> Answer:
        questions.write(b"stats\n")
        answer = await stock.until("stats")
        del answer["event"]
        return answer

    reading = asyncio.create_task(read())
    try:
        yield Visitor(stock, presence, stats)
    finally:
        questions.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await reading


Start = Callable[[str], AbstractAsyncContextManager[Visitor]]


@pytest.fixture(params=["npm", "python"])
def start(request: pytest.FixtureRequest) -> Start:
    """What starts a client of one of the two kinds."""
    if request.param == "npm":
        request.getfixturevalue("npm_packages")
        return npm_visitor
    return python_visitor


async def test_stock_client_knows_who_is_present(start: Start, redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix) as one,
        serve(redis_url, key_prefix) as two,
        start(one.url) as visitor,
    ):
        await visitor.stock.until("subscribed")
        me = (await visitor.stock.until("join"))["info"]
        async with two.plain() as other:
            await other.ask("subscribe", {"channel": TOPIC})
            somebody = (await visitor.stock.until("join"))["info"]
            assert somebody["client"] != me["client"]
            assert await visitor.presence() == {me["client"]: me, somebody["client"]: somebody}
            assert await visitor.stats() == {"numClients": 2, "numUsers": 1}
        assert (await visitor.stock.until("leave"))["info"] == somebody
        assert await visitor.presence() == {me["client"]: me}
