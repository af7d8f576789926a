"""The run page in a real browser: real runs, told, stopped, decided and looked at as they were."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from gateway.broker.port import AppendRequest, Entry
from gateway.codec import encode_event
from gateway.context.approval import Approve
from gateway.context.messages import Message, ToolCall
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Publication, Topic
from tests.browser.looks import look
from tests.e2e.processes import Gateway, until
from tests.servers import RedisServer

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

TOPIC = "chat:4113"
MIGRATE = ToolCall(
    id="call-9",
    name="apply_migration",
    arguments='{"database":"orders-replica","sql":"CREATE INDEX CONCURRENTLY","lock_timeout":2000.0}',
)


async def open_run(page: Page, gateway: Gateway, query: str = f"topic={TOPIC}") -> None:
    await page.goto(f"{gateway.url}/dashboard/run?{query}")


async def step(run: Run, number: int, *, name: str, words: str) -> None:
    """One step: thinking, text, a tool call with its result, usage and log lines."""
    await run.log_event("step_start")
    await run.log("info", f"request {number} sent", logger="agent.model")
    await run.thinking("Let me think. ")
    for word in words.split():
        await run.delta(f"{word} ")
    arguments = f'{{"part":{number},"limit":20.0}}'
    call = ToolCall(id=f"call-{number}", name=name, arguments=arguments)
    usage = {"input_tokens": 1000 * number, "cache_read_input_tokens": 600 * number, "output_tokens": 40 * number}
    await run.usage(usage, call=f"model-{number}")
    await run.add_message(Message.assistant(words, tool_calls=(call,)))
    await run.tool_call(f"call-{number}", name, arguments)
    await run.log("warning" if number == 2 else "info", f"{name} answered", logger="agent.tools")
    await run.tool_result(f"call-{number}", name, f"{number} rows")
    await run.log_event("step_end")


async def names(page: Page) -> list[str]:
    """Give the rows of the timeline, as they are shown."""
    return await page.locator(".fall-row[role=treeitem] .n .cut").all_inner_texts()


async def shown_texts(page: Page) -> str:
    return "\n".join(await page.locator("#context-lane .prose").all_inner_texts())


async def test_run_is_told_as_a_timeline_while_it_goes_on_and_after_a_reload(gateway: Gateway, page: Page) -> None:
    await open_run(page, gateway)
    await expect(page.locator("#blank")).to_contain_text("Nothing has happened on this topic")
    await expect(page.get_by_role("heading", name="Nothing has happened")).to_be_in_viewport(ratio=1)
    await look(page, "run-first")
    async with Publisher(gateway.redis_url) as publisher:
        async with publisher.run(TOPIC, agent="researcher", model="atlas-large") as run:
            await run.set_context(title="Checkout latency since Tuesday")
            await run.add_message(Message.user("Why is checkout slow?"))
            await step(run, 1, name="query_metrics", words="I look at the metrics.")
            await step(run, 2, name="git_log", words="Now the changes.")
            await expect(page.locator("#chip")).to_contain_text("Writing")
            rows = ["researcher", "Step 1", "model call", "query_metrics", "Step 2", "model call", "git_log"]
            await until(lambda: _equal(names(page), rows), "the rows of two steps")
            await expect(page.locator("h1")).to_have_text("Checkout latency since Tuesday")
            await expect(page.locator("#facts")).to_contain_text("atlas-large")
            await expect(page.locator("#facts")).to_contain_text("3.1k")
            async with publisher.run(f"{TOPIC}/sub", agent="trace-reader", parent=run.id) as child:
                event = {"type": "agent_start", "run": child.id, "agent": "trace-reader", "parent": run.id}
                entry = Entry(kind="h", type="agent_start", data=encode_event(event | {"topic": child.topic}))
                request = AppendRequest(writer="announcer", seq="1", entries=(entry,))
                await publisher.broker.append(Topic(TOPIC), request, position=START)
                await expect(page.locator(".fall-row", has_text="trace-reader")).to_be_visible()
            await run.tool_call("late", "search", "{}")
            await expect(page.locator("#chip")).to_contain_text("Tool")
            await look(page, "run-live")
        await expect(page.locator("#chip")).to_contain_text("Done")
        await expect(page.locator("#stop")).to_be_hidden()
    await page.reload()
    await expect(page.locator("#chip")).to_contain_text("Done")
    await until(lambda: _equal(names(page), [*rows, "trace-reader", "search"]), "the same rows")
    await page.locator(".fall-row", has_text="git_log").click()
    inspector = page.locator("#inspector")
    await expect(inspector).to_contain_text('"limit": 20.0')  # as it was written
    await expect(inspector).to_contain_text("2 rows")
    await expect(inspector.locator(".chart path").first).to_have_attribute("d", re.compile(r"^M[-0-9. L]+Z$"))
    await look(page, "run-selected")


async def _equal(coroutine: Any, wanted: Any) -> bool:
    return bool(await coroutine == wanted)


async def test_log_has_levels_and_search(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="researcher") as run:
        for number in range(300):
            await run.log("debug" if number % 10 else "warning", f"line {number}", logger="agent.loop")
        await run.log("error", "out of quota", logger="agent.model", fields={"code": "E42"})
    await open_run(page, gateway)
    await expect(page.locator("#log-count")).to_have_text("301")
    await expect(page.locator("#log .log", has_text="out of quota")).to_be_visible()  # the end is followed
    assert await page.locator("#log .log").count() < 100  # only what is in view exists
    await page.locator("#levels [data-level=error]").click()
    await expect(page.locator("#log .log")).to_have_count(1)
    await page.locator("#levels [data-level=warning]").click()
    await expect(page.locator("#warn-count")).to_have_text("31")
    await page.locator("#levels [data-level=all]").click()
    await page.locator("#log-search").fill("E42")
    await expect(page.locator("#log-found")).to_have_text("1")
    await page.locator("#log-search").fill("line 7")
    await expect(page.locator("#log-found")).to_have_text("11")
    await page.keyboard.press("Enter")
    await expect(page.locator("#log-found")).to_have_text("1 of 11")
    await expect(page.locator("#log .log.current mark")).to_have_text("line 7")
    await page.locator("#tab-events").click()
    await expect(page.locator("#log .log", has_text="agent_complete")).to_be_visible()


async def test_scrubber_shows_the_context_as_it_was_and_nothing_of_the_past_can_be_acted_on(
    gateway: Gateway, page: Page
) -> None:
    async with Publisher(gateway.redis_url) as publisher:
        async with publisher.run(TOPIC, agent="researcher") as run:
            await run.add_message(Message.user("Why is checkout slow?"))
            await step(run, 1, name="query_metrics", words="I look at the metrics.")
            await step(run, 2, name="git_log", words="Now the changes.")
            await open_run(page, gateway)
            await until(lambda: _equal(names(page), [*NAMES, "Step 2", "model call", "git_log"]), "the run")
            await page.locator("#tab-context").click()
            await expect(page.locator("#context-lane")).to_contain_text("Now the changes.")
            await page.locator("#track").focus()
            for _ in range(2):
                await page.keyboard.press("Shift+ArrowLeft")
            await expect(page.locator("#notices")).to_contain_text("You look at the past.")
            await expect(page.locator("#context-lane")).not_to_contain_text("Now the changes.")
            assert "I look at the metrics." in await shown_texts(page)
            await expect(page.locator("#stop")).to_be_hidden()
            await look(page, "run-past")
            offset = int(await page.locator("#track").get_attribute("aria-valuenow") or "")
            assert page.url.endswith(f"#o-{offset}")
            await page.keyboard.press("ArrowLeft")
            await expect(page.locator("#track")).to_have_attribute("aria-valuenow", str(offset - 1))
            await run.add_message(Message.assistant("It goes on behind."))
            await expect(page.locator("#track")).to_have_attribute("aria-valuenow", str(offset - 1))
            await page.keyboard.press("l")
            await expect(page.locator("#context-lane")).to_contain_text("It goes on behind.")
            await expect(page.locator("#stop")).to_be_visible()
        await page.goto(f"{gateway.url}/dashboard")
        await open_run(page, gateway, f"topic={TOPIC}#o-{offset}")
        await expect(page.locator("#notices")).to_contain_text("The run has ended since.")
        await expect(page.locator("#context-lane")).to_contain_text("I look at the metrics.")
        await expect(page.locator("#track")).to_have_attribute("aria-valuenow", str(offset))


NAMES = ["researcher", "Step 1", "model call", "query_metrics"]


async def test_totals_follow_the_scrubber(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="researcher") as run:
        await run.add_message(Message.user("Why is checkout slow?"))
        for number in (1, 2, 3):
            await step(run, number, name="query_metrics", words="I look at the metrics.")
        await run.log("error", "broken pipe", logger="agent.tools")
    await open_run(page, gateway)
    facts, tokens = page.locator("#facts"), page.locator("#facts > div", has_text="Tokens").locator("dd span").first
    steps = page.locator("#facts > div", has_text="Steps").locator("dd")
    await expect(tokens).to_have_text("6.2k")
    await expect(facts.locator("div", has_text="Errors").locator("dd")).to_have_text("1")
    await page.locator("#tab-context").click()
    await page.locator("#track").focus()
    for number, total in ((3, "3.1k"), (2, "1.0k")):
        # A step's own start is a place to leap to, and so is its tool.
        for _ in range(2):
            await page.keyboard.press("Shift+ArrowLeft")
        await expect(steps).to_have_text(str(number))
        await expect(tokens).to_have_text(total)
        await expect(facts).not_to_contain_text("Errors")
        await expect(page.locator("#chip")).to_contain_text("Writing")
    await expect(page.locator("#inspector .legend")).to_contain_text("output 40")
    await page.locator("#tab-log").click()
    await expect(page.locator("#log .log", has_text="request 1 sent")).not_to_have_class(re.compile("later"))
    await expect(page.locator("#log .log", has_text="request 3 sent")).to_have_class(re.compile("later"))
    await page.keyboard.press("p")
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    await expect(page.locator("#to-live")).to_have_attribute("aria-pressed", "true")  # it has come to the end
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    await expect(tokens).to_have_text("6.2k")
    await expect(page.locator("#chip")).to_contain_text("Done")


async def test_play_goes_on_by_itself_and_a_hand_on_the_scrubber_stops_it(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in range(40):
            await run.delta(f"word{number} ")
            await asyncio.sleep(0.05)  # so far apart they are played
        await open_run(page, gateway)
        await page.locator("#tab-context").click()
        await expect(page.locator("#context-lane")).to_contain_text("word39")
        track = page.locator("#track")
        await track.focus()
        await page.keyboard.press("Home")
        await expect(track).to_have_attribute("aria-valuenow", "1")
        await page.keyboard.press("Space")
        await expect(page.locator("#context-lane")).to_contain_text("word3 ")
        await page.keyboard.press("ArrowLeft")
        await expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
        stopped = await track.get_attribute("aria-valuenow")
        await page.evaluate("new Promise(done => setTimeout(done, 300))")  # several times its pause between moves
        await expect(track).to_have_attribute("aria-valuenow", str(stopped))
        assert 1 < int(stopped or "0") < 40
        await expect(page.locator("#context-lane")).not_to_contain_text("word39")


FOLD = """async (topic) => {
    const { Gateway, Mirror } = await import('/static/gateway/index.js');
    const { Recording } = await import('/static/dashboard/recording.js');
    const { History } = await import('/static/dashboard/history.js');
    const gateway = new Gateway({ url: `ws://${location.host}/connection/websocket` });
    const subscription = gateway.subscribe(topic);
    const recording = new Recording(topic);
    const history = new History(recording, {
        mirror: () => subscription.mirror, read: (since) => gateway.history(topic, { since }),
        took: () => {}, changed: () => {}, restarted: () => {}, later: setTimeout,
    });
    subscription.on('change', (change) => history.take(change));
    gateway.connect();
    window.recording = recording;
}"""


async def test_context_at_any_offset_is_exact_however_the_history_came(gateway: Gateway, page: Page) -> None:
    await page.goto(f"{gateway.url}/dashboard")
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="researcher") as run:
        for number in range(1, 40):
            await step(run, number, name="query_metrics", words="One and another word, " * 10)
        # Joined in the middle: what is stored is read while more is told.
        await page.evaluate(FOLD, TOPIC)
        for number in range(40, 60):
            await step(run, number, name="git_log", words="More of them. " * 10)
    snapshot = await gateway.topic(TOPIC)
    await page.wait_for_function("offset => window.recording.upto >= offset", arg=snapshot["offset"])
    assert json.loads(await page.evaluate("JSON.stringify(recording.at(recording.upto).snapshot())")) == snapshot
    # And at any offset it is what Python's mirror makes of the same events.
    mirror = Mirror(topic=TOPIC, epoch=snapshot["epoch"], offset=await page.evaluate("recording.floor"))
    checked = 0
    for told in json.loads(await page.evaluate("JSON.stringify(recording.events)")):
        assert mirror.apply(msgspec.convert(told, Publication)) == "applied"
        if mirror.offset % 7 == 0:
            then = await page.evaluate("offset => JSON.stringify(recording.at(offset).snapshot())", mirror.offset)
            assert json.loads(then) == mirror.snapshot()
            checked += 1
    assert checked > 10


async def test_question_is_decided_from_the_page_and_settled_by_the_event_only(gateway: Gateway, page: Page) -> None:
    await open_run(page, gateway)
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="researcher") as run:
        await run.add_message(Message.assistant(None, tool_calls=(MIGRATE,)))
        decision = asyncio.create_task(run.approval(MIGRATE))
        await expect(page.locator("#chip")).to_contain_text("Needs you")
        await page.keyboard.press("a")
        ask = page.locator("#inspector .ask")
        await expect(ask).to_contain_text("Run apply_migration?")
        await expect(ask).to_contain_text("2000.0")
        await look(page, "run-question")
        await ask.get_by_role("button", name="Approve").click(delay=500)
        assert await decision == Approve()
        await expect(ask).to_be_hidden()
        await expect(page.locator("#inspector")).to_contain_text("Approved")
        await expect(page.locator("#chip")).not_to_contain_text("Needs you")


async def test_stop_is_asked_for_and_shown_only_by_its_event(gateway: Gateway, page: Page) -> None:
    await open_run(page, gateway)
    async with Publisher(gateway.redis_url) as publisher:
        async with publisher.run(TOPIC, agent="researcher") as run:
            await run.delta("Going on")
            await expect(page.locator("#chip")).to_contain_text("Writing")
            # A stop cancels the block at once; what it would not let us see is seen first.
            async with run.shield():
                await page.keyboard.press("s")
                await expect(page.locator("#chip")).to_contain_text("Stopping")
                await until(lambda: _cancelling(gateway), "the request")
                await look(page, "run-stopping", sizes=((1440, 900),))
                await expect(page.locator("#chip")).to_contain_text("Stopping")
        await expect(page.locator("#chip")).to_contain_text("Stopped")


async def _cancelling(gateway: Gateway) -> bool:
    return bool((await gateway.topic(TOPIC))["mirror"]["runs"][0]["status"] == "cancelling")


async def test_address_that_names_no_topic_says_so(gateway: Gateway, page: Page) -> None:
    await open_run(page, gateway, "topic=two%20words")
    await expect(page.locator("#blank")).to_contain_text("That is not a run’s address")
    await look(page, "run-wrong", sizes=((360, 740),))


async def test_run_that_logged_nothing_says_so(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="quiet") as run:
        await run.add_message(Message.assistant("Done."))
    await open_run(page, gateway)
    await expect(page.locator("#log-none")).to_have_text("This run has logged nothing. What it did is under Events.")
    await page.locator("#tab-events").click()
    await expect(page.locator("#log-none")).to_be_hidden()
    await page.locator("#log-search").fill("nowhere to be found")
    await expect(page.locator("#log-found")).to_have_text("none")


async def test_failed_run_says_why(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="breaker") as run:
        await step(run, 1, name="query_metrics", words="I look at the metrics.")
        await run.delta("The first half of")
        await run.fail(RuntimeError("out of quota"))
    await open_run(page, gateway)
    await expect(page.locator("#chip")).to_contain_text("Failed")
    await page.locator(".fall-row", has_text="breaker").click()
    await expect(page.locator("#inspector")).to_contain_text("out of quota")
    await look(page, "run-failed")


async def test_page_survives_restarts_of_gateway_and_store(browser: Browser, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "store", {"appendonly": "yes", "appendfsync": "always"}) as server:
        gateway = Gateway(server.url)
        await gateway.start()
        try:
            page = await browser.new_page()
            await open_run(page, gateway)
            await expect(page.locator("#conn")).to_contain_text("Live")
            async with Publisher(server.url) as publisher, publisher.run(TOPIC, agent="researcher") as run:
                await step(run, 1, name="query_metrics", words="I look at the metrics.")
                await until(lambda: _equal(names(page), NAMES), "the first step")
                gateway.kill()
                await expect(page.locator("#conn")).not_to_contain_text("Live")
                assert gateway.process is not None
                await gateway.process.end()
                await step(run, 2, name="git_log", words="Now the changes.")
                await gateway.start()
                await until(lambda: _equal(names(page), [*NAMES, "Step 2", "model call", "git_log"]), "both steps")
                with server.away():
                    await expect(page.locator("#conn")).to_contain_text("Not sure")
                await step(run, 3, name="read_trace", words="And the trace.")
            await expect(page.locator("#chip")).to_contain_text("Done")
            rows = [*NAMES, "Step 2", "model call", "git_log", "Step 3", "model call", "read_trace"]
            await until(lambda: _equal(names(page), rows), "all steps")
            top = (await gateway.topic(TOPIC))["offset"]
            await expect(page.locator("#place")).to_have_text(f"{top} of {top}")
        finally:
            await gateway.stop()


async def test_pages_are_linked_both_ways(gateway: Gateway, page: Page) -> None:
    async with Publisher(gateway.redis_url) as publisher, publisher.run(TOPIC, agent="researcher") as run:
        await run.add_message(Message.assistant("Hello."))
    await page.goto(f"{gateway.url}/?topic={TOPIC}")
    await page.get_by_role("link", name="Timeline").click()
    await expect(page.locator("#chip")).to_contain_text("Done")
    await page.get_by_role("link", name="Open chat").click()
    await expect(page.locator("#lane")).to_contain_text("Hello.")
    await page.get_by_role("link", name="Runs").click()
    await expect(page).to_have_url(f"{gateway.url}/dashboard")


async def test_server_is_the_only_origin_asked(gateway: Gateway, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await open_run(page, gateway)
    await expect(page.locator("#conn")).to_contain_text("Live")
    assert all(url.startswith(gateway.url) for url in asked), asked
