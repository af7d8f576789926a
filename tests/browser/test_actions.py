"""People's actions on the chat page: tabs on two gateway processes over one store, and a real agent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
from playwright.async_api import Browser, Page, WebSocketRoute, expect

from gateway.context.approval import Edit, Reject
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.policies import Policy
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker
from tests.e2e.processes import Gateway, running_gateway, until

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

Agent = Callable[[Run, Message], Awaitable[None]]
REFUND = ToolCall(id="call-1", name="refund", arguments='{"order":"8817","amount":48.00}')


class Stage:
    """Two gateway processes on one store, the agents' end of it, and tabs."""

    def __init__(self, browser: Browser, gateways: tuple[Gateway, Gateway], publisher: Publisher) -> None:
        self.gateways = gateways
        self.publisher = publisher
        self._browser = browser

    async def tab(self, gateway: int, socket: Callable[[WebSocketRoute], None] | None = None) -> Page:
        """Open the chat on one of the gateways, as another person's browser would; its socket can be meddled with."""
        page = await (await self._browser.new_context()).new_page()
        if socket is not None:
            await page.route_web_socket("**/connection/websocket", socket)
        await page.goto(f"{self.gateways[gateway].url}/?topic=t")
        await expect(page.locator("#conn")).to_contain_text("Live")
        return page

    @contextlib.asynccontextmanager
    async def working(self, agent: Agent, policy: Policy = "queue") -> AsyncIterator[None]:
        worker = Worker(self.publisher, agent, name="helper", grace=0, policy=policy)
        serving = asyncio.create_task(worker.serve())
        try:
            yield
        finally:
            worker.stop()
            await serving


@pytest.fixture
async def stage(browser: Browser) -> AsyncIterator[Stage]:
    async with running_gateway() as first:
        second = Gateway(first.redis_url)
        try:
            await second.start()
            async with Publisher(first.redis_url) as publisher:
                yield Stage(browser, (first, second), publisher)
        finally:
            await second.stop()


async def say(page: Page, text: str) -> None:
    await page.locator("#box").fill(text)
    await page.keyboard.press("Enter")


async def test_message_sent_in_one_tab_and_its_answer_are_in_both(stage: Stage) -> None:
    async def answer(run: Run, message: Message) -> None:
        await run.add_message(Message.assistant(f"You wrote: {message.text}"))

    one, other = await stage.tab(0), await stage.tab(1)
    async with stage.working(answer):
        await say(one, "Hello to both")
        for page in (one, other):
            await expect(page.locator("#lane .user")).to_contain_text("Hello to both")
            await expect(page.locator("#lane .prose")).to_contain_text("You wrote: Hello to both")
            await expect(page.locator("#chip")).to_contain_text("Done")
    await expect(one.locator("#lane .user .who")).to_contain_text("You")
    await expect(other.locator("#lane .user .who")).not_to_contain_text("You")


async def test_own_message_is_own_in_every_tab_of_the_browser(stage: Stage) -> None:
    one, stranger = await stage.tab(0), await stage.tab(1)
    other = await one.context.new_page()
    await other.goto(one.url)
    await expect(other.locator("#conn")).to_contain_text("Live")
    await say(one, "Mine")
    for page in (one, other):
        await expect(page.locator("#queue li:not(.only-tiny)")).to_contain_text("You: Mine")
        await expect(page.get_by_role("button", name="Withdraw this message")).to_have_count(1)
    await expect(stranger.locator("#queue li:not(.only-tiny)")).to_contain_text("Guest: Mine")

    async def answer(run: Run, _: Message) -> None:
        await run.add_message(Message.assistant("Yes."))

    async with stage.working(answer):
        for page in (one, other):
            await expect(page.locator("#lane .user .who")).to_contain_text("You")
        await expect(stranger.locator("#lane .user .who")).to_contain_text("Guest")


