"""A gateway restarts and all its readers come back at once: how long until every one of them is exact again.

    python -m bench.herd [--readers 5000] [--topics 5]

Once on few topics and once on as many topics as readers. The readers connect with full jitter, as clients do, spread
over --spread seconds; all of it is printed: time, scripts that the store ran, snapshots' bytes.
"""

import argparse
import asyncio
import random
import resource
import sys
from typing import Any

from redis.asyncio import Redis

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.redis import RedisBroker
from tests.e2e.processes import Gateway
from tests.e2e.reader import Reader
from tests.serving import append

EVENTS = 20
MISSED = 5
PATIENCE = 30.0
"""Seconds after which a reader gives up a connection that does not answer, and comes again."""


class Returning(Reader):
    """A reader that takes a temporary refusal as one, as clients do: it comes again."""

    def _take(self, opcode: int, payload: bytes) -> None:
        waiting = self._subscribed is not None and not self._subscribed.done()
        if waiting and self._subscribed is not None and b'"error":' in payload and b'"temporary":true' in payload:
            self._subscribed.set_exception(ConnectionError("refused for now"))
        else:
            super()._take(opcode, payload)


async def scripts(redis: Redis) -> int:
    """Count the scripts that the server has run."""
    stats: dict[str, Any] = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


async def come(readers: list[Reader], spread: float) -> None:
    """Connect every reader, again where the gateway does not answer yet."""

    async def one(reader: Reader) -> None:
        await asyncio.sleep(random.uniform(0, spread))
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    await reader.connect()
            except (OSError, TimeoutError):
                reader.drop()
                reader.settle()
                await asyncio.sleep(random.uniform(0, spread or 0.5))
            else:
                return

    await asyncio.gather(*(one(reader) for reader in readers))


async def exact(readers: list[Reader], tops: dict[str, int]) -> None:
    """Wait until every reader stands at its topic's top."""
    waiting = readers
    while waiting:
        waiting = [reader for reader in waiting if reader.settle().offset < tops[reader.mirror.topic]]
        await asyncio.sleep(0.01)


async def herd(options: argparse.Namespace, topics: int) -> None:
    loop = asyncio.get_running_loop()
    names = [f"bench:herd:{number}" for number in range(topics)]
    async with EmbeddedServer() as store, Redis.from_url(store.url) as redis:
        broker = RedisBroker(store.url)
        events = [{"type": "app.note", "n": number, "text": "x" * 100} for number in range(EVENTS)]
        for name in names:
            await append(broker, name, *events)
        gateway = Gateway(store.url, "--drain", "0")
        await gateway.start()
        readers: list[Reader] = [Returning(gateway.port, names[number % topics]) for number in range(options.readers)]
        begun = loop.time()
        await come(readers, options.spread)
        await exact(readers, dict.fromkeys(names, EVENTS))
        first = loop.time() - begun
        await gateway.stop()
        await asyncio.gather(*(reader.lost.wait() for reader in readers))
        for name in names:
            await append(broker, name, *events[:MISSED])
        before = await scripts(redis)
        begun = loop.time()
        await asyncio.gather(gateway.start(), come(readers, options.spread))
        await exact(readers, dict.fromkeys(names, EVENTS + MISSED))
        seconds, calls = loop.time() - begun, await scripts(redis) - before
        states = {name: (await gateway.topic(name)) for name in random.sample(names, min(20, topics))}
        wrong = sum(
            reader.mirror.snapshot() != states[reader.mirror.topic]
            for reader in readers
            if reader.mirror.topic in states
        )
        for reader in readers:
            reader.drop()
        await gateway.stop()
        await broker.aclose()
    print(
        f"{options.readers} readers on {topics} topics: first join {first:.1f} s, all exact {seconds:.1f} s after the"
    )
    print(f"  restart began, {calls} scripts ({calls / topics:.2f} a topic), {wrong} wrong states")
    if wrong:
        raise SystemExit("bench.herd: readers differ from the topic's state")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.herd")
    parser.add_argument("--readers", type=int, default=5000, help="readers")
    parser.add_argument("--topics", type=int, default=5, help="topics of the first round; the second has one a reader")
    parser.add_argument("--spread", type=float, default=1.0, help="seconds over which they come back; 0 for none")
    options = parser.parse_args(sys.argv[1:])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for topics in (options.topics, options.readers):
        asyncio.run(herd(options, topics))


if __name__ == "__main__":
    main()
