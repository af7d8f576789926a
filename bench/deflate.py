"""Compression shared by all readers of a flush, against none: the gateway's CPU and the bytes on the wire.

    python -m bench.deflate [--readers 1000] [--rounds 7] [--seconds 3] [--json FILE]

The same events at the same rate, to readers who negotiate permessage-deflate and to ones who do not: one topic for all
(a flush is compressed once), and a topic for each (every flush is compressed for its one reader, the worst case). The
events differ in their clocks only, so the bytes are a lower bound.
"""

import argparse
import asyncio
from pathlib import Path

from bench.load import Load, Result, Shape, compiled
from bench.servers import gateway
from bench.tables import Table, median, options, run

OFFER = b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
BURST = 16


async def measure(shape: Shape, rate: float, seconds: float, tools: Path, *, deflate: bool) -> Result:
    async with gateway(tools, shape) as running:
        templates = dict(running.templates)
        del templates["single"]  # bursts at the rate, too
        if deflate:
            templates["headers"] = OFFER
        sizes = {"port": running.port, "feed_port": running.feed_port}
        load = await asyncio.to_thread(Load, tools / "load", templates, shape, **sizes)
        try:
            await asyncio.to_thread(load.run, 0.5, rate=rate, server=running.pids)
            return await asyncio.to_thread(load.run, seconds, rate=rate, server=running.pids)
        finally:
            load.close()


async def main(given: argparse.Namespace) -> None:
    cases = {
        f"1 topic x {given.readers}, {BURST} events a flush": (Shape(readers=given.readers, burst=BURST), 320.0),
        f"{given.readers} topics x 1, single events": (Shape(readers=given.readers, topics=given.readers), 5000.0),
        f"{given.readers} topics x 1, {BURST} events a flush": (
            Shape(readers=given.readers, topics=given.readers, burst=BURST),
            16_000.0,
        ),
    }
    found: dict[tuple[str, bool], list[Result]] = {}
    with compiled("load") as tools:
        for _ in range(given.rounds):
            for name, (shape, rate) in cases.items():
                for deflate in (False, True):
                    result = await measure(shape, rate, given.seconds, tools, deflate=deflate)
                    found.setdefault((name, deflate), []).append(result)
    table = Table(
        f"Shared deflate, median of {given.rounds} interleaved rounds",
        [
            ("load", "s"),
            ("deflate", "s"),
            ("us of CPU a delivery", ".2f"),
            ("x off", ".2f"),
            ("bytes a delivery", ".0f"),
            ("x off", ".2f"),
        ],
    )

    def costs(name: str, *, deflate: bool) -> tuple[list[float], list[float]]:
        shape = cases[name][0]
        sent = [result.published * shape.readers / shape.topics for result in found[name, deflate]]
        results = list(zip(found[name, deflate], sent, strict=True))
        return [r.server_cpu / n * 1e6 for r, n in results], [r.received / n for r, n in results]

    for name in cases:
        off = costs(name, deflate=False)
        for deflate in (False, True):
            cpu, size = costs(name, deflate=deflate)
            ratios = [mine / base for mine, base in zip(cpu, off[0], strict=True)]
            table.add(
                name,
                "on" if deflate else "off",
                median(cpu),
                median(ratios),
                median(size),
                median(size) / median(off[1]),
            )
    table.show(given.json)


if __name__ == "__main__":
    parser = options(__doc__, rounds=7, seconds=3)
    parser.add_argument("--readers", type=int, default=1000)
    run(main, parser)
