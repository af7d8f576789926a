"""The chat page in a real browser, on the demo and on a recorded run."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway, Process, running_gateway, until
from tests.recordings import FOLDER, read

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

LONGEST = FOLDER / "anthropic" / "anthropic-programmatic-tool-calling.1.jsonl"


@pytest.fixture
async def demo() -> AsyncIterator[str]:
    """`gateway demo`, as `make demo` runs it; gives its address."""
    process = await Process.start("demo", "--no-open", "--port", "0", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    line = await process.line()
    found = re.search(r"http://\S+", line)
    assert found, line + str(await process.end())
    yield found[0]
    process.kill(signal.SIGINT)
    code, _, err = await process.end()
    assert code in {0, 130}, err


async def written(page: Page) -> str:
    """Read the conversation as it is shown, without the line that says it is over."""
    return "\n".join(await page.locator("#lane .prose").all_inner_texts())


async def test_type_watch_it_grow_reload_and_see_it_continue(demo: str, page: Page) -> None:
    await page.goto(demo)
    await page.get_by_role("textbox", name="Message").fill("What is 6*7? Tell me about this message too.")
    await page.keyboard.press("Enter")

    async def grown(length: int) -> bool:
        return len(await written(page)) > length

    await until(lambda: grown(20), "the first words")
    begun = await written(page)
    await until(lambda: grown(len(begun)), "more words")
    await page.reload()
    # In mid-stream: what was there is there at once, and goes on growing.
    await until(lambda: grown(len(begun)), "the text to be back")
    assert (await written(page)).startswith(begun[:20])
    await expect(page.locator("#chip")).to_contain_text("Done")
    whole = await written(page)
    assert "42" in whole
    assert whole.startswith(begun[:20])
    assert await page.locator("#lane .user").count() == 1
    await page.reload()
    await expect(page.locator("#chip")).to_contain_text("Done")
    assert await written(page) == whole


async def test_message_is_text_and_never_markup(demo: str, page: Page) -> None:
    await page.goto(demo)
    await page.get_by_role("textbox", name="Message").fill("<img src=x onerror=alert(1)> **bold** 1+1")
    await page.keyboard.press("Enter")
    await expect(page.locator("#lane .user")).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(page.locator("#chip")).to_contain_text("Done")
    assert await page.locator("#lane img").count() == 0


MIRROR = """async ([topic]) => {
    const { Gateway } = await import('/static/gateway/index.js');
    const gateway = new Gateway({ url: `ws://${location.host}/connection/websocket` });
    window.followed = gateway.subscribe(topic, { mirror: true });
    gateway.connect();
}"""


async def browser_mirror(page: Page, offset: int) -> Any:
    """Give the browser library's mirror once it stands at an offset."""
    await page.wait_for_function("offset => window.followed.mirror.offset >= offset", arg=offset, timeout=60_000)
    return json.loads(await page.evaluate("JSON.stringify(window.followed.mirror.snapshot())"))


async def replayed(gateway: Gateway, path: Path, topic: str, speed: str) -> Process:
    arguments = ("--provider", "anthropic", "--topic", topic, "--speed", speed, "--redis-url", gateway.redis_url)
    return await Process.start("replay", str(path), *arguments)


@pytest.mark.streams
@pytest.mark.skipif(not LONGEST.exists(), reason=f"{LONGEST} is not there (set GATEWAY_STREAMS)")
@pytest.mark.parametrize("fault", [None, "gateway"])
async def test_two_browsers_one_joined_half_way_end_equal(browser: Browser, fault: str | None) -> None:
    async with running_gateway() as gateway:
        early, late = await browser.new_page(), await browser.new_page()
        address = f"{gateway.url}/?topic=t"
        await early.goto(address)
        await early.evaluate(MIRROR, ["t"])
        process = await replayed(gateway, LONGEST, "t", "1.5")

        async def at(offset: int) -> bool:
            return bool((await gateway.topic("t"))["offset"] >= offset)

        await until(lambda: at(60), "the middle of the run")
        await late.goto(address)
        await late.evaluate(MIRROR, ["t"])
        if fault == "gateway":
            gateway.kill()
            assert gateway.process is not None
            await gateway.process.end()
            await gateway.start()
        assert (await process.end())[0] == 0
        snapshot = await gateway.topic("t")
        assert await browser_mirror(early, snapshot["offset"]) == snapshot
        assert await browser_mirror(late, snapshot["offset"]) == snapshot
        for page in (early, late):
            await expect(page.locator("#chip")).to_contain_text("Done")
            await expect(page.locator("#conn")).to_contain_text("Live")
        assert await written(early) == await written(late)
        shown = re.findall(r"\w+", await written(late))
        texts = [turn.text for turn in read("anthropic", LONGEST)]
        # Entries far above what is in view keep their place and lose their text.
        assert shown[-100:] == [word for text in texts for word in re.findall(r"\w+", text)][-100:]


async def test_page_says_when_it_is_not_live(browser: Browser) -> None:
    async with running_gateway() as gateway:
        page = await browser.new_page()
        await page.goto(f"{gateway.url}/?topic=t")
        await expect(page.locator("#conn")).to_contain_text("Live")
        gateway.kill()
        await expect(page.locator("#conn")).not_to_contain_text("Live")
        assert gateway.process is not None
        await gateway.process.end()
        await gateway.start()
        await expect(page.locator("#conn")).to_contain_text("Live")


async def test_failed_and_interrupted_runs_show_what_is_kept(browser: Browser) -> None:
    async with running_gateway() as gateway:
        page = await browser.new_page()
        await page.goto(f"{gateway.url}/?topic=t")
        async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="breaker") as run:
            await run.add_message(Message.user("Go on."))
            await run.delta("The first half of")
            await run.fail(RuntimeError("the model went away"))
        await expect(page.locator("#chip")).to_contain_text("Failed")
        await expect(page.locator("#lane")).to_contain_text("The first half of")
        await expect(page.locator("#lane")).to_contain_text("the model went away")
        await asyncio.gather(page.reload(), expect(page.locator("#chip")).to_contain_text("Failed"))
        await expect(page.locator("#lane")).to_contain_text("The first half of")
