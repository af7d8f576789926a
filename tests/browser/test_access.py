"""The chat page at a gateway that asks for tokens, in a real browser."""

import re

import pytest
from playwright.async_api import Page, Route, expect

from gateway import Client
from gateway.broker.redis import RedisBroker
from tests.browser.looks import SIZES, look
from tests.e2e.processes import Gateway
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
        await expect(page.get_by_role("heading", name="This gateway asks for a token")).to_be_visible()
        await expect(page.locator("#say-alert")).to_have_text("This gateway asks for a token")
        await expect(page.locator("#conn")).to_have_text("Not signed in")
        await expect(page.locator("#lane")).not_to_contain_text("Only for Ann")
        await look(page, "chat-no-token", sizes=SIZES)
        assert await page.evaluate("document.activeElement === document.body")  # nothing focuses itself
        field, enter = page.get_by_label("Token"), page.get_by_role("button", name="Sign in")
        await field.fill("no token at all")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert").filter(has_text="That is no token")).to_be_visible()
        await field.fill(token("ann", secret="another secret of 64 characters that this gateway does not know"))
        await enter.click()
        await expect(page.get_by_role("heading", name="does not take your token")).to_be_visible()
        await expect(page.locator("#blank")).to_contain_text("invalid token")
        await look(page, "chat-wrong-token", sizes=SIZES)
        await field.fill(token("ann", lasts=-3600))
        await enter.click()
        await expect(page.get_by_role("heading", name="Your token has expired")).to_be_visible()
        await page.locator("#box").fill("a draft")
        await field.fill(f"Bearer {token('bob', lasts=3600)}")
        await enter.click()
        await expect(page.get_by_role("heading", name="You cannot read this chat")).to_be_visible()
        await expect(page.locator("#composer-note")).to_have_text("Sign in to write")
        await expect(page.locator("#send")).to_be_disabled()
        await look(page, "chat-denied", sizes=SIZES)
        await field.fill(f"{gateway.http}/?topic=chat:ann#token={token('ann', lasts=3600)}")
        await enter.click()
        await expect(page.locator("#lane")).to_contain_text("Only for Ann")
        await expect(page.locator("#box")).to_have_value("a draft")
        assert "token" not in page.url
        assert not any("token=" in url for url in asked)
    await broker.aclose()


async def test_message_that_the_user_sent_from_elsewhere_is_their_own(
    page: Page, redis_url: str, key_prefix: str
) -> None:
    async with serve(redis_url, key_prefix, token_secrets=SECRET, user_grants="*") as gateway:
        await page.goto(f"{gateway.http}/?topic=t#token={token('ann', lasts=3600)}")
        await expect(page.locator("#conn")).to_contain_text("Live")
        for user in ("ann", "bob"):
            async with Client(gateway.http, token=token(user, lasts=3600)) as elsewhere:
                await elsewhere.send("t", f"From {user}")
        rows = page.locator("#queue li:not(.only-tiny)")
        await expect(rows.nth(0)).to_contain_text("You: From ann")
        await expect(rows.nth(1)).to_contain_text("bob: From bob")
        await rows.nth(0).get_by_role("button", name="Withdraw this message").click()
        await expect(rows).to_have_count(1)


async def test_what_could_not_be_loaded_is_tried_again(page: Page, gateway: Gateway) -> None:
    failed: list[str] = []

    async def lost(route: Route) -> None:
        if len(failed) < 2:
            failed.append(route.request.url)
            await route.abort()
        else:
            await route.continue_()

    await page.route("**/first_run.js*", lost)
    await page.goto(f"{gateway.url}/?topic=chat:new")
    await expect(page.locator("#blank")).to_contain_text("Publisher")
    assert len(failed) == 2