async def test_edited_approval_in_one_tab_reaches_the_agent_and_the_other_tab(stage: Stage) -> None:
    one, other = await stage.tab(0), await stage.tab(1)
    async with stage.publisher.run("t", agent="support") as run:
        await run.add_message(Message.assistant(None, tool_calls=(REFUND,)))
        decision = asyncio.create_task(run.approval(REFUND))
        for page in (one, other):
            await expect(page.locator("#chip")).to_contain_text("Needs you")
            await expect(page.locator(".ask")).to_contain_text("Run refund?")
            await expect(page.locator(".ask")).to_contain_text("48.00")  # as it was written, not as a number is
            assert not await page.evaluate("document.querySelector('.ask').contains(document.activeElement)")
        await other.get_by_role("button", name="Edit arguments").click(delay=500)
        editor = other.get_by_role("textbox", name="Arguments")
        text = await editor.input_value()
        await editor.fill(text.replace("48.00", "24."))
        await expect(other.locator(".ask .card-foot")).to_contain_text("Line 3: a digit is missing after the point.")
        await expect(other.get_by_role("button", name="Approve edit")).to_be_disabled()
        await editor.fill(text.replace("48.00", "24.50"))
        await expect(other.locator(".ask .card-foot")).to_contain_text("1 change: 48.00 24.50")
        await editor.press("Control+Enter")
        assert await decision == Edit(arguments={"order": "8817", "amount": 24.5})
        await run.tool_call(REFUND.id or "", "refund", '{"order":"8817","amount":24.50}')
        await run.tool_result(REFUND.id or "", "refund", "done")
    for page, who in ((one, "edited"), (other, "edited by you")):
        line = page.locator("#lane .line", has_text="refund")
        await expect(line).to_contain_text("amount=48.00 24.50")
        await expect(line).to_contain_text(who)
        await expect(line.locator("del")).to_have_text("48.00")
        await expect(page.locator(".ask")).to_have_count(0)


async def test_reject_by_key_with_a_reason(stage: Stage) -> None:
    page = await stage.tab(0)
    async with stage.publisher.run("t", agent="support") as run:
        await run.add_message(Message.assistant(None, tool_calls=(REFUND,)))
        decision = asyncio.create_task(run.approval(REFUND))
        await expect(page.locator(".ask")).to_be_visible()
        await page.locator("#box").press("r")  # while typing it is a letter
        await expect(page.locator("#box")).to_have_value("r")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("r")
        await page.keyboard.type("Already refunded")
        await page.keyboard.press("Enter")
        assert await decision == Reject(reason="Already refunded")
        await expect(page.locator("#lane .line", has_text="refund")).to_contain_text(
            "rejected by you: “Already refunded”"
        )


async def test_press_right_after_the_question_appeared_decides_nothing(stage: Stage) -> None:
    page = await stage.tab(0)
    # Whatever appears is pressed in the very frame in which it does.
    await page.evaluate(
        """() => new MutationObserver((_, observer) => {
            const found = document.querySelector('.ask .push button');
            if (found === null) return;
            observer.disconnect();
            found.click();
            window.pressed = true;
        }).observe(document.body, { subtree: true, childList: true })"""
    )
    async with stage.publisher.run("t", agent="support") as run:
        await run.add_message(Message.assistant(None, tool_calls=(REFUND,)))
        decision = asyncio.create_task(run.approval(REFUND))
        await until(lambda: page.evaluate("window.pressed"), "the press")
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        await page.get_by_role("button", name="Reject").click(delay=500)
        await page.get_by_role("button", name="Reject").click()
        assert await decision == Reject()


