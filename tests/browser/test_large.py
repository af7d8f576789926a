"""A large tool result on the chat page: its beginning, and the whole when it is asked for."""

import pytest
from playwright.async_api import Browser, expect

from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from tests.e2e.processes import running_gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)


async def test_large_result_is_loaded_on_demand(browser: Browser) -> None:
    result = "first line\n" + "x" * 5_000_000 + "\nlast line"
    async with running_gateway() as gateway, Publisher(gateway.redis_url) as publisher:
        async with publisher.run("t", agent="a") as run:
            await run.add_message(Message.assistant("", tool_calls=(ToolCall(id="c1", name="cat", arguments="{}"),)))
            await run.tool_call("c1", "cat", "{}")
            await run.tool_result("c1", "cat", result)
        page = await browser.new_page()
        await page.goto(f"{gateway.url}/?topic=t")
        await expect(page.locator("#chip")).to_contain_text("Done")
        await page.get_by_role("button", name="cat").first.click()
        card = page.locator(".card", has_text="the beginning of 5.0 MB")
        await expect(card.locator("pre")).to_contain_text("first line")
        await expect(card.locator("pre")).not_to_contain_text("last line")
        await page.route("**/blobs/*", lambda route: route.abort(), times=1)
        load = page.get_by_role("button", name="Load all 5.0 MB")
        await load.click()
        await expect(page.get_by_text("It could not be loaded.")).to_be_visible()
        await load.click()
        await expect(page.locator(".card pre").last).to_contain_text("last line")
        await expect(load).to_have_count(0)
        await page.close()
