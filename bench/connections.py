"""Connections that do nothing: what opening costs, what they take, and what pings cost.

    python -m bench.connections [--counts 5000,10000] [--rounds 3] [--seconds 30] [--only NAMES] [--json FILE]

Handshakes are counted a second of the server's CPU, the connect and subscribe commands included where there are any.
Memory is the server's own (RSS), less what it had before. The gateway pings each connection every --ping-interval
seconds, as do none of the others; its CPU while idle is measured over --seconds.
"""

import argparse
import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.load import Load, Shape, compiled, cpu_seconds
from bench.servers import FAN_OUT, AbsentError, Kind, Running, gateway
from bench.tables import Table, median, options, run, say

SPARE_FILES = 200
SETTLED = 1.0
"""Seconds between two looks at memory that must agree."""
OTHERS = ("bare subclass", "websockets broadcast", "queue and task", "uWebSockets.js", "npm ws", "nats-server", "nchan")


class Found(NamedTuple):
    """One server with its connections."""

    seconds: float
    opening: float
    kib: float
    idle: float


async def settled(pids: list[int]) -> int:
    """Give the memory of processes once it stands still."""
    last = -1
    while last != (size := sum(psutil.Process(pid).memory_info().rss for pid in pids)):
        last = size
        await asyncio.sleep(SETTLED)
    return size


def gateways(interval: float, *, subscribed: bool) -> Kind:
    """Make a gateway that pings, whose readers read a topic or none."""

    @contextlib.asynccontextmanager
    async def kind(tools: Path, shape: Shape) -> AsyncIterator[Running]:
        async with gateway(tools, shape, ping_interval=interval) as running:
            if not subscribed:
                del running.templates["subscribe"]
                running.templates["ready"] = b'"connect":'
            yield running

    return kind


async def measure(kind: Kind, tools: Path, count: int, seconds: float) -> Found:
    shape = Shape(readers=count)
    async with kind(tools, shape) as running:
        templates = {name: text for name, text in running.templates.items() if name not in {"command", "single"}}
        before, used = await settled(running.pids), cpu_seconds(running.pids)
        load = await asyncio.to_thread(
            Load, tools / "load", templates, shape, port=running.port, feed_port=running.feed_port
        )
        try:
            opening = cpu_seconds(running.pids) - used
            grown = await settled(running.pids) - before
            used = cpu_seconds(running.pids)
            await asyncio.sleep(seconds)
            idle = (cpu_seconds(running.pids) - used) / seconds
        finally:
            load.close()
        return Found(load.connecting, opening, grown / count / 1024, idle)


async def size(count: int, given: argparse.Namespace) -> None:
    kinds: dict[str, Kind] = {
        "gateway, connected": gateways(given.ping_interval, subscribed=False),
        "gateway, one topic": gateways(given.ping_interval, subscribed=True),
        **{name: FAN_OUT[name] for name in OTHERS},
    }
    names = [name for name in kinds if not given.only or name in given.only.split(";")]
    found = dict[str, list[Found]]()
    with compiled("load", "baselines/floor") as tools:
        for number in range(given.rounds):
            for name in names:
                seconds = given.seconds if name.startswith("gateway") else 1.0
                try:
                    found.setdefault(name, []).append(await measure(kinds[name], tools, count, seconds))
                except AbsentError as error:
                    if not number:
                        say(f"{name}: skipped, {error}")
    table = Table(
        f"{count} idle connections, median of {given.rounds} interleaved rounds",
        [
            ("server", "s"),
            ("handshakes per CPU s", ".0f"),
            ("per s", ".0f"),
            ("us each", ".0f"),
            ("KiB each", ".1f"),
            ("x subclass", ".2f"),
            ("idle: core", ".2%"),
        ],
        note=f"The gateway pings every {given.ping_interval:g} s; the others are not asked to.",
    )
    base = median(one.kib for one in found.get("bare subclass", []))
    for name, rounds in found.items():
        kib = median(one.kib for one in rounds)
        opening = median(one.opening for one in rounds)
        table.add(
            name,
            count / max(opening, 1e-9),
            count / median(one.seconds for one in rounds),
            opening / count * 1e6,
            kib,
            kib / base if base == base else None,  # noqa: PLR0124  # not a number where there is no yardstick
            median(one.idle for one in rounds) if name.startswith("gateway") else None,
        )
    table.show(given.json)


async def main(given: argparse.Namespace) -> None:
    for count in (int(text) for text in given.counts.split(",")):
        if count + SPARE_FILES > resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
            say(f"{count} connections: skipped, a process may open fewer files here (ulimit -n)")
            continue
        await size(count, given)


if __name__ == "__main__":
    parser = options(__doc__, rounds=3, seconds=30)
    parser.add_argument("--counts", default="5000,10000")
    parser.add_argument("--ping-interval", type=float, default=25, help="seconds (25)")
    run(main, parser)