async def test_decision_that_came_too_late_is_told_who_was_faster(stage: Stage) -> None:
    one = await stage.tab(0)
    held: list[Callable[[], None]] = []

    def slow(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def down(frame: str | bytes) -> None:
            if "approval_decided" in str(frame):
                held.append(lambda: socket.send(frame))
            else:
                socket.send(frame)

        socket.on_message(server.send)
        server.on_message(down)

    other = await stage.tab(1, slow)
    async with stage.publisher.run("t", agent="support") as run:
        await run.add_message(Message.assistant(None, tool_calls=(REFUND,)))
        decision = asyncio.create_task(run.approval(REFUND))
        await one.get_by_role("button", name="Reject").click(delay=500)
        await one.get_by_role("button", name="Reject").click()
        assert await decision == Reject()
        await other.get_by_role("button", name="Approve").click(delay=500)
        # Until the event comes nothing is shown as decided.
        await expect(other.locator(".ask .card-foot")).to_contain_text("Sending your approval…")
        await expect(other.locator("#chip")).to_contain_text("Needs you")
        for release in held:
            release()
        await expect(other.locator("#lane .notice")).to_contain_text("Someone had already rejected this.")
        await expect(other.locator("#lane .notice")).to_contain_text("Your approval changed nothing.")


async def test_stop_from_a_third_tab_opened_in_mid_run(stage: Stage) -> None:
    async def endless(run: Run, _: Message) -> None:
        for count in range(1_000_000):
            await run.delta(f"word{count} ")
            await asyncio.sleep(0.02)

    one, other = await stage.tab(0), await stage.tab(1)
    async with stage.working(endless):
        await say(one, "Count for ever")
        await expect(other.locator("#lane .prose")).to_contain_text("word9 ")
        third = await stage.tab(1)
        await expect(third.locator("#lane .prose")).to_contain_text("word9 ")
        await third.keyboard.press("Escape")
        for page in (one, other, third):
            await expect(page.locator("#chip")).to_contain_text("Stopped")
            await expect(page.locator("#lane .prose")).to_contain_text("word0 word1 ")
            await expect(page.locator("#lane")).to_contain_text("The text so far is kept.")
            await expect(page.locator("#stop")).to_be_hidden()
        await expect(third.locator("#lane")).to_contain_text("Stopped by you")
        await expect(one.locator("#lane")).not_to_contain_text("Stopped by you")
        texts = [await page.locator("#lane .prose").inner_text() for page in (one, other, third)]
        assert texts[0] == texts[1] == texts[2]


async def test_stop_whose_answer_comes_after_its_event_is_one_s_own_all_the_same(stage: Stage) -> None:
    held: list[Callable[[], None]] = []

    def late(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            if '"status":"requested"' in str(message):
                held.append(partial(route.send, message))
            else:
                route.send(message)

        server.on_message(pass_on)

    page = await stage.tab(0, late)
    async with stage.publisher.run("t", agent="helper") as run:
        await run.delta("I was saying ")
        await expect(page.locator("#lane .prose")).to_contain_text("I was saying")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.gather(page.keyboard.press("Escape"), asyncio.sleep(60))
    await expect(page.locator("#lane")).to_contain_text("Stopped by")
    held.pop()()
    await expect(page.locator("#lane")).to_contain_text("Stopped by you")


async def test_stop_that_the_agent_does_not_answer_never_says_stopped(stage: Stage) -> None:
    page = await stage.tab(0)
    async with stage.publisher.run("t", agent="deaf") as run:
        await run.delta("I go on ")
        released = asyncio.Event()
        async with run.shield():
            waiting = asyncio.create_task(released.wait())
            await page.get_by_role("button", name="Stop", exact=True).click()
            await expect(page.locator("#stop-now")).to_have_text("Stopping")
            await expect(page.locator("#stop-now")).to_be_disabled()
            await expect(page.locator("#stop-note")).to_contain_text("Stopping… asked by you")
            await expect(page.locator("#stop-note")).to_contain_text("Still stopping. The agent has not answered yet.")
            await run.delta("regardless")
            await expect(page.locator("#lane .prose")).to_contain_text("I go on regardless")
            await expect(page.locator("#chip")).to_contain_text("Stopping")
            released.set()
            await waiting
        await run.complete()
    await expect(page.locator("#chip")).not_to_contain_text("Stopping")
    await expect(page.locator("#stop-note")).to_be_hidden()


async def test_stop_after_this_step_says_so_and_offers_now(stage: Stage) -> None:
    async def steps(run: Run, _: Message) -> None:
        await run.log_event("step_start")
        await run.delta("the first step ")
        await asyncio.Event().wait()

    one, other = await stage.tab(0), await stage.tab(1)
    async with stage.working(steps):
        await say(one, "Go")
        await expect(other.locator("#lane .prose")).to_contain_text("the first step")
        await other.get_by_role("button", name="How to stop").click()
        await other.get_by_role("menuitem", name="After this step").click()
        for page, who in ((one, ", asked by someone"), (other, ", asked by you")):
            await expect(page.locator("#stop-note")).to_have_text(f"Stops after step 1{who}")
        await one.get_by_role("button", name="Stop now").click()
        for page in (one, other):
            await expect(page.locator("#chip")).to_contain_text("Stopped")


async def test_waiting_message_is_edited_by_arrow_up_and_withdrawn(stage: Stage) -> None:
    gate, seen = asyncio.Event(), []

    async def slow(run: Run, message: Message) -> None:
        seen.append(message.text)
        await gate.wait()
        await run.add_message(Message.assistant("Done with it."))

    one, other = await stage.tab(0), await stage.tab(1)
    async with stage.working(slow):
        await say(one, "First")
        await expect(other.locator("#chip")).to_contain_text("Writing")
        for text in ("Second", "Third"):
            await say(one, text)
            await expect(other.locator("#queue")).to_contain_text(text)
        await expect(other.get_by_role("button", name="Withdraw this message")).to_have_count(0)
        await one.locator("#box").press("ArrowUp")
        await expect(one.locator("#box")).to_have_value("Third")
        await one.locator("#box").press("Escape")
        await expect(one.locator("#box")).to_have_value("")
        await expect(one.locator("#chip")).to_contain_text("Writing")  # that Esc stopped nothing
        await one.locator("#box").press("ArrowUp")
        await say(one, "Third, better")
        await expect(other.locator("#queue")).to_contain_text("Third, better")
        row = one.locator("#queue li", has_text="Second")
        await row.get_by_role("button", name="Withdraw this message").click()
        await expect(other.locator("#queue")).not_to_contain_text("Second")
        gate.set()
        await expect(other.locator("#lane .user")).to_have_count(2)
        await expect(other.locator("#queue")).to_be_hidden()
        assert seen == ["First", "Third, better"]


@pytest.mark.parametrize(
    ("policy", "label", "outcome"),
    [
        ("queue", "Queue", "2 runs"),
        ("steer", "Steer", "1 run"),
        ("interrupt", "Interrupt", "2 runs"),
        ("reject", "Send", "off"),
    ],
)
async def test_box_says_what_becomes_of_a_message_and_so_it_comes(
    stage: Stage, policy: Policy, label: str, outcome: str
) -> None:
    gate = asyncio.Event()
    seen: list[str] = []

    async def agent(run: Run, message: Message) -> None:
        seen.append(message.text)
        await gate.wait()
        if run.inbox.steers:
            await run.inbox.arrival()
            seen.extend(f"steered: {taken.text}" for taken in await run.inbox.take())
        await run.add_message(Message.assistant("Done with it."))

    # One that joins in mid-run is told, too.
    one = await stage.tab(0)
    async with stage.working(agent, policy=policy):
        await say(one, "First")
        await expect(one.locator("#chip")).to_contain_text("Writing")
        late = await stage.tab(1)
        for page in (one, late):
            await page.locator("#box").fill("Second")
            await expect(page.locator("#send")).to_have_attribute("aria-label", f"{label} message")
        if outcome == "off":
            await expect(late.locator("#send")).to_be_disabled()
            await late.keyboard.press("Enter")
            await expect(late.locator("#composer-note")).to_have_text("It takes no messages while it runs, draft kept")
            gate.set()
            await expect(late.locator("#send")).to_be_enabled()
            assert (await stage.gateways[0].topic("t"))["mirror"]["queue"] == []
            assert seen == ["First"]
            return
        await late.keyboard.press("Enter")
        if policy == "interrupt":
            await expect(one.locator("#lane")).to_contain_text("Stopped")
        else:
            await expect(one.locator("#queue")).to_contain_text("Second")
        gate.set()
        await expect(one.locator("#lane .user")).to_have_count(2)
        await expect(one.locator("#chip")).to_contain_text("Done")
        assert seen == ["First", "steered: Second" if policy == "steer" else "Second"]
        runs = (await stage.gateways[0].topic("t"))["mirror"]["runs"]
        assert len(runs) == int(outcome[0])


async def test_readers_are_shown_in_both_tabs(stage: Stage) -> None:
    one, other = await stage.tab(0), await stage.tab(1)
    for page in (one, other):
        await expect(page.locator("#faces .face")).to_have_count(2)
        await expect(page.locator("#watchers")).to_contain_text("You")
    await other.close()
    await expect(one.locator("#watching")).to_have_text("1")


async def test_cleared_messages_are_read_back(stage: Stage) -> None:
    async with stage.publisher.run("t", agent="helper") as run:
        await run.add_message(Message.user("Remember the attic"))
        await run.add_message(Message.assistant("It is **noted**."))
    async with stage.publisher.run("t", agent="helper", context=Context.new(), adopt=True) as run:
        await run.add_message(Message.assistant("A new beginning"))
    page = await stage.tab(0)
    await expect(page.locator("#lane .prose")).to_have_text("A new beginning")
    await page.get_by_role("button", name="Earlier messages, cleared").click()
    await page.get_by_role("button", name="Show the messages").click()
    await expect(page.locator(".inner .user")).to_contain_text("Remember the attic")
    await expect(page.locator(".inner .prose")).to_have_text("It is noted.")
    await expect(page.get_by_role("button", name="2 earlier messages, cleared")).to_be_visible()


async def test_summary_opens_to_what_it_replaced(stage: Stage) -> None:
    async with stage.publisher.run("t", agent="helper") as run:
        await run.add_message(Message.user("Remember the attic"))
        await run.add_message(Message.assistant("It is **noted**."))
        summary = Message.system("The attic was noted.")
        await run.change_context(lambda context: context.replace_message_range(0, 1, summary))
        await run.add_message(Message.assistant("Going on"))
    page = await stage.tab(0)
    await expect(page.locator("#lane .prose").last).to_have_text("Going on")
    await expect(page.locator("#lane .user")).to_have_count(0)
    await page.get_by_role("button", name="summarised").click()
    await expect(page.locator("#lane")).to_contain_text("The attic was noted.")
    await page.get_by_role("button", name="Show the messages").click()
    await expect(page.locator(".inner .user")).to_contain_text("Remember the attic")
    await expect(page.locator(".inner .prose")).to_have_text("It is noted.")


async def test_sub_agent_is_shown_inside_and_can_be_decided_there(stage: Stage) -> None:
    page = await stage.tab(0)
    async with stage.publisher.run("t", agent="lead") as lead, lead.sub_agent("scout") as scout:
        await lead.delta("I ask a scout. ")
        await scout.delta("It is quiet here.")
        await expect(page.locator(".nest .prose")).to_have_text("It is quiet here.")
        decision = asyncio.create_task(scout.approval(REFUND))
        await expect(page.locator(".nest .ask")).to_contain_text("Run refund?")
        await page.locator(".nest").get_by_role("button", name="Reject").click(delay=500)
        await page.locator(".nest").get_by_role("button", name="Reject").click()
        assert await decision == Reject()
        await page.get_by_role("button", name="Show what it does").click()
        await expect(page.locator(".nest .prose")).to_be_hidden()
