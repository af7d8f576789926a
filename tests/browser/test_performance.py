"""The chat page under load, judged by Chromium's trace; GATEWAY_LONG=1 runs the long forms."""

import asyncio
import os

import pytest
from playwright.async_api import Browser, Page, expect

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.browser.tracing import heap, traced
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

LONG = bool(os.environ.get("GATEWAY_LONG"))
DELTAS = 50_000 if LONG else 20_000
MESSAGES = 2_000
PARAGRAPH = 100
"""Words."""
LONGEST_MS = 50
MOST_HEAP = 100_000_000
"""Bytes; the page itself has about 10 MB."""


async def opened(page: Page, gateway: Gateway, topic: str = "t") -> None:
    await page.goto(f"{gateway.url}/?topic={topic}")
    await expect(page.locator("#conn")).to_contain_text("Live")


async def test_91_and_92_many_deltas_into_one_message(browser: Browser, page: Page, gateway: Gateway) -> None:
    """The page lags seconds behind and freezes; here no task is long, and the text is exact."""
    await opened(page, gateway)
    words = [f"w{number}" + ("\n\n" if number % PARAGRAPH == PARAGRAPH - 1 else " ") for number in range(DELTAS)]
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:
        async with traced(browser, page) as trace:
            for word in words:
                await run.delta(word)
            await run.flush()
            last = f"() => document.getElementById('lane').textContent.includes('w{DELTAS - 1}')"
            await page.wait_for_function(last, timeout=60_000)
        await page.wait_for_function("() => document.querySelector('#conn').textContent.includes('Live')")
        shown = await page.evaluate("[...document.querySelectorAll('#lane .prose p')].map(p => p.textContent)")
        paragraphs = [part.strip() for part in "".join(words).split("\n\n") if part.strip()]
        assert [text.strip() for text in shown] == paragraphs
        await run.add_message(Message.assistant("".join(words)))
    assert trace.tasks
    assert trace.longest < LONGEST_MS, sorted(trace.tasks)[-5:]
    await expect(page.locator("#chip")).to_contain_text("Done")
    assert await heap(page) < MOST_HEAP


async def test_long_conversation_opens_and_scrolls(browser: Browser, page: Page, gateway: Gateway) -> None:
    text = "A line with **marks** and `code`.\n\n* one\n* two\n"
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        for number in range(MESSAGES // 2):
            await run.add_message(Message.user(f"Question {number}"))
            await run.add_message(Message.assistant(f"Answer {number}. {text}"))
    await page.goto("about:blank")
    async with traced(browser, page) as trace:
        await opened(page, gateway)
        last = page.locator("#lane .prose", has_text=f"Answer {MESSAGES // 2 - 1}.")
        await expect(last).to_be_in_viewport()
    opening = trace.longest
    async with traced(browser, page) as trace:
        await page.mouse.move(600, 400)
        for _ in range(60):
            await page.mouse.wheel(0, -2_000)
            await page.evaluate("new Promise(requestAnimationFrame)")
    assert opening < 10 * LONGEST_MS, opening
    assert trace.longest < LONGEST_MS, sorted(trace.tasks)[-5:]
    top = page.locator("#lane .user").first
    await page.locator("#thread").evaluate("thread => { thread.scrollTop = 0; }")
    await expect(top).to_be_in_viewport()
    await expect(top).to_contain_text("Question ")


async def test_typing_is_quick_while_text_streams(browser: Browser, page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:

        async def stream() -> None:
            for number in range(1_000_000):
                await run.delta(f"w{number} ")

        streaming = asyncio.create_task(stream())
        try:
            await expect(page.locator("#lane .prose")).to_contain_text("w100 ")
            async with traced(browser, page) as trace:
                await page.locator("#box").press_sequentially("a message typed under a full stream")
        finally:
            streaming.cancel()
            await asyncio.gather(streaming, return_exceptions=True)
    assert trace.longest < LONGEST_MS, sorted(trace.tasks)[-5:]
    await expect(page.locator("#box")).to_have_value("a message typed under a full stream")
