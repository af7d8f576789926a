"""What users of other systems report about pages; the number in a test's name is the report's (see tests/faults)."""

import asyncio

import pytest
from playwright.async_api import Page, expect

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

DELTAS = 50_000
PARAGRAPH = 100
"""Words."""
COUNT_WRITTEN = """() => {
    window.written = 0;
    new MutationObserver((changes) => {
        for (const change of changes) {
            for (const node of change.addedNodes) window.written += node.textContent.length;
            if (change.type === 'characterData') window.written += change.target.data.length;
        }
    }).observe(document.getElementById('lane'), { childList: true, characterData: true, subtree: true });
}"""


async def opened(page: Page, gateway: Gateway) -> None:
    await page.goto(f"{gateway.url}/?topic=t")
    await expect(page.locator("#conn")).to_contain_text("Live")


async def test_44_page_catches_up_by_itself_after_a_drop(page: Page, gateway: Gateway) -> None:
    """After a drop messages are gone, and the session looks frozen until it is refreshed."""
    await opened(page, gateway)
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:
        await run.add_message(Message.user("Count."))
        await run.delta("one two ")
        await expect(page.locator("#lane .prose")).to_contain_text("one two")
        gateway.kill()
        assert gateway.process is not None
        await gateway.process.end()
        await run.delta("three four")
        await run.add_message(Message.assistant("one two three four"))
        await run.delta("and more")
        await run.flush()
        await gateway.start()
        await expect(page.locator("#lane .prose").last).to_contain_text("and more")
        await expect(page.locator("#conn")).to_contain_text("Live")
        await expect(page.locator("#lane .prose", has_text="one two three four")).to_have_count(1)


async def test_91_and_92_page_keeps_up_with_fifty_thousand_deltas_and_can_stop(page: Page, gateway: Gateway) -> None:
    """The page lags seconds behind, freezes, and the stop cannot run; here each delta costs its own length."""
    await opened(page, gateway)
    await page.evaluate(COUNT_WRITTEN)
    length = 0
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:
        for number in range(DELTAS):
            text = f"w{number}" + ("\n\n" if number % PARAGRAPH == PARAGRAPH - 1 else " ")
            length += len(text)
            await run.delta(text)
        await run.flush()
        shown = "(word) => document.getElementById('lane').textContent.includes(word)"
        await page.wait_for_function(shown, arg=f"w{DELTAS - 1}", timeout=60_000)
        await page.get_by_role("button", name="Stop", exact=True).click()
        async with asyncio.timeout(60):
            await asyncio.Event().wait()
    await expect(page.locator("#chip")).to_contain_text("Stopped")
    assert await page.evaluate("window.written") < 20 * length
