"""The dashboard in a real browser: real runs, many of them, shown, filtered, stopped and decided."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from gateway.context.approval import Approve
from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from gateway.run import Run
from tests.browser.looks import look
from tests.e2e.processes import Gateway, until
from tests.servers import RedisServer

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

REFUND = ToolCall(id="call-1", name="send_refunds", arguments='{"batch":"november","amount":48.00}')


async def open_board(page: Page, gateway: Gateway, query: str = "") -> None:
    await page.goto(f"{gateway.url}/dashboard{query}")
    await expect(page.locator("#conn")).to_contain_text("Live")


def row(page: Page, title: str) -> Any:
    return page.locator(".run-row", has_text=title)


async def topics(page: Page) -> list[str]:
    """Give the topics of the rows and the names of the groups as they stand, from top to bottom."""
    script = """() => [...document.querySelectorAll('.run-row, .run-group')]
        .sort((one, other) => one.getBoundingClientRect().top - other.getBoundingClientRect().top)
        .map((row) => row.dataset.topic ?? `[${row.querySelector('b').textContent}]`)"""
    found: list[str] = await page.evaluate(script)
    return found


async def stands(page: Page, wanted: list[str]) -> None:
    async def so() -> bool:
        return await topics(page) == wanted

    await until(so, f"{wanted}")


@contextlib.asynccontextmanager
async def running(publisher: Publisher, *names: str) -> AsyncIterator[list[Run]]:
    """Give runs on topics of these names, titled and writing, started one after the other."""
    async with contextlib.AsyncExitStack() as stack:
        runs = []
        for name in names:
            run = await stack.enter_async_context(
                publisher.run(f"chat:{name}", agent=f"agent-{name[0]}", model="atlas-large")
            )
            await run.set_context(title=f"Title of {name}")
            await run.delta("Some words.")
            runs.append(run)
            await asyncio.sleep(0.002)  # they are ordered by the millisecond in which they began
        yield runs


async def test_first_run_and_quiet_pages_teach(gateway: Gateway, page: Page) -> None:
    await open_board(page, gateway)
    await expect(page.locator("#blank")).to_contain_text("No runs yet")
    await look(page, "board-first")
    async with Publisher(gateway.redis_url) as publisher, running(publisher, "a"):
        await expect(row(page, "Title of a")).to_contain_text("Writing")
        await expect(page.locator("#blank")).to_be_empty()
        await page.locator("#filter").fill("nothing like this")
        await expect(page.locator("#blank")).to_contain_text("No run matches")
        await look(page, "board-none")
        await page.get_by_role("button", name="Clear the filter").click()
        await expect(row(page, "Title of a")).to_be_visible()
    await expect(row(page, "Title of a")).to_contain_text("Done")


async def test_rows_tell_what_each_run_does(gateway: Gateway, page: Page) -> None:
    await open_board(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, running(publisher, "a", "b", "c", "d", "e", "f") as runs:
        a, b, c, d, e, _ = runs
        await a.add_message(Message.assistant(None, tool_calls=(REFUND,)))
        decision = asyncio.create_task(a.approval(REFUND))
        await b.tool_call("t1", "run_sql", "{}")
        await b.tool_call("t2", "read_file", "{}")
        await c.add_message(Message.assistant("Some words."))
        await c.thinking("Hm.")
        await d.fail(RuntimeError("out of quota"))
        await e.usage({"input_tokens": 9000, "output_tokens": 1100}, call="m")
        await e.log("error", "broken pipe")
        await expect(row(page, "Title of a")).to_contain_text("Needs you")
        await expect(row(page, "Title of a")).to_contain_text("send_refunds")
        await expect(row(page, "Title of a").get_by_role("button", name="Review")).to_contain_text(re.compile("0:0"))
        await expect(row(page, "Title of b")).to_contain_text("run_sql +1")
        await expect(row(page, "Title of b").locator(".c-tools")).to_have_text("2")
        await expect(row(page, "Title of c")).to_contain_text("Thinking")
        await expect(row(page, "Title of d")).to_contain_text("Failed")
        await expect(row(page, "Title of d")).to_contain_text("out of quota")
        await expect(row(page, "Title of e").locator(".c-tokens")).to_have_text("10k")
        await expect(row(page, "Title of e").locator(".c-errors")).to_have_text("1")
        await expect(row(page, "Title of f").locator(".c-agent")).to_contain_text("agent-f atlas-large")
        await stands(page, ["[Needs you]", "chat:a", "[Running]", *(f"chat:{n}" for n in "fecb"), "[Ended]", "chat:d"])
        for term, value in (("state:running", "5"), ("state:waiting", "1"), ("state:failed", "1"), ("tools>0", "2")):
            await expect(page.locator(f".stat[data-term='{term}'] .val")).to_have_text(value)
        await look(page, "board-live")
        await page.locator(".stat", has_text="Failed").click()
        await stands(page, ["[Ended]", "chat:d"])
        assert page.url.endswith("?q=state%3Afailed")
        await page.locator("#filter").press("Backspace")
        await page.locator("#filter").fill("tool:run_sql ")
        await stands(page, ["[Running]", "chat:b"])
        await page.reload()
        await stands(page, ["[Running]", "chat:b"])
        decision.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await decision


async def test_keyboard_walks_opens_and_comes_back(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, running(publisher, "a", "b", "c"):
        await open_board(page, gateway)
        await stands(page, ["[Running]", "chat:c", "chat:b", "chat:a"])
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await expect(row(page, "Title of b")).to_be_focused()
        await page.keyboard.press("k")
        await page.keyboard.press("ArrowDown")
        await expect(row(page, "Title of b")).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("?")
        await expect(page.locator("#keys")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await expect(page.locator("#filter")).to_be_focused()
        await page.keyboard.type("jk")
        await expect(page.locator("#filter")).to_have_value("jk")
        await page.keyboard.press("Escape")
        await page.locator("#filter").fill("")
        await row(page, "Title of b").focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"/dashboard/run\?topic=chat:b&run="))
        await expect(page.locator("h1")).to_have_text("Title of b")


async def test_question_is_reviewed_and_decided_on_the_board(gateway: Gateway, page: Page) -> None:
    await open_board(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, running(publisher, "a", "b") as runs:
        await runs[0].add_message(Message.assistant(None, tool_calls=(REFUND,)))
        decision = asyncio.create_task(runs[0].approval(REFUND))
        await row(page, "Title of a").get_by_role("button", name="Review").click()
        ask = page.locator("#review .ask")
        await expect(ask).to_contain_text("48.00")  # as it was written, not as a number is
        await look(page, "board-review")
        await ask.get_by_role("button", name="Approve").click(delay=500)
        assert await decision == Approve()
        await expect(page.locator("#review")).to_contain_text("Approved by you.")
        await expect(row(page, "Title of a")).not_to_contain_text("Needs you")
        await page.keyboard.press("Escape")
        await expect(page.locator("#review")).to_be_hidden()


async def test_stop_is_shown_by_its_events_only(gateway: Gateway, page: Page) -> None:
    await open_board(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, running(publisher, "a") as runs:
        await expect(row(page, "Title of a")).to_contain_text("Writing")
        await row(page, "Title of a").click()
        await page.keyboard.press("s")
        await expect(row(page, "Title of a").locator(".c-state")).to_contain_text("Stopping")
        await runs[0].cancel("asked")
        await expect(row(page, "Title of a").locator(".c-state")).to_contain_text("Stopped")


async def test_rows_hold_still_under_the_pointer_and_when_held(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, running(publisher, "a", "b"):
        await open_board(page, gateway, "?group=flat")
        await stands(page, ["chat:b", "chat:a"])
        await page.mouse.move(600, 500)
        async with running(publisher, "c"):
            await expect(page.locator("#fresh")).to_contain_text("1 new")
            await stands(page, ["chat:b", "chat:a"])
            await page.locator("#fresh-button").click()
            await stands(page, ["chat:c", "chat:b", "chat:a"])
            await page.mouse.move(600, 20)
            await page.locator("body").press("p")
            await expect(page.locator("#hold")).to_have_attribute("aria-pressed", "true")
            async with running(publisher, "d"):
                await expect(page.locator("#fresh")).to_contain_text("1 new")
                await page.locator("body").press("p")
                await stands(page, ["chat:d", "chat:c", "chat:b", "chat:a"])
        await page.locator("#head").get_by_role("button", name="Run").click()
        await stands(page, [f"chat:{name}" for name in "abcd"])
        await expect(page.locator("#head .c-title")).to_have_attribute("aria-sort", "ascending")


async def test_board_survives_restarts_of_gateway_and_store(browser: Browser, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "store", {"appendonly": "yes", "appendfsync": "always"}) as server:
        gateway = Gateway(server.url)
        await gateway.start()
        try:
            page = await browser.new_page()
            await open_board(page, gateway)
            async with Publisher(server.url) as publisher, running(publisher, "a", "b", "c") as runs:
                await stands(page, ["[Running]", "chat:c", "chat:b", "chat:a"])
                gateway.kill()
                await expect(page.locator("#conn")).not_to_contain_text("Live")
                await expect(page.locator("#main")).to_have_attribute("data-stale", "")
                assert gateway.process is not None
                await gateway.process.end()
                await runs[0].complete()
                await runs[1].tool_call("t", "run_sql", "{}")
                await look(page, "board-away", sizes=((1440, 900),))
                await gateway.start()
                await stands(page, ["[Running]", "chat:c", "chat:b", "[Ended]", "chat:a"])
                await expect(row(page, "Title of b")).to_contain_text("run_sql")
                with server.away():
                    await expect(page.locator("#conn")).to_contain_text("Not sure")
                await expect(page.locator("#conn")).to_contain_text("Live")
                await runs[2].fail("broken")
                await stands(page, ["[Running]", "chat:b", "[Ended]", "chat:c", "chat:a"])
                await expect(row(page, "Title of c")).to_contain_text("broken")
        finally:
            await gateway.stop()
