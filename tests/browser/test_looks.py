"""Every state of the chat page in pictures, dark and light, at the widths it is made for; axe finds no fault in any."""

import asyncio
import os

import pytest
from playwright.async_api import Page, expect

from gateway.context.approval import Reject
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from tests.browser.looks import SIZES, look
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

LONG = bool(os.environ.get("GATEWAY_LONG"))
SHOWN = SIZES if LONG else ((360, 740), (1440, 900))
ANSWER = """## What I found

The **attic** is _mostly_ tidy. Three things are left, see [the list](https://example.org/list):

1. Two boxes, `winter` and `summer`
2. A lamp, which
   * works
   * has no bulb

| room | boxes | state |
|:--|--:|:-:|
| attic | 12 | tidy |
| cellar, below the stairs and behind the shelf | 104 | not tidy |

```python
def tidy(room: Room) -> int:
    \"\"\"Return how many boxes are left.\"\"\"
    return sum(1 for box in room.boxes if not box.closed)
```

> Who keeps everything finds nothing.
"""
THOUGHT = "The person wants the attic tidy. First I look what is there, then I ask before anything is thrown away. "
FIND_CALL = ("call-1", "find_boxes", '{"room":"attic","limit":50,"open":true}')
FIND = ToolCall(id=FIND_CALL[0], name=FIND_CALL[1], arguments=FIND_CALL[2])
READ_CALL = ("call-2", "read_label", '{"box":"winter"}')
READ = ToolCall(id=READ_CALL[0], name=READ_CALL[1], arguments=READ_CALL[2])
THROW = ToolCall(id="call-3", name="throw_away", arguments='{"boxes":["winter","summer"],"really":true,"amount":48.00}')


async def opened(page: Page, gateway: Gateway, topic: str = "attic") -> None:
    await page.goto(f"{gateway.url}/?topic={topic}")
    await expect(page.locator("#conn")).to_contain_text("Live")


async def picture(page: Page, name: str) -> None:
    await look(page, f"chat-{name}", sizes=SHOWN)


