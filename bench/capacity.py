"""How many gateways, Redis shards and how much bandwidth so many viewers and runs take: a model, and its check.

    python -m bench.capacity --viewers 1000000 --runs 20000 [--active 1] [--rate 30] [--fill 0.6] [--connections 50000]
    python -m bench.capacity --check [--seconds 3] [--json FILE]

The model: a viewer reads one topic, over whatever gateway; --active is the share of those whose topic has a live run
right now, and a live run writes --rate events a second. Processes are filled to a share (--fill) of their core. What
things cost is in `COSTS`, measured with --check on two shapes: a thousand topics with one reader each, where events
cost most, and one topic with a thousand readers, where writes do. --check then foretells a third shape from what the
two gave, and measures it.
"""

import argparse
import asyncio
import math
from typing import NamedTuple

from bench.load import Result, Shape, compiled, cpu_seconds
from bench.servers import connected, gateway, redis
from bench.tables import Table, options, run, say
from gateway.broker.server import Server
from gateway.broker.wire import Wire

PING_INTERVAL = 25
"""Seconds: the setting's default."""
FILL = 0.6
"""Share of its core that a process may use."""
CONNECTIONS = 50_000
"""Of a process at most."""
PACKET = 66
"""Bytes of Ethernet, IP and TCP headers around a write."""
SUBSCRIBERS = 40
PUBLISHED = 3000


class Costs(NamedTuple):
    """What things cost.

    Attributes:
        event: Microseconds of a gateway's core for an event of a topic that it has readers of.
        write: Microseconds of a gateway's core for each reader that an event is written to.
        ping: Microseconds of a gateway's core for a ping and its answer.
        connection: Bytes of a gateway's memory for a connection with one topic, the kernel's not counted.
        append: Microseconds of Redis's core for an event that comes alone, heard by one gateway.
        hearing: Microseconds of Redis's core for each further gateway that hears an event.
        frame: Bytes that an event of 200 bytes is on the wire, headers of websocket, TCP and IP included.

    """

    event: float
    write: float
    ping: float
    connection: float
    append: float
    hearing: float
    frame: float


COSTS = Costs(event=19, write=7.4, ping=40, connection=4600, append=61, hearing=4.9, frame=331)
"""30 November 2026, 2 shared cores, while other work ran beside: rather too high than too low."""


class Demand(NamedTuple):
    """What is wanted of a system.

    Attributes:
        viewers: Connections.
        runs: Runs that are alive at the same time.
        rate: Events a second of each.
        active: Share of the viewers who look at one of them; the others' topics are quiet.

    """

    viewers: int
    runs: int
    rate: float
    active: float = 1.0


class Need(NamedTuple):
    """What one gateway of some is busy with.

    Attributes:
        core: Share of a core of each gateway.
        memory: Bytes of its connections.
        redis: Redis cores, all together.
        bits: Bits a second to the viewers, all together.
        inside: Bits a second from Redis to the gateways, all together.

    """

    core: float
    memory: float
    redis: float
    bits: float
    inside: float


def need(demand: Demand, gateways: int, costs: Costs = COSTS) -> Need:
    """Foretell what so many gateways, among which viewers are spread by chance, take."""
    viewers, events = demand.viewers / gateways, demand.runs * demand.rate
    # A gateway hears only the topics that one of its connections reads.
    looking = demand.viewers * demand.active
    heard = events * (1 - (1 - 1 / gateways) ** (looking / demand.runs)) if gateways > 1 else events
    delivered = looking * demand.rate
    used = heard * costs.event + delivered / gateways * costs.write + viewers / PING_INTERVAL * costs.ping
    further = max(0.0, heard * gateways - events)
    return Need(
        core=used / 1e6,
        memory=viewers * costs.connection,
        redis=(events * costs.append + further * costs.hearing) / 1e6,
        bits=delivered * costs.frame * 8,
        inside=heard * gateways * costs.frame * 8,
    )


