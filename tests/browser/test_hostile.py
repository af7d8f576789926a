"""The pages under hostile texts: nothing of it runs, the layout holds, and they answer; GATEWAY_LONG=1 at full size."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

LONG = bool(os.environ.get("GATEWAY_LONG"))
LINE = 1_000_000
"""Characters without a space or a line break."""
CALLS = 10_000 if LONG else 2_000
STEP = 100
"""Calls in one message."""
ANSWER = 30
"""Seconds after which a page counts as hung."""

SCRIPTS = [
    "<script>window.hit=1</script>",
    "<img src=x onerror='window.hit=1'><svg/onload=window.hit=1><iframe srcdoc='<script>parent.hit=1</script>'>",
    "[link](javascript:window.hit=1) ![image](javascript:window.hit=1) <javascript:window.hit=1>",
    "[a]( JaVa\tScRiPt:window.hit=1) [b](data:text/html,<script>window.hit=1</script>) [c](vbscript:x)",
    '[d](https://good.example"onmouseover=window.hit=1) [e](//evil.example) [f]: javascript:window.hit=1',
    "```html\n</code></pre><script>window.hit=1</script>\n```\n`</code><script>window.hit=1</script>`",
    "| a | b |\n|---|---|\n| <script>window.hit=1</script> | [x](javascript:window.hit=1) |",
    "&lt;script&gt;window.hit=1&lt;/script&gt; &#60;script&#62; \\<script\\> <!-- --><style>*{display:none}</style>",
    "</title></textarea></template><base href='https://evil.example/'><meta http-equiv=refresh content='0;url=//evil'>",
    "{{constructor.constructor('window.hit=1')()}} ${window.hit=1} #{window.hit=1}",
]
LAYOUTS = [
    "\u202e\u2066right to left\u2067 and never back " * 20,
    "e" + "\u0301" * 20_000,
    "\u200b\u200d\ufeff" * 20_000,
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 " * 50,
    "x" * 30_000,
    "9" * 30_000,
    "> " * 2000 + "deep",
    "- " * 2000 + "deep",
    "\n".join("  " * depth + "- item" for depth in range(300)),
    "*" * 10_000 + "_" * 10_000 + "[" * 10_000 + "`" * 9999,
    "|" * 5000 + "\n" + "|-" * 2500,
    "\x00\x01\x1b[31m\ufffd\ud83d",
]
NAME = "<img src=x onerror=window.hit=1>\u202eevil"
QUESTIONS = {
    "/?topic=chat:1": "#lane .ask",
    "/dashboard": "#review .ask",
    "/dashboard/run?topic=chat:1": "#inspector .ask",
}
"""Where each page asks for an approval."""


@pytest.fixture
async def watched(browser: Browser) -> AsyncIterator[Page]:
    """A page that notes what must not be: dialogs, errors, policies that had to step in, requests to elsewhere."""
    trouble: list[str] = []
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("dialog", lambda dialog: trouble.append(f"dialog: {dialog.message}"))
    page.on("console", lambda line: trouble.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("request", lambda asked: trouble.append(asked.url) if "evil" in asked.url.partition("?")[0] else None)
    yield page
    assert trouble == []
    await page.close()


async def unharmed(page: Page) -> None:
    """See that the page answers, that nothing ran, and that the page is no wider than its window."""
    async with asyncio.timeout(ANSWER):
        assert await page.evaluate("new Promise(done => requestAnimationFrame(() => done(1)))") == 1
    assert await page.evaluate("window.hit") is None
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    links = await page.evaluate("[...document.querySelectorAll('a[href]')].map(link => link.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    assert await page.evaluate("document.querySelectorAll('main script, main iframe, main style, base').length") == 0


async def _publish(gateway: Gateway, topic: str, texts: list[str]) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run(topic, agent=NAME, model=NAME) as run:
        for number, text in enumerate(texts):
            await run.add_message(Message.user(text))
            await run.thinking(text)
            await run.delta(text)
            call = ToolCall(id=f"c{number}", name=NAME, arguments=json.dumps({text[:500]: text[:20_000]}))
            await run.add_message(Message.assistant(text, tool_calls=(call,)))
            await run.tool_call(f"c{number}", NAME, call.arguments)
            await run.tool_result(f"c{number}", NAME, text, error=number % 2 == 0)
            await run.log("error", text[:10_000], logger=NAME, fields={NAME: text[:1000]})
        await run.delta("the last word")
        await run.add_message(Message.assistant("the last word"))


@pytest.mark.parametrize("texts", [SCRIPTS, LAYOUTS], ids=["scripts", "layouts"])
async def test_chat_shows_hostile_texts_as_texts(gateway: Gateway, watched: Page, texts: list[str]) -> None:
    await _publish(gateway, "chat:1", texts)
    await watched.goto(f"{gateway.url}/?topic=chat:1")
    await expect(watched.get_by_text("the last word").last).to_be_visible()
    for button in await watched.get_by_role("button", expanded=False).all():
        if await button.is_visible():
            await button.click()
    await unharmed(watched)
    for link in await watched.locator("main a[href]").all():
        assert (
            not (await link.get_attribute("href") or "").lower().strip().startswith(("javascript", "data", "vbscript"))
        )
    await watched.set_viewport_size({"width": 360, "height": 740})
    await unharmed(watched)


@pytest.mark.parametrize("texts", [SCRIPTS, LAYOUTS], ids=["scripts", "layouts"])
async def test_dashboard_shows_hostile_texts_as_texts(gateway: Gateway, watched: Page, texts: list[str]) -> None:
    await _publish(gateway, "chat:1", texts)
    await watched.goto(f"{gateway.url}/dashboard")
    row = watched.locator(".run-row[data-topic='chat:1']")
    await expect(row).to_contain_text("Done")
    await expect(row.locator(".c-agent")).to_contain_text(NAME)
    await unharmed(watched)
    await watched.set_viewport_size({"width": 360, "height": 740})
    await expect(row).to_be_visible()
    await unharmed(watched)


@pytest.mark.parametrize("texts", [SCRIPTS, LAYOUTS], ids=["scripts", "layouts"])
async def test_run_page_shows_hostile_texts_as_texts(gateway: Gateway, watched: Page, texts: list[str]) -> None:
    await _publish(gateway, "chat:1", texts)
    await watched.goto(f"{gateway.url}/dashboard/run?topic=chat:1")
    await expect(watched.locator("#chip")).to_contain_text("Done")
    await expect(watched.locator("#error-count")).to_have_text(str(len(texts)))
    await watched.locator(".fall-row[role=treeitem]").first.click()
    for _ in range(2 * len(texts)):
        await watched.keyboard.press("j")
        await unharmed(watched)
    await watched.locator(".fall-row[role=treeitem]", has_text=NAME).last.click()
    await expect(watched.locator("#inspector")).to_contain_text(NAME)
    for tab in ("#tab-events", "#tab-context", "#tab-log"):
        await watched.locator(tab).click()
        await unharmed(watched)
    for line in await watched.locator("#log .log").all():
        await line.click()
        await unharmed(watched)
    await watched.set_viewport_size({"width": 360, "height": 740})
    await unharmed(watched)


@pytest.mark.parametrize("texts", [SCRIPTS, LAYOUTS], ids=["scripts", "layouts"])
async def test_question_and_failure_of_hostile_texts_are_shown_as_texts(
    gateway: Gateway, watched: Page, texts: list[str]
) -> None:
    async with Publisher(gateway.redis_url) as publisher:
        with contextlib.suppress(RuntimeError):
            async with publisher.run("chat:1", agent=NAME, model=NAME) as run:
                await run.set_context(title=NAME)
                call = ToolCall(id="c1", name=NAME, arguments=json.dumps({text[:500]: text[:5000] for text in texts}))
                await run.add_message(Message.assistant("", tool_calls=(call,)))
                decision = asyncio.create_task(run.approval(call))
                for path, question in QUESTIONS.items():
                    await watched.goto(gateway.url + path)
                    if path == "/dashboard":
                        await watched.get_by_role("button", name="Review").click()
                    elif "run" in path:
                        await watched.locator(
                            ".fall-row .mono", has_text=NAME
                        ).click()  # the agent's row has the name too
                    await expect(watched.locator(question)).to_contain_text(f"Run {NAME}?")
                    await unharmed(watched)
                decision.cancel()
                raise RuntimeError("".join(text[:500] for text in texts))
        for path in QUESTIONS:
            await watched.goto(gateway.url + path)
            state = ".run-row .c-state" if path == "/dashboard" else "#chip"
            await expect(watched.locator(state)).to_contain_text("Failed")
            await unharmed(watched)


async def test_line_without_end_leaves_the_pages_answering(gateway: Gateway, watched: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run("chat:1", agent="a") as run:
        for _ in range(20):
            await run.delta("x" * (LINE // 20))
        await watched.goto(f"{gateway.url}/?topic=chat:1")
        await expect(watched.locator("#chip")).to_contain_text("Writing")
        await unharmed(watched)
        await run.add_message(Message.assistant("x" * LINE))
        await run.log("error", "x" * (LINE // 20))
        await run.add_message(Message.assistant("the last word"))
    await expect(watched.locator("#lane .prose").last).to_have_text("the last word")
    await expect(watched.locator("#chip")).to_contain_text("Done")
    await unharmed(watched)
    await watched.goto(f"{gateway.url}/dashboard/run?topic=chat:1")
    await watched.locator("#tab-context").click()
    await expect(watched.locator("#context-lane .prose").last).to_have_text("the last word")
    await unharmed(watched)


async def test_thousands_of_tool_calls_leave_the_pages_answering(gateway: Gateway, watched: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run("chat:1", agent="a") as run:
        for step in range(CALLS // STEP):
            calls = tuple(ToolCall(id=f"c{step}.{number}", name="tool", arguments="{}") for number in range(STEP))
            await run.add_message(Message.assistant("", tool_calls=calls))
            for call in calls:
                await run.tool_call(str(call.id), "tool", "{}")
                await run.tool_result(str(call.id), "tool", "done")
        await run.add_message(Message.assistant("the last word"))
    await watched.goto(f"{gateway.url}/?topic=chat:1")
    await expect(watched.locator("#lane .prose").last).to_have_text("the last word")
    await unharmed(watched)
    await watched.goto(f"{gateway.url}/dashboard")
    await expect(watched.locator(".run-row[data-topic='chat:1']")).to_contain_text("Done")
    await unharmed(watched)
    await watched.goto(f"{gateway.url}/dashboard/run?topic=chat:1")
    await expect(watched.locator("#event-count")).not_to_be_empty()
    await watched.locator("#tab-events").click()
    await expect(watched.locator("#log .log", has_text="agent_complete")).to_be_visible()
    await unharmed(watched)
