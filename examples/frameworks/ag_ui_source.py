"""Any source of AG-UI events on a topic, a sub-agent among them: python examples/frameworks/ag_ui_source.py [TOPIC]."""

import asyncio
import sys
from collections.abc import AsyncIterator

from ag_ui import core

from gateway import Publisher


async def source() -> AsyncIterator[core.BaseEvent]:
    yield core.RunStartedEvent(thread_id="t", run_id="r")
    yield core.SubagentStartedEvent(subagent_run_id="s", name="forecaster")
    yield core.TextMessageChunkEvent(subagent_run_id="s", message_id="m1", role="assistant", delta="Sunny.")
    yield core.SubagentFinishedEvent(subagent_run_id="s")
    for piece in ("It is ", "sunny ", "in Rome."):
        yield core.TextMessageChunkEvent(message_id="m2", role="assistant", delta=piece)
    yield core.RunFinishedEvent(thread_id="t", run_id="r")


async def main(topic: str) -> None:
    async with Publisher() as publisher, publisher.run(topic, agent="ag-ui") as run:
        await run.consume(source())


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "chat:ag-ui"))
