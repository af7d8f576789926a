"""What an append costs: the real script against bare commands on the same server, and the publisher before it.

    python -m bench.append [--events 40000] [--runs 20] [--rounds 7] [--json FILE]

* Redis: HINCRBY + XADD + PUBLISH in one script for each event, and for eight in one call (an XADD each, one PUBLISH),
  beside the product's own script with all that STORE.md needs; microseconds of Redis's CPU an event.
* Publisher: runs that write deltas as fast as they are taken, in one process: events a second of that process's CPU.
* Idle: single deltas with pauses between them, from the call to their arrival on the topic's channel, beside a bare
  PUBLISH: what the batching adds when there is nothing to batch.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

from bench.load import MESSAGE
from bench.tables import Table, median, options, run
from gateway.broker.embedded import EmbeddedServer
from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.broker.server import Server
from gateway.broker.wire import Wire
from gateway.publisher import Publisher
from gateway.types import START, Topic

BARE = """
local lines = {}
for i = 2, #ARGV do
  local top = redis.call('HINCRBY', KEYS[1], 'top', 1)
  redis.call('XADD', KEYS[2], top .. '-0', 'd', ARGV[i])
  lines[#lines + 1] = ARGV[i]
end
redis.call('PUBLISH', KEYS[1], table.concat(lines, '\\n'))
"""
DATA = (MESSAGE % ("x" * (170 - len(MESSAGE) + 2))).encode()
EIGHT = 8
DELTAS = 100
PAUSE = 0.03
"""Seconds between two deltas of an idle run: longer than any interval between flushes."""


async def server_cpu(wire: Wire) -> float:
    lines = (await wire.call("INFO", "cpu")).decode().splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    return float(facts["used_cpu_user_main_thread"]) + float(facts["used_cpu_sys_main_thread"])


async def bare(wire: Wire, *, runs: int, events: int, batch: int) -> None:
    sha = await wire.call("SCRIPT", "LOAD", BARE)

    async def one(number: int) -> None:
        for call in range(events // runs // batch):
            await wire.call("EVALSHA", sha, 2, f"bare:{{{number}}}", f"bare:{{{number}}}:events", call, *[DATA] * batch)

    await asyncio.gather(*(one(number) for number in range(runs)))


async def ours(broker: RedisBroker, *, runs: int, events: int, batch: int) -> None:
    async def one(number: int) -> None:
        topic, writer = Topic(f"bench:{number}"), f"run{number:013}"
        entry = Entry(kind="d", type="agent_delta", message="fedcba9876543210", data=DATA)
        position = START
        for call in range(events // runs // batch):
            request = AppendRequest(
                writer=writer,
                seq=str(call),
                run=writer,
                token="0123456789abcdef",  # noqa: S106  # of a lease, and no secret
                lease=None if call else 60_000,
                entries=[entry] * batch,
            )
            answer = await broker.append(topic, request, position=position)
            assert isinstance(answer, Appended), answer
            position = answer.position

    await asyncio.gather(*(one(number) for number in range(runs)))


async def redis_table(url: str, given: argparse.Namespace) -> None:
    wire = await Wire.connect(Server(url, timeout=30))
    broker = RedisBroker(url)
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(given.rounds):
        for batch in (1, EIGHT):
            sizes = {"runs": given.runs, "events": given.events, "batch": batch}
            for name, work in (("HINCRBY + XADD + PUBLISH", bare), ("append", ours)):
                await wire.call("FLUSHALL")
                used = await server_cpu(wire)
                await (bare(wire, **sizes) if work is bare else ours(broker, **sizes))
                found.setdefault((name, batch), []).append((await server_cpu(wire) - used) / given.events * 1e6)
    table = Table(
        f"Redis: {given.runs} runs at once, 170-byte events, median of {given.rounds} interleaved rounds",
        [
            ("script", "s"),
            ("events a call", "d"),
            ("us of Redis each", ".2f"),
            ("k events per Redis core", ".0f"),
            ("x bare, same batch", ".2f"),
            ("x bare, single", ".2f"),
        ],
    )
    for (name, batch), costs in found.items():
        same = [mine / base for mine, base in zip(costs, found["HINCRBY + XADD + PUBLISH", batch], strict=True)]
        single = [mine / base for mine, base in zip(costs, found["HINCRBY + XADD + PUBLISH", 1], strict=True)]
        table.add(name, batch, median(costs), 1e3 / median(costs), median(same), median(single))
    table.show(given.json)
    await broker.aclose()
    wire.close()
    await wire.wait_closed()


async def publisher_table(url: str, given: argparse.Namespace) -> None:
    table = Table(
        f"Publisher: {given.runs} runs in one process, 40-character deltas, median of {given.rounds}",
        [("flush interval", "s"), ("deltas/s", ".0f"), ("deltas per CPU s", ".0f"), ("deltas an event", ".1f")],
    )
    for interval in (0.02, 0.0):
        rates, cores, merged = [], [], []
        for _ in range(given.rounds):
            async with Publisher(url, flush_interval=interval) as publisher:
                topics = [Topic(f"bench:p{interval}:{number}") for number in range(given.runs)]
                each = given.events // given.runs

                async def write(topic: Topic, publisher: Publisher = publisher, each: int = each) -> None:
                    async with publisher.run(topic, agent="bench") as agent:
                        for number in range(each):
                            await agent.delta("forty characters of what a model wrote. ")
                            if number % 100 == 0:
                                await asyncio.sleep(0)
                        await agent.flush()

                before = [(await publisher.broker.read(topic, START, limit=0)).top for topic in topics]
                cpu, begun = time.process_time(), time.perf_counter()
                await asyncio.gather(*(write(topic) for topic in topics))
                took, used = time.perf_counter() - begun, time.process_time() - cpu
                tops = [(await publisher.broker.read(topic, START, limit=0)).top for topic in topics]
            rates.append(given.events / took)
            cores.append(given.events / used)
            merged.append(given.events / (sum(tops) - sum(before)))
        table.add(f"{interval * 1000:g} ms", median(rates), median(cores), median(merged))
    table.show(given.json)


async def arrivals(redis: Redis, channel: str, act: Callable[[], Awaitable[object]]) -> list[float]:
    """Give the milliseconds from each of some lone acts to what it brings on a channel."""
    found = []
    async with redis.pubsub() as pubsub:
        await pubsub.subscribe(channel)
        while await pubsub.get_message(timeout=0.2) is not None:
            pass
        for _ in range(DELTAS):
            await asyncio.sleep(PAUSE)
            begun = time.perf_counter()
            await act()
            while await pubsub.get_message(ignore_subscribe_messages=True, timeout=1) is None:
                pass
            found.append((time.perf_counter() - begun) * 1000)
    return found


async def idle_table(url: str, given: argparse.Namespace) -> None:
    topic, redis = Topic("bench:idle"), Redis.from_url(url)
    table = Table("A lone event, from the call to the channel", [("by", "s"), ("p50 ms", ".2f"), ("p95 ms", ".2f")])
    for interval in (0.02, 0.0):
        async with Publisher(url, flush_interval=interval) as publisher, publisher.run(topic, agent="bench") as agent:
            await agent.delta("first ")
            await agent.flush()
            times = sorted(await arrivals(redis, "gw:{bench:idle}", lambda agent=agent: agent.delta("word ")))
        table.add(f"Run.delta, flush interval {interval * 1000:g} ms", median(times), times[int(len(times) * 0.95)])
    times = sorted(await arrivals(redis, "bare", lambda: redis.publish("bare", DATA)))
    table.add("PUBLISH", median(times), times[int(len(times) * 0.95)])
    table.show(given.json)
    await redis.aclose()


async def main(given: argparse.Namespace) -> None:
    async with EmbeddedServer() as store:
        await redis_table(store.url, given)
        await publisher_table(store.url, given)
        await idle_table(store.url, given)


if __name__ == "__main__":
    parser = options(__doc__, rounds=7, seconds=0)
    parser.add_argument("--events", type=int, default=40_000, help="events of each kind and round (40000)")
    parser.add_argument("--runs", type=int, default=20, help="runs that append at the same time (20)")
    run(main, parser)
