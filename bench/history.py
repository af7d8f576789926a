"""What a long conversation takes in Redis, against its final text.

    python -m bench.history [--tokens 100000] [--turns 50] [--max-history-bytes 8388608]

Every token is an event of its own, the worst case; the memory is what the server says of the topic's keys.
"""

import argparse
import asyncio
import random
import sys

from redis.asyncio import Redis

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.keys import Keys
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.types import START, Topic

TOPIC = Topic("bench:history")
WORDS = "the of a to and in that it is was for on as with be by at this have from or an but not are what all were"


async def memory(redis: Redis) -> dict[str, int]:
    names = ("state", "events", "open", "snap", "archive", "blobs")
    sizes = {}
    for name, key in zip(names, Keys("gw").of(TOPIC), strict=True):
        sizes[name] = int(await redis.memory_usage(key, samples=0) or 0)
    return sizes


async def run(options: argparse.Namespace) -> None:
    choose, words = random.Random(1).choice, WORDS.split()
    per_turn = options.tokens // options.turns
    text, peak = 0, 0
    async with EmbeddedServer() as store, Redis.from_url(store.url) as redis:
        broker = RedisBroker(store.url, max_history_bytes=options.max_history_bytes)
        async with Publisher(broker=broker, flush_interval=0) as publisher:
            for turn in range(options.turns):
                async with publisher.run(TOPIC, agent="bench") as agent:
                    await agent.add_message(Message.user(f"question {turn}"))
                    answer = []
                    for _ in range(per_turn):
                        answer.append(choose(words) + " ")
                        await agent.delta(answer[-1])
                    await agent.flush()
                    peak = max(peak, sum((await memory(redis)).values()))
                    await agent.add_message(Message.assistant("".join(answer)))
                    await agent.flush()
                    text += sum(len(piece) for piece in answer)
        top = (await broker.read(TOPIC, START, limit=0)).top
        sizes = await memory(redis)
        await broker.aclose()
    total = sum(sizes.values())
    sys.stdout.write(f"{options.tokens} tokens in {options.turns} turns, {top} events, {text / 1024:.0f} KiB of text\n")
    for name, size in sizes.items():
        if size:
            sys.stdout.write(f"  {name:8} {size / 1024:8.0f} KiB\n")
    sys.stdout.write(f"Redis holds {total / text:.1f} times the text, at most {peak / text:.1f} times its final size\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--max-history-bytes", type=int, default=8 * 1024 * 1024)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
