"""Runs on many topics at once, and events for all of them at a rate."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.codec import encode_event
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Topic

__all__ = ["Load", "load"]

SLOT = 0.25
"""Seconds between two appends to one topic."""
TURN = 20
"""Every so many appends of a topic are a tool's call and its result, after which another message begins."""
WORD = "some words "


@dataclass
class Load:
    """Running runs, one a topic."""

    publisher: Publisher
    runs: list[Run]
    slots: int = 0
    """How often each was written to."""
    characters: int = 0
    """Of the texts written so far."""

    async def write(self, *, rate: int, seconds: float) -> float:
        """Write to every topic, evenly in time.

        Args:
            rate: Events a second, all topics together.
            seconds: For so long.

        Returns:
            The events a second that the store took: fewer than asked for where this machine is too slow.

        """
        loop = asyncio.get_running_loop()
        began, stored = loop.time(), 0
        each = max(1, round(rate * SLOT / len(self.runs)))
        first, slots = self.slots, round(seconds / SLOT)
        self.slots += slots

        async def one(run: Run, delay: float) -> None:
            nonlocal stored
            for number in range(slots):
                await asyncio.sleep(max(0.0, began + delay + number * SLOT - loop.time()))
                count = await self._append(run, first + number, each)
                stored += count

        async with asyncio.TaskGroup() as writers:
            for number, run in enumerate(self.runs):
                writers.create_task(one(run, SLOT * number / len(self.runs)))
        return stored / (loop.time() - began)

    async def _append(self, run: Run, slot: int, count: int) -> int:
        if slot % TURN == TURN - 1:
            await run.tool_call(f"t{slot}", "run_sql", "{}")
            await run.tool_result(f"t{slot}", "run_sql", "done")
            return 2
        message = f"m{slot // TURN}"
        kind = "agent_thinking" if slot % TURN < TURN // 4 else "agent_delta"
        data = encode_event(
            {"type": kind, "at": self.publisher.broker.now(), "run": run.id, "message": message, "text": WORD}
        )
        entries = (Entry(kind="d", type=kind, message=message, data=data),) * count
        request = AppendRequest(writer=f"load-{run.id}", seq=str(slot + 1), entries=entries)
        answer = await self.publisher.broker.append(Topic(run.topic), request, position=START)
        assert isinstance(answer, Appended), answer
        self.characters += count * len(WORD)
        return count


@contextlib.asynccontextmanager
async def load(redis_url: str, topics: int) -> AsyncIterator[Load]:
    """Give runs on topics `chat:0000` and so on."""
    async with Publisher(redis_url) as publisher, contextlib.AsyncExitStack() as stack:
        runs = [
            await stack.enter_async_context(publisher.run(f"chat:{number:04}", agent=f"agent-{number % 7}"))
            for number in range(topics)
        ]
        yield Load(publisher, runs)
