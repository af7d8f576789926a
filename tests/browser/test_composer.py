"""What a person writes on the chat page, from the box to the topic."""

import re

import pytest
from playwright.async_api import Page, Route, expect

from gateway import Publisher
from gateway.actions import MAX_CONTENT
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)


async def opened(page: Page, gateway: Gateway, topic: str = "t") -> None:
    await page.goto(f"{gateway.url}/?topic={topic}")
    await expect(page.locator("#conn")).to_contain_text("Live")


async def say(page: Page, text: str) -> None:
    await page.locator("#box").fill(text)
    await page.keyboard.press("Enter")


async def test_each_message_that_waits_is_shown_once(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    for text in ("alpha", "beta", "gamma"):
        await say(page, text)
        await expect(page.locator("#queue li:not(.only-tiny)").last).to_contain_text(text)
        await expect(page.locator("#lane .user")).to_have_count(0)
    await expect(page.locator("#queue li:not(.only-tiny)")).to_have_count(3)


async def test_chat_that_no_agent_listens_to_says_so(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    await say(page, "alpha")
    heading = page.get_by_role("heading", name="Waiting for an agent")
    await expect(heading).to_be_visible()
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="late"):
        await expect(heading).to_have_count(0)


async def test_queue_stands_apart_from_the_box(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    await say(page, "alpha")
    await expect(page.locator("#queue")).to_contain_text("alpha")
    queue, box = await page.locator("#queue").bounding_box(), await page.locator("#composer").bounding_box()
    assert queue is not None
    assert box is not None
    # The box has a ring of 3 px while it has the focus.
    assert queue["y"] + queue["height"] + 3 <= box["y"]


@pytest.mark.parametrize("text", ["x" * MAX_CONTENT, "\U0001f600" * (MAX_CONTENT // 4), '"' * (MAX_CONTENT // 2)])
async def test_longest_message_is_sent_and_a_longer_one_says_why_not(page: Page, gateway: Gateway, text: str) -> None:
    await opened(page, gateway)
    note, send = page.locator("#composer-note"), page.locator("#send")
    await say(page, text + "y")
    await expect(note).to_have_text("Too long by 1 byte: a message may have 64 KiB.")
    await expect(page.locator("#say-alert")).to_contain_text("Not sent. Too long by 1 byte")
    await expect(page.locator("#box")).to_have_attribute("aria-invalid", "true")
    await expect(page.locator("#box")).to_have_value(text + "y")
    await expect(send).to_be_disabled()
    before = await send.evaluate("element => getComputedStyle(element).backgroundColor")
    await send.hover(force=True)
    assert await send.evaluate("element => getComputedStyle(element).backgroundColor") == before
    await say(page, text)
    await expect(note).to_be_hidden()
    await expect(page.locator("#queue")).to_contain_text(text[:10])
    assert (await gateway.topic("t"))["mirror"]["queue"][0]["content"] == text


async def test_refused_message_can_be_edited_and_not_sent_again(page: Page, gateway: Gateway) -> None:
    # A gateway with another limit, or another build of the page: what it refuses is refused for good.
    await page.route(re.compile(r"/chat/main\.js"), without_limit)
    await opened(page, gateway)
    await say(page, "z" * (MAX_CONTENT + 1))
    notice = page.locator("#unsent .notice")
    await expect(notice).to_contain_text(f"Not sent. `content` may have {MAX_CONTENT} bytes as JSON")
    await expect(notice.locator("p")).not_to_contain_text("Sending again")
    await expect(page.get_by_role("button", name="Send again")).to_have_count(0)
    inside, around = await notice.bounding_box(), await page.locator("#composer").bounding_box()
    assert inside is not None
    assert around is not None
    assert inside["x"] + inside["width"] <= around["x"] + around["width"]
    await page.locator("#box").fill("and a draft")
    await notice.get_by_role("button", name="Edit").click()
    await expect(page.locator("#box")).to_have_value("z" * (MAX_CONTENT + 1) + "\n\nand a draft")
    await expect(notice).to_have_count(0)


async def without_limit(route: Route) -> None:
    text = await (await route.fetch()).text()
    changed = text.replace("64 * 1024", "1e9")
    assert changed != text
    await route.fulfill(body=changed, content_type="text/javascript")


async def test_message_written_without_a_connection_goes_when_it_is_back(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    gateway.kill()
    assert gateway.process is not None
    await gateway.process.end()
    await expect(page.locator("#conn")).to_contain_text("Reconnecting")
    await say(page, "across the gap")
    await expect(page.locator("#lane .user")).to_contain_text("waits for the connection")
    await gateway.start()
    await page.keyboard.press("Shift")
    await expect(page.locator("#queue")).to_contain_text("across the gap")
    await expect(page.locator("#lane .user")).to_have_count(0)
    assert [row["content"] for row in (await gateway.topic("t"))["mirror"]["queue"]] == ["across the gap"]


@pytest.mark.parametrize("topic", ["bad%20topic", "a" * 201, "%3Cscript%3E", ""])
async def test_address_that_names_no_topic_says_so(page: Page, gateway: Gateway, topic: str) -> None:
    await page.goto(f"{gateway.url}/?topic={topic}")
    await expect(page.get_by_role("heading", name="That is not a chat’s name")).to_be_visible()
    await expect(page.locator("#blank")).to_contain_text("1 to 200")
    await expect(page.locator("#box")).to_be_hidden()
    assert page.url == f"{gateway.url}/?topic={topic}"
    await page.locator("#blank").get_by_role("link", name="New chat").click()
    await expect(page.locator("#conn")).to_contain_text("Live")