def gateways_for(demand: Demand, *, fill: float, connections: int, costs: Costs = COSTS) -> int:
    """Give the smallest number of gateway processes that stay below a share of their core and a number of connections.

    Raises:
        ValueError: Not any number does: a process would have to hear more events than it can.

    """
    low = high = max(1, -(-demand.viewers // connections))
    while need(demand, high, costs).core > fill:
        if high > demand.viewers:
            raise ValueError(f"no number of gateways carries {demand}")
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if need(demand, middle, costs).core <= fill else (middle + 1, high)
    return high


class Plan(NamedTuple):
    """What a demand takes.

    Attributes:
        gateways: Processes.
        shards: Masters of Redis.
        need: What they are busy with.

    """

    gateways: int
    shards: int
    need: Need


def plan(demand: Demand, *, fill: float = FILL, connections: int = CONNECTIONS, costs: Costs = COSTS) -> Plan:
    """Give the smallest system that stays below a share of each core and a number of connections a process.

    Raises:
        ValueError: None does: a process would have to hear more events than it can.

    """
    number = gateways_for(demand, fill=fill, connections=connections, costs=costs)
    found = need(demand, number, costs)
    return Plan(gateways=number, shards=max(1, math.ceil(found.redis / fill)), need=found)


def show(demands: list[Demand], given: argparse.Namespace) -> None:
    table = Table(
        f"What it takes, each process filled to {given.fill:.0%} of a core, {given.connections} connections at most",
        [
            ("viewers", "s"),
            ("runs at once", ",d"),
            ("events/s", ",.0f"),
            ("delivered/s", ",.0f"),
            ("gateway processes", ",d"),
            ("connections each", ",.0f"),
            ("core each", ".0%"),
            ("MB each", ",.0f"),
            ("Redis shards", ",d"),
            ("Gbit/s out", ",.2f"),
            ("Gbit/s from Redis", ",.2f"),
        ],
        note="MB: of connections; beside them a process takes about 60, its rings and mirrors what the settings say.",
    )
    for demand in demands:
        found = plan(demand, fill=given.fill, connections=given.connections)
        table.add(
            f"{demand.viewers:,}",
            demand.runs,
            demand.runs * demand.rate,
            demand.viewers * demand.active * demand.rate,
            found.gateways,
            demand.viewers / found.gateways,
            found.need.core,
            found.need.memory / 1e6,
            found.shards,
            found.need.bits / 1e9,
            found.need.inside / 1e9,
        )
    table.show(given.json)


async def paced(shape: Shape, tools: object, *, rate: float, seconds: float) -> Result:
    """Measure a gateway with so many events a second on all topics together."""
    async with connected(gateway, tools, shape) as (running, load):  # type: ignore[arg-type]
        await asyncio.to_thread(load.run, 0.5, rate=rate, server=running.pids, store=running.store)
        return await asyncio.to_thread(load.run, seconds, rate=rate, server=running.pids, store=running.store)


async def hearing() -> float:
    """Measure what each subscriber of a channel costs Redis with each publish, in microseconds."""
    async with redis() as (url, pids):
        publisher = await Wire.connect(Server(url, timeout=10))

        async def cost() -> float:
            used = cpu_seconds(pids)
            for _ in range(PUBLISHED):
                await publisher.call("PUBLISH", "bench", "x" * 300)
            return (cpu_seconds(pids) - used) / PUBLISHED * 1e6

        alone = await cost()
        host, _, port = url.rpartition("@")[2].partition("/")[0].partition(":")
        password = url.split(":", 2)[2].partition("@")[0]
        writers = []

        async def swallow(reader: asyncio.StreamReader) -> None:
            while await reader.read(1 << 16):
                pass

        async with asyncio.TaskGroup() as group:
            for _ in range(SUBSCRIBERS):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(f"AUTH {password}\r\nSUBSCRIBE bench\r\n".encode())
                writers.append(writer)
                group.create_task(swallow(reader))
            await asyncio.sleep(0.2)
            together = await cost()
            for writer in writers:
                writer.close()
        publisher.close()
        return (together - alone) / SUBSCRIBERS


async def check(given: argparse.Namespace) -> None:
    with compiled("load") as tools:
        many = await paced(Shape(readers=1000, topics=1000), tools, rate=2000, seconds=given.seconds)
        one = await paced(Shape(readers=1000), tools, rate=20, seconds=given.seconds)
        write = one.server_cpu / one.delivered * 1e6
        event = max(0.0, many.server_cpu / many.delivered * 1e6 - write)
        append = many.store_cpu / many.published * 1e6
        frame = many.received / many.delivered + PACKET
        costs = COSTS._replace(event=event, write=write, append=append, frame=frame, hearing=await hearing())
        say("Costs: " + ", ".join(f"{name} {value:.1f}" for name, value in costs._asdict().items()))
        demand = Demand(viewers=1000, runs=100, rate=10)
        shape = Shape(readers=demand.viewers, topics=demand.runs)
        found = await paced(shape, tools, rate=demand.runs * demand.rate, seconds=given.seconds)
    foretold = need(demand, 1, costs)
    table = Table(
        f"{demand.viewers} viewers, {demand.runs} runs of {demand.rate:g} events a second, one gateway",
        [("", "s"), ("foretold", ".2f"), ("measured", ".2f"), ("measured / foretold", ".2f")],
    )
    delivered = demand.viewers * demand.rate
    bits = (found.received + found.delivered * PACKET) * 8 / found.seconds
    for name, expected, got in (
        ("k delivered/s", delivered / 1e3, found.rate / 1e3),
        ("gateway: % of a core", foretold.core * 100, found.busy * 100),
        ("Redis: % of a core", foretold.redis * 100, found.store_cpu / found.seconds * 100),
        ("Mbit/s out", foretold.bits / 1e6, bits / 1e6),
    ):
        table.add(name, expected, got, got / expected)
    table.show(given.json)


async def main(given: argparse.Namespace) -> None:
    if given.check:
        await check(given)
        return
    numbers = [int(viewers) for viewers in given.viewers.split(",")]
    runs = [given.runs or max(1, round(viewers * given.active / given.audience)) for viewers in numbers]
    demands = [Demand(viewers, each, given.rate, given.active) for viewers, each in zip(numbers, runs, strict=True)]
    show(demands, given)


if __name__ == "__main__":
    parser = options(__doc__, rounds=1, seconds=3)
    parser.add_argument("--viewers", default="1000,100000,1000000,10000000,100000000", help="numbers, by commas")
    parser.add_argument("--runs", type=int, help="alive at the same time; by default as many as have an --audience")
    parser.add_argument("--audience", type=float, default=50, help="active viewers of each run (50)")
    parser.add_argument("--active", type=float, default=1, help="share of the viewers whose topic has a live run (1)")
    parser.add_argument("--rate", type=float, default=30, help="events a second of a run (30)")
    parser.add_argument("--fill", type=float, default=FILL, help=f"share of its core that a process may use ({FILL})")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help=f"of a process at most ({CONNECTIONS})")
    parser.add_argument("--check", action="store_true", help="measure what the model says")
    run(main, parser)
