"""Joining in the middle of a run: what one reader waits and gets, and what a thousand at once cost.

    python -m bench.joins [--tokens 20000] [--turns 40] [--readers 1000] [--rounds 7] [--json FILE]

The last turn is still being written: its text is an open message. One reader joins a gateway that holds nothing of the
topic, then one that does; then many at once, 64 at a time, each waiting until it has the open message's last word.
"""

import argparse
import asyncio
import json
import random
from typing import NamedTuple

from redis.asyncio import Redis
from websockets.asyncio.client import connect

from bench.load import Load, Shape, compiled, cpu_seconds
from bench.servers import family
from bench.tables import Table, median, options, run
from gateway.broker.embedded import EmbeddedServer
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.e2e.processes import Gateway

TOPIC = Topic("bench:joins")
WORDS = "the of a to and in that it is was for on as with be by at this have from or an but not are what all were"
LAST = "the-last-word"
SUBSCRIBE = {"id": 2, "subscribe": {"channel": TOPIC, "data": {"mirror": True}}}


class Join(NamedTuple):
    """One reader's."""

    ms: float
    size: int
    frames: int


async def joined(gateway: Gateway) -> Join:
    """Join, and wait until the snapshot is whole."""
    url = f"ws://127.0.0.1:{gateway.port}/connection/websocket"
    async with connect(url, compression=None, max_size=None, ping_interval=None) as socket:
        await socket.send(json.dumps({"id": 1, "connect": {}}))
        await socket.recv()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await socket.send(json.dumps(SUBSCRIBE))
        size, frames, due = 0, 0, 1
        while due:
            data = await socket.recv()
            size, frames = size + len(data), frames + 1
            for line in data.splitlines():
                message = json.loads(line)
                if message.get("id") == 2:
                    snapshot = message["subscribe"]["data"]["snapshot"]
                    due = snapshot.get("parts", 0)
                elif message.get("push", {}).get("pub", {}).get("data", {}).get("type") == "snapshot":
                    due -= 1
        return Join((loop.time() - begun) * 1000, size, frames)


async def scripts(redis: Redis) -> int:
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


async def main(given: argparse.Namespace) -> None:
    choose, words = random.Random(1).choice, WORDS.split()
    cold: list[Join] = []
    warm: list[Join] = []
    herds: list[tuple[float, float, int]] = []
    templates = {
        "path": b"/connection/websocket",
        "first": b'{"id":1,"connect":{}}',
        "subscribe": json.dumps(SUBSCRIBE).encode(),
        "ready": LAST.encode(),
    }
    async with EmbeddedServer() as store, Redis.from_url(store.url) as redis:
        broker = RedisBroker(store.url)
        async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="bench") as agent:
            for turn in range(given.turns):
                await agent.add_message(Message.user(f"question {turn}"))
                pieces = [choose(words) + " " for _ in range(given.tokens // given.turns)]
                for piece in pieces:
                    await agent.delta(piece)
                if turn < given.turns - 1:
                    await agent.add_message(Message.assistant("".join(pieces)))
            await agent.delta(LAST)
            await agent.flush()
            with compiled("load") as tools:
                for _ in range(given.rounds):
                    gateway = Gateway(store.url)
                    await gateway.start()
                    try:
                        assert gateway.process is not None
                        cold.append(await joined(gateway))
                        warm.append(await joined(gateway))
                        pids = family(gateway.process.pid)
                        used, ran = cpu_seconds(pids), await scripts(redis)
                        sizes = {"port": gateway.port, "feed_port": 0}
                        load = await asyncio.to_thread(
                            Load, tools / "load", templates, Shape(readers=given.readers), **sizes
                        )
                        load.close()
                        herds.append((load.connecting, cpu_seconds(pids) - used, await scripts(redis) - ran))
                    finally:
                        await gateway.stop()
        await broker.aclose()
    title = f"Joining a conversation of {given.tokens} tokens in {given.turns} turns, the last one open"
    table = Table(title, [("join", "s"), ("ms", ".1f"), ("KiB", ".1f"), ("frames", ".0f")])
    for name, joins in (("the first", cold), ("the next", warm)):
        table.add(
            name,
            median(join.ms for join in joins),
            median(join.size for join in joins) / 1024,
            median(join.frames for join in joins),
        )
    table.show(given.json)
    many = Table(
        f"{given.readers} joins at once, handshakes included",
        [("readers", "s"), ("seconds", ".2f"), ("CPU seconds", ".2f"), ("us each", ".0f"), ("scripts in Redis", ".0f")],
    )
    used_median = median(used for _, used, _ in herds)
    many.add(
        str(given.readers),
        median(took for took, _, _ in herds),
        used_median,
        used_median / given.readers * 1e6,
        median(ran for _, _, ran in herds),
    )
    many.show(given.json)


if __name__ == "__main__":
    parser = options(__doc__, rounds=7, seconds=0)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--readers", type=int, default=1000)
    run(main, parser)
