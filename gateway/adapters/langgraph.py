"""Running a LangGraph graph whose interrupts people decide on the topic."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from gateway.adapters.response import Asking, compact
from gateway.context.approval import Approve, Edit
from gateway.context.jsonlike import lenient
from gateway.context.messages import ToolCall

__all__ = ["graph_events"]


async def graph_events(
    run: Asking, graph: "CompiledStateGraph[Any, Any, Any, Any]", input: Any, config: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """Give the events of a graph, for `Run.consume`; at each interrupt ask people, and go on with what they decided.

    What ``interrupt`` was given names the question: its ``name`` or ``action`` and its ``args`` or ``arguments`` where
    it is a map. In the graph it returns ``{"decision": "approve" | "edit" | "reject", "arguments", "reason"}``.

    Args:
        run: On whose topic people are asked.
        graph: Compiled with a checkpointer: without one it cannot be interrupted.
        input: As of ``astream_events``.
        config: As of ``astream_events``; its ``thread_id`` names the conversation.

    """
    given: Any = dict(config)
    while True:
        asked: dict[str, Interrupt] = {}
        events = graph.astream_events(input, given, version="v2")
        try:
            async for event in events:
                chunk = event.get("data", {}).get("chunk")
                # The graph around it tells an inner graph's interrupt, too.
                for interrupt in (chunk.get("__interrupt__") if isinstance(chunk, dict) else None) or ():
                    asked[interrupt.id] = interrupt
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator, declared as an iterator
        if not asked:
            return
        answers = await asyncio.gather(*(_decide(run, interrupt) for interrupt in asked.values()))
        input = Command(resume=dict(zip(asked, answers, strict=True)))  # noqa: A001 - what the graph goes on with


async def _decide(run: Asking, interrupt: Interrupt) -> dict[str, Any]:
    value = interrupt.value if isinstance(interrupt.value, dict) else {"question": interrupt.value}
    name = str(value.get("name") or value.get("action") or "interrupt")
    arguments = value.get("args", value.get("arguments", value))
    match await run.approval(ToolCall(id=interrupt.id, name=name, arguments=compact(lenient(arguments)))):
        case Approve():
            return {"decision": "approve"}
        case Edit(arguments=edited):
            return {"decision": "edit", "arguments": dict(edited)}
        case rejected:
            return {"decision": "reject", "reason": rejected.reason}