async def test_first_page_keys_and_drawers(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    await expect(page.locator("#blank")).not_to_be_empty()
    await picture(page, "first")
    await page.locator("#keys-button").click()
    await picture(page, "keys")
    await page.locator("#keys-close").click()
    await page.goto(f"{gateway.url}/?topic=no%20topic")
    await expect(page.locator("#title")).to_have_text("No such chat")
    await picture(page, "wrong")


async def test_answer_thought_and_tools(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher:
        async with publisher.run("attic", agent="keeper", max_iterations=6) as run:
            await run.add_message(Message.user("Please tidy up the attic, and tell me what is left."))
            await run.thinking(THOUGHT * 4)
            await expect(page.locator("#chip")).to_have_text("Thinking")
            await picture(page, "thinking")
            await run.delta("I look what is there.")
            await run.tool_call_delta(index=0, id=FIND.id, name=FIND.name)
            await run.tool_call_delta(index=0, text='{"room":"att')
            await expect(page.locator("#lane .card")).to_contain_text("Preview")
            await picture(page, "arguments")
            await run.add_message(
                Message.assistant("I look what is there.", thinking=THOUGHT * 4, tool_calls=(FIND, READ))
            )
            await run.tool_call(*FIND_CALL)
            await run.tool_call(*READ_CALL)
            await run.progress(tool_call_id=FIND.id, fraction=0.4, text="24 of 60 shelves")
            await expect(page.locator("#lane .card").first).to_contain_text("24 of 60 shelves")
            await picture(page, "tools")
            await run.tool_result(*FIND_CALL[:2], "winter\nsummer\nlamp", duration_ms=820)
            await run.tool_result(*READ_CALL[:2], "no label on it", error=True, duration_ms=90)
            await run.usage({"requests": 1, "input_tokens": 1200, "output_tokens": 340, "total_tokens": 1540})
            await run.delta(ANSWER[:420])
            await expect(page.locator("#lane table")).to_be_visible()
            await picture(page, "writing")
            await run.add_message(Message.assistant(ANSWER))
        await expect(page.locator("#chip")).to_have_text("Done")
        await picture(page, "done")
        await page.locator("#lane button.line", has_text="find_boxes").click()
        await page.locator("#lane button.line", has_text="Thought").first.click()
        await picture(page, "opened")


async def test_question_in_all_its_states(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run("attic", agent="keeper") as run:
        await run.add_message(Message.user("Throw away what nobody needs."))
        await run.add_message(Message.assistant("These two boxes have not been opened for years.", tool_calls=(THROW,)))
        decision = asyncio.create_task(run.approval(THROW))
        await expect(page.locator(".ask")).to_contain_text("Run throw_away?")
        await picture(page, "question")
        await page.get_by_role("button", name="Edit").first.click(delay=500)
        await expect(page.locator(".ask textarea")).to_be_visible()
        await picture(page, "editing")
        await page.keyboard.press("Escape")
        async with publisher.run("cellar", agent="keeper") as other:
            await other.set_context(title="Cellar, second round")
            await page.locator("#search").focus()
            await page.evaluate("() => window.dispatchEvent(new Event('focus'))")
            await expect(page.locator("#list")).to_contain_text("Cellar, second round")
            await look(page, "chat-list", sizes=((1440, 900),))
        await page.get_by_role("button", name="Reject").first.click()
        await page.keyboard.type("They belong to my sister")
        await picture(page, "rejecting")
        await page.keyboard.press("Enter")
        assert isinstance(await decision, Reject)
        await expect(page.locator("#lane")).to_contain_text("They belong to my sister")
        await picture(page, "rejected")


async def test_stops_failures_and_what_is_left(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    async with Publisher(gateway.redis_url) as publisher:
        async with publisher.run("attic", agent="keeper") as run:
            await run.add_message(Message.user("Count the boxes."))
            await run.delta("There are one, two, three,")
            await page.locator("#box").fill("And the lamps, please")
            await page.keyboard.press("Enter")
            await expect(page.locator("#queue")).to_contain_text("You: And the lamps")
            await picture(page, "queue")
            async with run.shield():
                await page.get_by_role("button", name="Stop", exact=True).click()
                await expect(page.locator("#chip")).to_have_text("Stopping")
                await picture(page, "stopping")
            await asyncio.Event().wait()
        await expect(page.locator("#chip")).to_have_text("Stopped")
        await picture(page, "stopped")
        async with publisher.run("attic", agent="keeper") as run:
            await run.delta("Once more: one,")
            await run.fail(RuntimeError("the model went away"))
        await expect(page.locator("#chip")).to_have_text("Failed")
        await picture(page, "failed")
        async with publisher.run("attic", agent="keeper") as run:
            await run.add_message(Message.assistant("Once more.", tool_calls=(FIND,)))
            await run.tool_call(*FIND_CALL)
            await run.delta("One, two,")
            await expect(page.locator("#lane .prose").last).to_contain_text("One, two,")
            gateway.kill()
            await expect(page.locator("#notices")).to_contain_text("Connection lost")
            await picture(page, "reconnecting")
            await page.context.set_offline(True)
            await expect(page.locator("#conn")).to_contain_text("Offline")
            await picture(page, "offline")
            await page.context.set_offline(False)


async def test_sub_agent_summary_and_watchers(page: Page, gateway: Gateway) -> None:
    await opened(page, gateway)
    context = Context.new()
    async with (
        Publisher(gateway.redis_url) as publisher,
        publisher.run("attic", agent="keeper", context=context) as run,
    ):
        for number in range(6):
            await run.add_message(Message.user(f"Question {number}"))
            await run.add_message(Message.assistant(f"Answer {number}"))
        await run.change_context(lambda before: before.clear())
        await run.add_message(Message.user("Send somebody to look."))
        async with run.sub_agent("scout") as scout:
            await scout.thinking("Up the ladder first.")
            await scout.delta("It is dark in here. ")
            await expect(page.locator("#lane .inner")).to_contain_text("It is dark")
            await picture(page, "sub-agent")
            await page.set_viewport_size({"width": 360, "height": 740})
            await page.locator("#show-panel").click()
            await look(page, "chat-panel", sizes=SHOWN[:-1])
            await page.locator("#hide-panel").click()
            await page.locator("#show-list").click()
            await look(page, "chat-drawer", sizes=SHOWN[:-1])
