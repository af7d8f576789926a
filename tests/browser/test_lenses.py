"""Readers with every kind of lens, in the browser and in Python, over a gateway that dies."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from gateway.broker.port import History
from gateway.client import Client, Subscription
from gateway.context.messages import Message, ToolCall
from gateway.event_types import BOOKKEEPING_TYPES, DELTA_TYPES, END_TYPES, SURFACE_TYPES
from gateway.lens import types_of
from gateway.mirror import CONTEXT_FIELDS, Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Topic
from tests.e2e.processes import Gateway, until
from tests.servers import RedisServer

pytestmark = pytest.mark.browser

LENSES: Mapping[str, Mapping[str, Any]] = {
    "chat": {"types": ["chat", "runs"]},
    "tools": {"types": ["tools", "runs"]},
    "usage": {"types": ["usage", "runs", "message_discarded"]},
    "logs": {"types": ["logs"]},
    "a list": {"types": ["log", "agent_start", *END_TYPES, *SURFACE_TYPES, "message_discarded", "agent_thinking"]},
    "every delta": {},
    "4 a second": {"rate": 4},
    "finished only": {"finished": True},
    "finished chat at 2 a second": {"types": ["chat"], "finished": True, "rate": 2},
}
"""As a reader asks for them."""

ENDS = frozenset(END_TYPES)
SURFACE = frozenset(SURFACE_TYPES)
BOOKKEEPING = frozenset(BOOKKEEPING_TYPES)
PARTS: Mapping[str, tuple[frozenset[str], Callable[[Any], Any]]] = {
    "log": (frozenset({"log"}), lambda state: state["log"]),
    "queue": (
        frozenset({"message_queued", "message_edited", "message_withdrawn", "message_taken"}),
        lambda state: state["queue"],
    ),
    "runs": (
        ENDS | {"agent_start", "cancel_requested", "step_start"},
        lambda state: [{**run, "calls": {}, "usage": {}} for run in state["runs"]],
    ),
    "usage": (
        ENDS | {"usage", "message_discarded", "agent_start"},
        lambda state: [[run["run"], run["calls"], run["usage"]] for run in state["runs"]],
    ),
    "approvals": (
        ENDS | {"approval_required", "approval_decided", "agent_start"},
        lambda state: state["approvals"],
    ),
    "open": (
        ENDS | SURFACE | {"message_discarded", "agent_start"},
        lambda state: sorted(state["open"], key=lambda message: message["message"]),
    ),
    "surface": (SURFACE, lambda state: [event for event in state["context"]["events"] if event["type"] in SURFACE]),
    "bookkeeping": (
        ENDS | BOOKKEEPING,
        lambda state: [event for event in state["context"]["events"] if event["type"] in BOOKKEEPING],
    ),
    "fields": (frozenset({"context"}), lambda state: [state["context"][name] for name in CONTEXT_FIELDS]),
}
"""The parts in which a mirror under a lens is exact, with the types that they hang on (PROTOCOL.md 3.8)."""


def parts(snapshot: Mapping[str, Any], lens: Mapping[str, Any]) -> dict[str, Any]:
    """Give the parts that must be exact under a lens."""
    shown = types_of(lens["types"]) if "types" in lens else None
    return {
        name: part(snapshot["mirror"]) for name, (types, part) in PARTS.items() if shown is None or types <= shown
    } | {"position": [snapshot["epoch"], snapshot["offset"]]}


FOLLOW = """async (lenses) => {
    const { Gateway } = await import('/static/gateway/index.js');
    // A topic has one lens a gateway object.
    globalThis.followed = new Map(Object.entries(lenses).map(([name, lens]) => {
        const gateway = new Gateway();
        const topic = gateway.subscribe('t', { lens });
        gateway.connect();
        return [name, topic];
    }));
}"""
STATES = "() => [...followed.values()].map(({ state, mirror }) => `${state} ${mirror.offset}`)"
HELD = "name => JSON.stringify(followed.get(name).mirror.snapshot())"


async def work(run: Run, number: int) -> None:
    """One turn of everything that a lens can show or hide."""
    call, tool, arguments = f"call-{number}", "run_sql", '{"limit":20.0}'
    await run.log_event("step_start")
    await run.log("warning" if number % 2 else "info", f"request {number}")
    await run.thinking("Hm. ")
    for word in range(30):
        await run.delta(f"word{word} ")
    await run.flush()
    await run.usage({"input_tokens": 100 * number, "output_tokens": 7}, call=f"model-{number}")
    await run.add_message(Message.assistant("Words.", tool_calls=(ToolCall(id=call, name=tool, arguments=arguments),)))
    await run.tool_call(call, tool, arguments)
    await run.emit({"type": "my.own", "number": number})
    await run.tool_result(call, tool, f"{number} rows")
    await run.log_event("step_end")


def filtered(history: History, lens: Mapping[str, Any]) -> dict[str, Any]:
    """Fold what a lens shows of a history, and nothing else."""
    mirror = Mirror(topic="t", epoch=history.epoch)
    shown = types_of(lens["types"]) if "types" in lens else None
    for stored in history.events:
        event = json.loads(stored.data)
        if (shown is None or event["type"] in shown) and not (lens.get("finished") and event["type"] in DELTA_TYPES):
            mirror.fold(event)
    mirror.offset = history.top
    return parts(mirror.snapshot(), lens)


async def test_readers_with_each_lens_end_equal_to_the_filtered_fold(page: Page, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "store", {"appendonly": "yes", "appendfsync": "always"}) as server:
        gateway = Gateway(server.url)
        await gateway.start()
        try:
            await page.goto(f"{gateway.url}/healthz")
            await page.evaluate(FOLLOW, LENSES)
            async with contextlib.AsyncExitStack() as stack:
                readers = await stack.enter_async_context(asyncio.TaskGroup())
                follow: dict[str, Subscription] = {}
                for name, lens in LENSES.items():
                    client = await stack.enter_async_context(Client(gateway.url))
                    follow[name] = client.subscribe("t", lens=dict(lens))
                    readers.create_task(read(follow[name]))

                async def all_at(top: int) -> bool:
                    states = await page.evaluate(STATES)
                    held = [subscription.mirror for subscription in follow.values()]
                    return states == [f"live {top}"] * len(LENSES) and all(
                        mirror is not None and mirror.offset == top for mirror in held
                    )

                publisher = await stack.enter_async_context(Publisher(server.url, flush_interval=0))
                run = await stack.enter_async_context(publisher.run("t", agent="researcher"))
                await run.add_message(Message.user("Why is checkout slow?"))
                for number in (1, 2, 3):
                    await work(run, number)
                await run.delta("Cut off in the mid")
                await run.flush()
                gateway.kill()
                assert gateway.process is not None
                await gateway.process.end()
                await run.delta("dle of a word. ")
                await run.add_message(Message.assistant("Cut off in the middle of a word."))
                await work(run, 4)
                await gateway.start()
                await work(run, 5)
                await run.delta("Never finished")
                await run.flush()
                history = await publisher.broker.read(Topic("t"), START)
                await until(lambda: all_at(history.top), "all readers to be at the top")
                for name, lens in LENSES.items():
                    wanted = filtered(history, lens)
                    assert len(wanted) > 1, name
                    assert parts(json.loads(await page.evaluate(HELD, name)), lens) == wanted, name
                    mirror = follow[name].mirror
                    assert mirror is not None
                    assert parts(mirror.snapshot(), lens) == wanted, name
        finally:
            await gateway.stop()


async def read(subscription: Subscription) -> None:
    async for _ in subscription:
        pass
