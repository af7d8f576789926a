"""What an append costs: the real script against its three bare commands, on the same server in the same run.

``python -m bench.append [--events 40000] [--runs 20] [--batch 1] [--rounds 3]``; starts a server of its own.
"""

import argparse
import asyncio
import math
import tempfile
import time
from pathlib import Path

from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.broker.wire import Server, Wire
from gateway.types import START, Topic
from tests.servers import RedisServer

BARE = """
for i = 3, #ARGV do
  local top = redis.call('HINCRBY', KEYS[1], 'top', 1)
  redis.call('XADD', KEYS[2], top .. '-0', 'd', ARGV[i])
  redis.call('HSET', KEYS[1], 'w', ARGV[2])
  redis.call('PUBLISH', KEYS[1], ARGV[i])
end
"""
EVENT = b'{"type":"agent_delta","at":1700000000000,"run":"0123456789abcdef","message":"fedcba9876543210","text":"%s"}'
DATA = EVENT % (b"x" * (170 - len(EVENT) + 2))


async def server_cpu(wire: Wire) -> float:
    lines = (await wire.call("INFO", "cpu")).decode().splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    return float(facts["used_cpu_user_main_thread"]) + float(facts["used_cpu_sys_main_thread"])


async def bare(wire: Wire, *, runs: int, events: int, batch: int) -> None:
    sha = await wire.call("SCRIPT", "LOAD", BARE)

    async def one(run: int) -> None:
        for call in range(events // runs // batch):
            keys = (f"bare:{{{run}}}", f"bare:{{{run}}}:events")
            await wire.call("EVALSHA", sha, 2, *keys, "PUBLISH", call, *[DATA] * batch)

    await asyncio.gather(*(one(run) for run in range(runs)))


async def ours(broker: RedisBroker, *, runs: int, events: int, batch: int) -> None:
    async def one(number: int) -> None:
        topic, run = Topic(f"bench:{number}"), f"run{number:013}"
        entry = Entry(kind="d", type="agent_delta", message="fedcba9876543210", data=DATA)
        position, lease = START, 60_000
        for call in range(events // runs // batch):
            request = AppendRequest(
                writer=run,
                seq=str(call),
                run=run,
                token="0123456789abcdef",  # noqa: S106  # of a lease, and no secret
                lease=None if call else lease,
                entries=[entry] * batch,
            )
            answer = await broker.append(topic, request, position=position)
            assert isinstance(answer, Appended), answer
            position = answer.position

    await asyncio.gather(*(one(number) for number in range(runs)))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=40_000, help="events of each kind (default: 40000)")
    parser.add_argument("--runs", type=int, default=20, help="runs that append at the same time (default: 20)")
    parser.add_argument("--batch", type=int, default=1, help="events in one append (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="times that both are done; the best of each counts")
    options = parser.parse_args()
    sizes = {"runs": options.runs, "events": options.events, "batch": options.batch}
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory)) as server:
        wire = await Wire.connect(Server(server.url, timeout=5))
        broker = RedisBroker(server.url)
        costs = {"bare": math.inf, "append": math.inf}
        rates = {"bare": 0.0, "append": 0.0}
        for _ in range(options.rounds):
            await wire.call("FLUSHALL")
            for name, work in {"bare": bare(wire, **sizes), "append": ours(broker, **sizes)}.items():
                cpu, started = await server_cpu(wire), time.perf_counter()
                await work
                took, used = time.perf_counter() - started, await server_cpu(wire) - cpu
                costs[name] = min(costs[name], used / options.events * 1e6)
                rates[name] = max(rates[name], options.events / took)
        for name, cost in costs.items():
            print(f"{name:>6}: {cost:5.1f} µs of server CPU an event, {rates[name]:7.0f} events/s")
        print(f" ratio: {costs['append'] / costs['bare']:.2f}")
        await broker.aclose()
        wire.close()
        await wire.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
