"""The chat page at a gateway that asks for tokens, in a real browser."""

import re

import pytest
from playwright.async_api import Page, expect

from gateway.broker.redis import RedisBroker
from tests.serving import append, serve
from tests.signing import SECRET, token

pytestmark = pytest.mark.browser
expect.set_options(timeout=30_000)


async def test_token_in_the_fragment_opens_the_page_and_nothing_else_does(
    page: Page, redis_url: str, key_prefix: str
) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(
        broker, "chat:ann", {"type": "user_message", "seq": 0, "content": "Only for Ann", "time": "2026-01-01"}
    )
    async with serve(redis_url, key_prefix, token_secrets=SECRET, user_grants="chat:{sub}") as gateway:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(f"{gateway.http}/?topic=chat:ann#token={token('ann', lasts=3600)}")
        await expect(page.locator("#lane")).to_contain_text("Only for Ann")
        await expect(page).to_have_url(re.compile(r"topic=chat:ann$"))
        await page.reload()
        await expect(page.locator("#lane")).to_contain_text("Only for Ann")
        await page.goto(f"{gateway.http}/?topic=chat:bob")
        await expect(page.get_by_text("No access").first).to_be_visible()
        assert not any("token=" in url.partition("#")[0] for url in asked)
        await page.evaluate("sessionStorage.clear()")
        await page.goto(f"{gateway.http}/?topic=chat:ann")
        await expect(page.get_by_text("Your access ended.").first).to_be_visible()
        await expect(page.locator("#lane")).not_to_contain_text("Only for Ann")
    await broker.aclose()
