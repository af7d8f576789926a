"""Tabs of one real browser that share a connection to a real gateway."""

import json
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from gateway.publisher import Publisher
from tests.e2e.processes import Gateway, until

pytestmark = pytest.mark.browser

FOLLOW = """async () => {
    const { Gateway } = await import('/static/gateway/index.js');
    window.gateway = new Gateway({ shared: true });
    window.followed = window.gateway.subscribe('t');
    window.gateway.connect();
}"""
READERS = "window.followed.presenceStats().then(({ num_clients }) => num_clients)"


async def tab(browser: Browser, gateway: Gateway) -> Page:
    """Open a page without anything of its own, and follow the topic in it."""
    context = browser.contexts[0] if browser.contexts else await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{gateway.url}/healthz")
    await page.evaluate(FOLLOW)
    await page.wait_for_function("() => window.followed.state === 'live'")
    return page


async def exact(gateway: Gateway, *pages: Page) -> None:
    """Wait for every page to hold what the gateway says."""
    snapshot = await gateway.topic("t")
    for page in pages:
        at = [snapshot["epoch"], snapshot["offset"]]
        await page.wait_for_function(
            "([epoch, offset]) => followed.mirror.epoch === epoch && followed.mirror.offset >= offset", arg=at
        )
        held: Any = json.loads(await page.evaluate("JSON.stringify(window.followed.mirror.snapshot())"))
        assert held == snapshot


async def test_three_tabs_one_connection_and_exact_mirrors_over_a_restart(browser: Browser, gateway: Gateway) -> None:
    early = await tab(browser, gateway)
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:
        for number in range(200):
            await run.delta(f"w{number} ")
        await run.flush()
        late = await tab(browser, gateway)
        third = await tab(browser, gateway)
        await run.delta("for all")
        await run.flush()
        await exact(gateway, early, late, third)
        assert await third.evaluate(READERS) == 1

        await early.close()
        await run.delta("for two")
        await run.flush()
        await exact(gateway, late, third)
        assert await third.evaluate(READERS) == 1
        await late.evaluate("window.followed.unsubscribe()")
        await third.close()

        async def gone() -> bool:
            told = await late.evaluate("window.gateway.command('presence_stats', { channel: 't' })")
            return bool(told["num_clients"] == 0)

        await until(gone, "the topic to have no reader")


async def test_tabs_go_on_exactly_over_a_restart(browser: Browser, gateway: Gateway) -> None:
    one, other = await tab(browser, gateway), await tab(browser, gateway)
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:
        await run.delta("before ")
        gateway.kill()
        assert gateway.process is not None
        await gateway.process.end()
        await one.wait_for_function("() => window.followed.state === 'reconnecting'")
        for number in range(200):
            await run.delta(f"w{number} ")
        await gateway.start()
        await run.delta("after")
        await run.flush()
        await exact(gateway, one, other)
