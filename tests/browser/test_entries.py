"""What the chat page makes of runs that end, or do not end, in other ways than well."""

import asyncio

import pytest
from playwright.async_api import Browser, Page, expect

from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

LOOK = ToolCall(id="call-1", name="look", arguments='{"where":"attic"}')
HEIGHTS = """() => {
    window.heights = [];
    const lane = document.getElementById('lane');
    new ResizeObserver(() => window.heights.push(lane.offsetHeight)).observe(lane);
}"""


async def opened(page: Page, gateway: Gateway) -> None:
    await page.goto(f"{gateway.url}/?topic=t")
    await expect(page.locator("#conn")).to_contain_text("Live")


async def test_refused_and_cut_off_answers_say_so(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    item = {"type": "mcp_approval_request", "name": "search", "arguments": '{"q":"gateway"}'}
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        await run.add_message(Message.user("Do it."))
        await run.add_message(Message.assistant(None, metadata={"refusal": "against the policy"}))
        await run.add_message(Message.assistant("Half of", metadata={"finish_reason": "length"}))
        await run.add_message(Message.assistant(None, metadata={"items": [item]}))
    await expect(page.locator("#chip")).to_contain_text("Done")
    await expect(page.locator("#lane")).to_contain_text("The model refused: against the policy.")
    await expect(page.locator("#lane")).to_contain_text("Cut off at the length limit.")
    line = page.get_by_role("button", name="mcp_approval_request")
    await expect(page.locator("#lane .card pre")).to_be_hidden()
    await line.click()
    await expect(page.locator("#lane .card pre")).to_contain_text('"name": "search"')


async def test_call_that_was_cut_off_is_not_shown_as_done(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher:
        async with publisher.run("t", agent="a") as run:
            await run.add_message(Message.assistant(None, tool_calls=(LOOK,)))
            context = run.context
        async with publisher.run("t", agent="a", context=context.patch_dangling_tool_calls(), adopt=True) as run:
            await run.add_message(Message.assistant("I go on."))
    await expect(page.locator("#lane .prose")).to_have_text("I go on.")
    await expect(page.locator("#lane .card")).to_have_count(1)
    await expect(page.locator("#lane .card")).to_contain_text("No result. It may have had effects.")
    await expect(page.locator("#lane .line", has_text="look")).to_have_count(0)
    await expect(page.locator("#tree").get_by_role("button", name="Stopped look")).to_be_visible()


async def test_silent_run_is_not_shown_as_writing(page: Page, gateway: Gateway) -> None:
    await page.clock.install()
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        await run.delta("And then ")
        caret = page.locator("#lane .caret")
        await expect(caret).to_have_count(1)
        await expect(page.locator("#lane [data-live]")).to_have_count(1)
        await page.clock.fast_forward(20_000)
        await expect(page.locator("#lane")).to_contain_text("No sign of life for 2")
        await expect(page.locator("#chip")).to_have_text("Silent")
        await expect(page.locator("#note")).to_contain_text("silent for 2")
        await expect(page.locator("#say-status")).to_have_text("a gives no sign of life")
        await expect(page.locator("#tree").get_by_role("img", name="Silent")).to_be_visible()
        await expect(page.locator("#list").get_by_role("img", name="Silent")).to_be_visible()
        await expect(page.locator("#lane [data-live]")).to_have_count(0)
        assert await caret.evaluate("element => getComputedStyle(element, '::after').display") == "none"
        await run.delta("it went on.")
        await expect(page.locator("#lane")).not_to_contain_text("No sign of life")
        await expect(page.locator("#chip")).to_have_text("Writing")
    await expect(page.locator("#chip")).to_have_text("Done")


async def test_finished_call_folds_and_never_grows(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        await run.add_message(Message.assistant(None, tool_calls=(LOOK,)))
        await run.tool_call("call-1", "look", LOOK.arguments or "")
        await expect(page.locator("#lane .card")).to_contain_text("running")
        await page.evaluate(HEIGHTS)
        before = await page.locator("#lane .card").evaluate("card => card.closest('.entry').offsetHeight")
        lane = await page.locator("#lane").evaluate("lane => lane.offsetHeight")
        await run.tool_result("call-1", "look", "a result\nof\nsome\nlines")
        await expect(page.locator("#lane button.line", has_text="look")).to_be_visible()
        await expect(page.locator("#lane .card")).to_have_count(0)
        after = page.locator("#lane .entry", has_text="look")
        assert await after.evaluate("entry => entry.offsetHeight") < before
        # "Waiting for the model" comes below it meanwhile.
        line = await page.locator("#lane .entry").last.evaluate("entry => entry.offsetHeight")
        assert max(await page.evaluate("window.heights")) <= lane + line


async def test_result_that_is_no_json_is_shown_as_it_is(page: Page, gateway: Gateway) -> None:
    result = 'if ready { go("north") }  // 2 ways'
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        await run.add_message(Message.assistant(None, tool_calls=(LOOK,)))
        await run.tool_call("call-1", "look", LOOK.arguments or "")
        await run.tool_result("call-1", "look", result, error=True)
    shown = page.locator("#lane .card-part", has_text="Error").locator("pre")
    assert await shown.text_content() == result
    await expect(shown.locator("span")).to_have_count(0)


async def test_people_without_names_are_guests(browser: Browser, page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    other = await browser.new_page()
    await opened(other, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        await run.add_message(Message.user("From the command line", name="anonymous"))
        await run.delta("Begun ")
        await other.get_by_role("button", name="Stop", exact=True).click()
        await asyncio.Event().wait()
    await expect(page.locator("#lane")).to_contain_text("Stopped by someone")
    await expect(page.locator("#lane .who")).to_contain_text("Guest")
    await expect(page.locator("#lane")).not_to_contain_text("anonymous")


async def test_long_title_leaves_the_note_on_one_line(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a-long-name") as run:
        await run.add_message(Message.user("a title of many words " * 8))
    await expect(page.locator("#note")).to_contain_text("a-long-name")
    box = await page.locator("#note").bounding_box()
    assert box is not None
    assert box["height"] < 26
    overflow = "document.querySelector('header.bar').scrollWidth > document.querySelector('header.bar').clientWidth"
    assert not await page.evaluate(overflow)


async def test_code_of_the_empty_page_fits_a_phone(page: Page, gateway: Gateway) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})
    await opened(page, gateway)
    await page.locator("#blank summary").click()
    wider = "all => all.filter(pre => pre.scrollWidth > pre.clientWidth).length"
    assert await page.locator("#blank pre").count() > 0
    assert await page.locator("#blank pre").evaluate_all(wider) == 0


async def test_code_is_coloured_when_it_is_whole_and_nothing_moves(page: Page, gateway: Gateway) -> None:
    lines = [f'    value_{number} = "text {number}"  # a comment' for number in range(400)]
    code = "def long():\n" + "\n".join(lines) + '\n    """A text\nof more lines."""'
    await opened(page, gateway)
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run("t", agent="a") as run:
        await run.delta("```python\n" + code[:9000])
        shown = page.locator("#lane .code code")
        await expect(shown).to_contain_text("value_100")
        await expect(shown.locator(".w")).to_have_count(0)
        await run.delta(code[9000:] + "\n```\n\nSo it is.")
        await expect(page.locator("#lane .prose")).to_contain_text("So it is.")
        await expect(shown.locator(".c")).to_have_count(400)
        height = await shown.evaluate("element => element.offsetHeight")
        await run.add_message(Message.assistant(f"```python\n{code}\n```\n\nSo it is."))
    await expect(page.locator("#chip")).to_contain_text("Done")
    assert await shown.text_content() == code
    await expect(shown.locator(".c")).to_have_count(400)
    assert await shown.evaluate("element => element.offsetHeight") == height
    await expect(page.locator("#lane .code-head")).to_contain_text("python")
    await expect(page.locator("#lane .code-head").get_by_role("button", name="Copy")).to_be_enabled()


async def test_focus_stays_with_the_card_of_what_was_decided(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="a") as run:
        await run.add_message(Message.assistant(None, tool_calls=(LOOK,)))
        decision = asyncio.create_task(run.approval(LOOK))
        await page.get_by_role("button", name="Approve").focus()
        await page.get_by_role("button", name="Approve").click(delay=500)
        await decision
        await run.tool_call("call-1", "look", LOOK.arguments or "")
        await expect(page.locator("#lane .card")).to_contain_text("running")
        where = "[document.activeElement.closest('#lane .entry') !== null, document.activeElement.ariaLabel ?? '']"
        inside, name = await page.evaluate(where)
        assert inside
        assert "Copy" not in name


async def test_title_is_cut_after_the_ribbon_where_there_is_little_room(page: Page, gateway: Gateway) -> None:
    await page.set_viewport_size({"width": 1280, "height": 800})
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("t", agent="researcher") as run:
        await run.set_context(title="A title as people write it for a chat")
        await run.delta("Begun")
        await expect(page.locator("#title")).to_contain_text("A title as")
        await expect(page.locator("#chip")).to_have_text("Writing")
        title = page.locator("#title")
        assert await title.evaluate("element => element.scrollWidth - element.clientWidth") <= 1


async def test_address_without_a_topic_shows_no_run_and_no_connection(page: Page, gateway: Gateway) -> None:
    await page.goto(f"{gateway.url}/?topic=no%20topic")
    await expect(page.locator("#title")).to_have_text("No such chat")
    for part in ("#panel", "#conn", "#show-panel", "#dock"):
        await expect(page.locator(part)).to_be_hidden()
