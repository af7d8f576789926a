"""What it costs to come back: time and store reads by what was missed, and by how long the history is.

    python -m bench.recovery [--lengths 1000,10000,100000] [--missed 10,1000,50000]

Each figure is the best of five: a websocket subscribes from its position until it stands at the top. The gateway is
started anew before each history, so that its memory holds nothing of it.
"""

import argparse
import asyncio
import sys
from typing import Any

from redis.asyncio import Redis
from websockets.asyncio.client import connect

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.codec import encode_event
from gateway.types import START, Position, Topic, new_id
from tests.e2e.processes import Gateway
from tests.serving import Plain

BATCH = 1000
ROUNDS = 5


async def written(broker: RedisBroker, topic: Topic, length: int) -> Position:
    """Write a topic of so many events."""
    top = START
    for start in range(0, length, BATCH):
        count = min(BATCH, length - start)
        events = [{"type": "app.note", "n": start + number, "text": "x" * 120} for number in range(count)]
        entries = [Entry(kind="h", type="app.note", data=encode_event(event)) for event in events]
        answer = await broker.append(topic, AppendRequest(writer=new_id(), seq="1", entries=entries), position=START)
        if not isinstance(answer, Appended):
            raise SystemExit(f"bench.recovery: the store answered {answer}")
        top = answer.position
    return top


async def scripts(redis: Redis) -> int:
    """Count the scripts that the server has run."""
    stats: dict[str, Any] = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


async def recovered(gateway: Gateway, topic: Topic, top: Position, missed: int) -> tuple[float, int]:
    """Come back from so far below the top; gives the seconds, and the bytes of the largest frame."""
    url = f"ws://127.0.0.1:{gateway.port}/connection/websocket"
    async with connect(url, compression=None, max_size=None, ping_interval=None) as socket:
        plain = Plain(socket)
        await plain.ask("connect", {})
        loop = asyncio.get_running_loop()
        begun = loop.time()
        asked = {"recover": True, "epoch": top.epoch, "offset": top.offset - missed}
        reply = await plain.ask("subscribe", {"channel": topic, **asked})
        if not reply["recovered"]:
            raise SystemExit("bench.recovery: the position was not continued")
        at = reply["offset"]
        while at < top.offset:
            at = (await plain.pub())["offset"]
        return loop.time() - begun, max(plain.frames)


async def run(options: argparse.Namespace) -> None:
    async with EmbeddedServer() as store, Redis.from_url(store.url) as redis:
        broker = RedisBroker(store.url, max_history_events=2 * max(options.lengths), max_history_bytes=1 << 30)
        print(f"{'events':>8} {'missed':>8} {'ms':>9} {'scripts':>8} {'largest frame':>14}")
        for length in options.lengths:
            topic = Topic(f"bench:recovery:{length}")
            top = await written(broker, topic, length)
            for missed in (missed for missed in options.missed if missed <= length):
                gateway = Gateway(store.url)
                await gateway.start()
                try:
                    before = await scripts(redis)
                    results = [await recovered(gateway, topic, top, missed) for _ in range(ROUNDS)]
                    calls = (await scripts(redis) - before) / ROUNDS
                finally:
                    await gateway.stop()
                seconds, frame = min(result[0] for result in results), max(result[1] for result in results)
                print(f"{length:8} {missed:8} {seconds * 1000:9.2f} {calls:8.1f} {frame:14}")
        await broker.aclose()


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.recovery")
    parser.add_argument("--lengths", type=numbers, default=[1_000, 10_000, 100_000], help="events of the histories")
    parser.add_argument("--missed", type=numbers, default=[10, 1_000, 50_000], help="events that were missed")
    asyncio.run(run(parser.parse_args(sys.argv[1:])))


if __name__ == "__main__":
    main()
