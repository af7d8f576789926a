"""The dashboard and the run page after a while of work: histories with times of their own, told at once."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from playwright.async_api import Page, expect

from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.codec import encode_event
from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Topic
from tests.browser.looks import look
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

MODELS = ("atlas-large", "atlas-mini", "nano-2")
TITLES = (
    "Checkout latency since Tuesday",
    "Refund batch, November",
    "Upgrade of the search cluster to the next major version, with a rehearsal on the replica first",
    "Flaky test hunt",
    "Import of vendor list",
    "Postmortem of the cache outage",
    "Translate onboarding mails",
    "Weekly numbers",
)
AGENTS = ("researcher", "ledger", "planner", "fixer", "analyst", "writer", "translator", "support")


class Teller:
    """Appends events as they would have come, some time ago."""

    def __init__(self, broker: RedisBroker, topic: str, run: str, began: int) -> None:
        self._broker = broker
        self._topic = Topic(topic)
        self._run = run
        self._began = began
        self._entries: list[Entry] = []

    def tell(self, after: float, kind: str, **fields: Any) -> None:
        """Say what happened ``after`` seconds."""
        event: Mapping[str, Any] = {"type": kind, "run": self._run, "at": round(self._began + after * 1000)}
        self._entries.append(Entry(kind="h", type=kind, data=encode_event({**event, **fields})))

    async def append(self) -> None:
        for at in range(0, len(self._entries), 500):
            entries = tuple(self._entries[at : at + 500])
            request = AppendRequest(writer=f"teller-{self._run}", seq=str(at + 1), entries=entries)
            assert isinstance(await self._broker.append(self._topic, request, position=START), Appended)


async def story(
    publisher: Publisher, leave: Callable[[Run], Awaitable[None]], seen: Callable[[], Awaitable[None]], *, began: int
) -> None:
    """Tell a run of three steps in a minute and a half, and what came of it, as of some time ago."""
    at = 0.0
    # The only thing that is not as it was: when it says that it happened.
    publisher.broker.now = lambda: round(began + at * 1000)  # type: ignore[method-assign]
    async with publisher.run("chat:4113", agent="researcher", model="atlas-large") as run:
        await run.set_context(title="Checkout latency since Tuesday")
        await run.add_message(Message.user("Why is checkout slow since Tuesday?"))
        await run.flush()
        await seen()
        for number, (name, took) in enumerate((("query_metrics", 3), ("read_trace", 1), ("read_schema", 24))):
            await run.log_event("step_start")
            await run.log("info", f"step {number + 1} begins", logger="agent.loop")
            for second in range(16):
                at += 1
                if second > 1:
                    await (run.thinking if second < 6 else run.delta)(f"word{second} ")
                await run.flush()
            usage = {"input_tokens": 9_000 * (number + 1), "cache_read_input_tokens": 8_000 * number}
            await run.usage({**usage, "output_tokens": 900}, call=f"c{number}")
            call = ToolCall(id=f"t{number}", name=name, arguments='{"since":"Tuesday","limit":20.0}')
            await run.add_message(Message.assistant("I look at what changed.", tool_calls=(call,)))
            await run.tool_call(f"t{number}", name, '{"since":"Tuesday","limit":20.0}')
            at += took
            if number == 1:
                await run.log("error", "trace 7f3c…e1 expired after 24 h", logger="agent.tools")
            await run.tool_result(f"t{number}", name, "20 rows", error=number == 1)
            await run.log_event("step_end")
        await leave(run)


async def asks(run: Run) -> None:
    await run.log_event("step_start")
    arguments = '{"database":"orders-replica","sql":"CREATE INDEX CONCURRENTLY","lock_timeout":2000.0}'
    call = ToolCall(id="ask", name="apply_migration", arguments=arguments)
    await run.add_message(Message.assistant("An index is missing.", tool_calls=(call,)))
    await run.approval(call, timeout=None)


async def fails(run: Run) -> None:
    await run.delta("The first half of")
    await run.fail(RuntimeError("out of quota"))


async def stops(run: Run) -> None:
    await run.delta("The first half of")
    await run.cancel("asked by Jon")


@pytest.mark.parametrize(("leave", "word"), [(asks, "Needs you"), (fails, "Failed"), (stops, "Stopped")])
async def test_run_of_some_minutes(
    gateway: Gateway, page: Page, leave: Callable[[Run], Awaitable[None]], word: str
) -> None:
    async with Publisher(gateway.redis_url) as publisher:
        began = publisher.broker.now() - 90_000
        # Who comes later is not told what was said in pieces: a history keeps no deltas of finished messages.
        await page.goto(f"{gateway.url}/dashboard/run?topic=chat:4113")
        await expect(page.locator("#conn")).to_contain_text("Live")

        # It has read what was stored when it shows who runs; what comes from then on it is told as it is said.
        async def seen() -> None:
            await expect(page.locator("#facts")).to_contain_text("researcher")

        telling = asyncio.create_task(story(publisher, leave, seen, began=began))
        await expect(page.locator("#chip")).to_contain_text(word)
        await expect(page.locator("#log .log", has_text="expired after 24 h")).to_be_visible()
        await expect(page.locator("#facts")).to_contain_text("Thinking")
        await page.locator(".fall-row", has_text="read_trace").click()
        await expect(page.locator("#inspector")).to_contain_text("Failed")
        await page.locator("#steps").press("Escape")
        sizes = ((360, 740), (768, 900), (1440, 900)) if leave is asks else ((1440, 900),)
        await look(page, f"story-{word.partition(' ')[0].lower()}", sizes=sizes)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def test_board_full_of_runs(gateway: Gateway, page: Page) -> None:
    broker = RedisBroker(gateway.redis_url)
    now = broker.now()
    for number in range(48):
        began = now - 4_000 - number * 23_000
        run = Teller(broker, f"chat:{4100 + number}", f"r{number}", began)
        run.tell(0, "agent_start", agent=AGENTS[number % 8], model=MODELS[number % 3])
        run.tell(0, "context", title=TITLES[number % 8])
        run.tell(1, "usage", call="c", input_tokens=900 * (number + 1), output_tokens=120 * number + 7)
        kind = number % 6
        if number in {3, 11, 20}:
            run.tell(2, "approval_required", tool_call_id="ask", name="send_refunds", arguments='{"batch":"november"}')
        elif kind == 0:
            run.tell(2, "agent_thinking", message="m", text="Hm. ")
        elif kind in {1, 2}:
            run.tell(2, "agent_delta", message="m", text="Well. ")
        elif kind == 3:
            run.tell(2, "log", level="error", message="read_trace failed")
            run.tell(2, "agent_delta", message="m", text="Well. ")
        elif kind == 4:
            run.tell(2, "agent_complete")
        else:
            run.tell(2, "agent_error" if number % 4 else "agent_cancelled", error="out of quota", reason="asked by Jon")
        await run.append()
    await page.goto(f"{gateway.url}/dashboard")
    await expect(page.locator("#shown")).to_have_text(re.compile("^[0-9]+ of [0-9]+$"))
    await expect(page.locator('.stat[data-term="state:waiting"] .val')).to_have_text("3")
    await look(page, "board-full")
    await broker.aclose()
