"""Both pages over what happens to machines and networks: afterwards they show exactly what the topic says."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from playwright.async_api import Browser, CDPSession, Page, expect

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway
from tests.faults.proxy import Proxy
from tests.servers import RedisServer

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

WORDS = 300
"""Before the fault, in its midst, and after it."""
RETRANSMISSION = 0.2
"""Seconds until a lost packet is sent again, while all that follows it waits."""
FOLLOW = """async () => {
    const { Gateway } = await import('/static/gateway/index.js');
    window.followed = new Gateway({ url: '/connection/websocket' });
    window.topic = window.followed.subscribe('t');
    window.followed.connect();
}"""


class World:
    """A store, a gateway, a network before it, the chat page and the dashboard."""

    def __init__(self, server: RedisServer, gateway: Gateway, proxy: Proxy, chat: Page, board: Page) -> None:
        self.server = server
        self.gateway = gateway
        self.proxy = proxy
        self.chat = chat
        self.board = board

    @contextlib.asynccontextmanager
    async def gateway_restart(self) -> AsyncIterator[None]:
        self.gateway.kill()
        assert self.gateway.process is not None
        await self.gateway.process.end()
        await expect(self.chat.locator("#conn")).not_to_contain_text("Live")
        yield
        await self.gateway.start()

    @contextlib.asynccontextmanager
    async def redis_restart(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.server.kill)
        await expect(self.chat.locator("#conn")).to_contain_text("Not sure this is current")
        starting = asyncio.create_task(self._start_redis())
        yield
        await starting

    async def _start_redis(self) -> None:
        await asyncio.sleep(0.5)  # the run meets a store that is not there
        await asyncio.to_thread(self.server.start)

    @contextlib.asynccontextmanager
    async def sleep(self) -> AsyncIterator[None]:
        """Freeze the pages, and let the network forget them meanwhile."""
        sessions = [await self._freeze(page) for page in (self.chat, self.board)]
        yield
        self.proxy.reset()
        for session in sessions:
            await session.send("Page.setWebLifecycleState", {"state": "active"})

    async def _freeze(self, page: Page) -> CDPSession:
        session = await page.context.new_cdp_session(page)
        await session.send("Page.setWebLifecycleState", {"state": "frozen"})
        return session

    @contextlib.asynccontextmanager
    async def loss(self) -> AsyncIterator[None]:
        """Lose one packet in a hundred: on TCP everything behind it comes late, in bursts."""
        losing = asyncio.create_task(self._lose())
        yield
        losing.cancel()
        await asyncio.gather(losing, return_exceptions=True)

    async def _lose(self) -> None:
        chance = random.Random(8)
        while True:
            await asyncio.sleep(0.01)
            if chance.random() < 0.1:  # about ten packets in this time
                with self.proxy.stall():
                    await asyncio.sleep(RETRANSMISSION)


@pytest.fixture
async def world(browser: Browser, tmp_path: Path) -> AsyncIterator[World]:
    with RedisServer(tmp_path / "redis", {"appendonly": "yes", "appendfsync": "always"}) as server:
        gateway = Gateway(server.url)
        try:
            await gateway.start()
            async with Proxy(gateway.port) as proxy:
                address = f"http://127.0.0.1:{proxy.port}"
                chat, board = await browser.new_page(), await browser.new_page()
                await chat.goto(f"{address}/?topic=t")
                await board.goto(f"{address}/dashboard")
                for page in (chat, board):
                    await expect(page.locator("#conn")).to_contain_text("Live")
                await chat.evaluate(FOLLOW)
                await chat.wait_for_function("() => topic.state === 'live'")
                yield World(server, gateway, proxy, chat, board)
                await chat.close()
                await board.close()
        finally:
            await gateway.stop()


FAULTS: dict[str, Callable[[World], AbstractAsyncContextManager[None]]] = {
    "gateway restart": World.gateway_restart,
    "redis restart": World.redis_restart,
    "sleep": World.sleep,
    "1% loss": World.loss,
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_both_pages_show_exactly_what_happened(world: World, fault: str) -> None:
    words = [f"w{number} " for number in range(3 * WORDS)]
    async with (
        Publisher(world.server.url, flush_interval=0) as publisher,
        publisher.run("t", agent="a") as run,
    ):
        await run.set_context(title="A run that goes on")
        await run.add_message(Message.user("Count."))
        for word in words[:WORDS]:
            await run.delta(word)
        await expect(world.chat.locator("#lane .prose")).to_contain_text(words[WORDS - 1])
        await expect(world.board.locator(".run-row")).to_contain_text("A run that goes on")
        async with FAULTS[fault](world):
            for word in words[WORDS : 2 * WORDS]:
                await run.delta(word)
            await run.flush()
        for word in words[2 * WORDS :]:
            await run.delta(word)
        await run.flush()
        prose = world.chat.locator("#lane .prose")
        await expect(prose).to_have_text("".join(words).strip())
        await run.add_message(Message.assistant("".join(words)))
    await expect(world.chat.locator("#chip")).to_contain_text("Done")
    await expect(world.chat.locator("#conn")).to_contain_text("Live")
    await expect(prose).to_have_count(1)
    await expect(world.board.locator("#conn")).to_contain_text("Live")
    await expect(world.board.locator(".run-row.over")).to_contain_text("A run that goes on")
    snapshot = await world.gateway.topic("t")
    at = [snapshot["epoch"], snapshot["offset"]]
    await world.chat.wait_for_function(
        "([epoch, offset]) => topic.mirror.epoch === epoch && topic.mirror.offset >= offset", arg=at
    )
    assert json.loads(await world.chat.evaluate("JSON.stringify(topic.mirror.snapshot())")) == snapshot
