"""How long a stop takes: from asking one gateway to seeing the run's own `agent_cancelled` through another.

    python -m bench.stop [--stops 500] [--workers 3] [--at-once 4]

Two gateways, some workers and one Redis, each a process of its own. A run is stopped while its model streams, while it
is silent, in a tool, at a question for approval; a row per state tells how many stops took how long. Afterwards every
connection to the models' provider must have been closed from the runs' side, and no history may hold anything that a
run wrote after its `agent_cancelled`.
"""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from tests.e2e.endless import EndlessProvider
from tests.e2e.processes import Gateway
from tests.e2e.working import STATES, reached
from tests.publishing import events, until, written_after_a_stop
from tests.servers import RedisServer

BOUNDS = (5, 10, 20, 50, 100, 250, 1000)
"""Upper bounds of the histogram's columns, in ms."""
TARGET = 250
"""What p99 has to stay below, in ms."""
WAIT = 60.0
"""Seconds after which a stop counts as lost."""


async def stop(number: int, asker: Client, watcher: Client) -> tuple[str, float]:
    """Stop one run; gives its state and how long it took, in ms."""
    state, topic = STATES[number % len(STATES)], f"bench:{number}"
    await asker.send(topic, f"{state} {number}", id=f"m{number}")
    asked: float | None = None
    async with asyncio.timeout(WAIT):
        async for update in watcher.subscribe(topic, since="start"):
            mirror = update.mirror.state()
            if asked is None and reached(mirror):
                await asyncio.sleep(random.uniform(0, 0.05))
                asked = time.perf_counter()
                await asker.rpc("cancel", {"topic": topic, "run": mirror["runs"][0]["run"], "id": f"c{number}"})
            elif asked is not None and mirror["runs"][0]["status"] == "cancelled":
                break
    assert asked is not None
    return state, (time.perf_counter() - asked) * 1000


async def check(redis_url: str, provider: EndlessProvider, *, stops: int) -> None:
    """Look at what the stops have left: open connections, late events."""

    async def closed() -> bool:
        return not any(provider.open.values())

    await until(closed)
    print(f"{sum(provider.asked.values())} connections to the provider, all closed by the runs")
    broker = RedisBroker(redis_url)
    late = [event for number in range(stops) for event in written_after_a_stop(await events(broker, f"bench:{number}"))]
    await broker.aclose()
    assert not late, late
    print(f"{stops} histories without an event of a run after its agent_cancelled")


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
        async with EndlessProvider() as provider:
            gateways = [Gateway(redis.url), Gateway(redis.url)]
            command = (sys.executable, "-m", "tests.e2e.working", redis.url, provider.url, directory)
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
                met = report(times)
                await check(redis.url, provider, stops=stops)
            finally:
                for process in working:
                    process.kill()
                    await process.wait()
                for gateway in gateways:
                    await gateway.stop()
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=500, help="runs to stop (default: 500)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (default: 3)")
    parser.add_argument("--at-once", type=int, default=4, help="stops at the same time (default: 4)")
    options = parser.parse_args()
    if not asyncio.run(measure(stops=options.stops, workers=options.workers, at_once=options.at_once)):
        raise SystemExit(f"p99 is not below {TARGET} ms")


if __name__ == "__main__":
    main()
