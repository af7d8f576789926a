"""The dashboard and the run page where one may not look, or cannot: what they say, at every width."""

import pytest
from playwright.async_api import Page, expect

from gateway.broker.redis import RedisBroker
from tests.browser.looks import look
from tests.serving import append, serve
from tests.signing import SECRET, token

pytestmark = pytest.mark.browser
expect.set_options(timeout=30_000)

STARTED = {"type": "agent_start", "run": "r", "agent": "researcher", "at": 1}


async def test_pages_without_a_token_say_so_and_with_the_wrong_grant_what_is_missing(
    page: Page, redis_url: str, key_prefix: str
) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, "chat:ann", STARTED)
    async with serve(redis_url, key_prefix, token_secrets=SECRET, user_grants="chat:{sub}") as gateway:
        for path, name in (("/dashboard", "board"), ("/dashboard/run?topic=chat:ann", "run")):
            await page.goto(f"{gateway.http}{path}")
            await expect(page.get_by_role("heading", name="This gateway asks for a token")).to_be_visible()
            await expect(page.locator("#conn")).to_have_text("Not signed in")
            await look(page, f"{name}-no-token")
        await page.get_by_label("Token").fill(token("bob", lasts=3600))
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="You cannot read this run")).to_be_visible()
        await look(page, "run-denied")
        await page.goto(f"{gateway.http}/dashboard")
        await expect(page.locator("#blank")).to_contain_text("that your token lets you read")
        await look(page, "board-not-mine")
        await page.goto(f"{gateway.http}/dashboard#token={token('ann', lasts=3600)}")
        await expect(page.locator(".run-row")).to_contain_text("researcher")
    await broker.aclose()
