"""How long a stop takes: from asking one gateway to seeing the run's own `agent_cancelled` through another.

    python -m bench.stop [--stops 50] [--workers 3] [--at-once 4]

Two gateways, some workers and one Redis, each a process of its own. A run is stopped while it streams, while its model
is silent, in a tool, at a question for approval; a row per state tells how many stops took how long.
"""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.agent.loop import answer
from gateway.client import Client
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker
from tests.e2e.processes import Gateway
from tests.servers import RedisServer

STATES = ("streaming", "silent", "tool", "approval")
BOUNDS = (5, 10, 20, 50, 100, 250, 1000)
"""Upper bounds of the histogram's columns, in ms."""
TARGET = 250
"""What p99 has to stay below, in ms."""
WAIT = 60.0
"""Seconds after which a stop counts as lost."""


class Model:
    """Brings a run into the state that the message names, and leaves it there."""

    name = "bench"

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        state = run.context.entries[0].text
        if state == "silent":
            await asyncio.Event().wait()
        while state == "streaming":
            await run.delta("word ")
            await asyncio.sleep(0.01)
        await run.add_message(Message.assistant(None, tool_calls=(ToolCall(id="c1", name=state, arguments="{}"),)))
        return run.context.entries[-1]


async def hang(_: Mapping[str, Any]) -> None:
    await asyncio.Event().wait()


TOOLS = (
    Tool(name="tool", function=hang, takes_context=False, timeout=None),
    Tool(name="approval", function=hang, takes_context=False, requires_approval=True),
)


async def work(redis_url: str) -> None:
    """Be a worker process, until it is killed."""

    async def agent(run: Run, _: Message) -> None:
        await answer(run, Model(), TOOLS)

    async with Publisher(redis_url) as publisher:
        await Worker(publisher, agent, concurrency=64).serve()


def reached(state: str, mirror: Mapping[str, Any]) -> bool:
    """Tell whether the topic's run is in a state."""
    if not mirror["runs"]:
        return False
    kinds = {event["type"] for event in mirror["context"]["events"]}
    match state:
        case "streaming":
            return bool(mirror["open"])
        case "silent":
            return "request_header" in kinds
        case "tool":
            return "tool_call" in kinds
        case _:
            return bool(mirror["approvals"])


async def stop(number: int, asker: Client, watcher: Client) -> tuple[str, float]:
    """Stop one run; gives its state and how long it took, in ms."""
    state, topic = STATES[number % len(STATES)], f"bench:{number}"
    await asker.send(topic, state, id=f"m{number}")
    asked: float | None = None
    async with asyncio.timeout(WAIT):
        async for update in watcher.subscribe(topic, since="start"):
            mirror = update.mirror.state()
            if asked is None and reached(state, mirror):
                await asyncio.sleep(random.uniform(0, 0.05))
                asked = time.perf_counter()
                await asker.rpc("cancel", {"topic": topic, "run": mirror["runs"][0]["run"], "id": f"c{number}"})
            elif asked is not None and mirror["runs"][0]["status"] == "cancelled":
                break
    assert asked is not None
    return state, (time.perf_counter() - asked) * 1000


def quantile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, math.ceil(share * len(sorted_values)) - 1)]


def report(times: Mapping[str, list[float]]) -> bool:
    """Print the table; tells whether the target is met."""
    print(f"{'':>10}" + "".join(f"{f'<{bound}':>7}" for bound in BOUNDS) + f"{'more':>7}{'p50':>9}{'p99':>9}  ms")
    whole = sorted(value for values in times.values() for value in values)
    for name, values in [*((state, sorted(times[state])) for state in STATES if times[state]), ("all", whole)]:
        counts = [sum(low <= value < high for value in values) for low, high in zip((0, *BOUNDS), (*BOUNDS, math.inf))]  # noqa: B905 - as long by construction
        print(
            f"{name:>10}"
            + "".join(f"{count:7}" for count in counts)
            + f"{quantile(values, 0.5):9.1f}{quantile(values, 0.99):9.1f}"
        )
    return quantile(whole, 0.99) < TARGET


async def measure(*, stops: int, workers: int, at_once: int) -> bool:
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory)) as redis:
        gateways = [Gateway(redis.url), Gateway(redis.url)]
        command = (sys.executable, "-m", "bench.stop", "--work", redis.url)
        working = [await asyncio.create_subprocess_exec(*command) for _ in range(workers)]
        try:
            for gateway in gateways:
                await gateway.start()
            async with Client(gateways[0].url) as asker, Client(gateways[1].url) as watcher:
                slots = asyncio.Semaphore(at_once)

                async def one(number: int) -> None:
                    async with slots:
                        state, took = await stop(number, asker, watcher)
                        times[state].append(took)

                async with asyncio.TaskGroup() as group:
                    for number in range(stops):
                        group.create_task(one(number))
        finally:
            for process in working:
                process.kill()
                await process.wait()
            for gateway in gateways:
                if gateway.process is not None:
                    await gateway.process.stop()
    return report(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=50, help="runs to stop (default: 50)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (default: 3)")
    parser.add_argument("--at-once", type=int, default=4, help="stops at the same time (default: 4)")
    parser.add_argument("--work", metavar="REDIS_URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work))
    elif not asyncio.run(measure(stops=options.stops, workers=options.workers, at_once=options.at_once)):
        raise SystemExit(f"p99 is not below {TARGET} ms")


if __name__ == "__main__":
    main()
