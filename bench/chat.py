"""Many topics with few readers, through a real store: the gateway beside a bare hub and what others run.

    python -m bench.chat [--shapes 1000:1,1000:2,5000:1,1000:1:5] [--rate 60000] [--rounds 7] [--json FILE]

A shape is topics, readers of each, and topics that one connection reads (1 where it is absent). Gateway, bare hub and
node hear the same channels, on which Redis publishes single events as the product's script does when a run appends one.
They are published and not appended: an append costs Redis more than the event costs any of these (`bench.append`).

* saturated: so many events are in flight as half the topics, each on another topic: no server can join any but those
  of one connection. Events per second of the server's CPU compare what an event costs.
* paced: 60,000 events a second, or what --rate says; latency from the publisher's clock in the event.
"""

import argparse
import asyncio
from typing import NamedTuple

from bench.load import Result, Shape, compiled
from bench.servers import CHAT, AbsentError, connected
from bench.tables import Table, median, options, run, say

YARDSTICKS = tuple(CHAT)[:4]


class Round(NamedTuple):
    """One server's two measurements."""

    saturated: Result
    paced: Result


def parsed(text: str) -> Shape:
    topics, readers, *rest = (int(number) for number in text.split(":"))
    each = rest[0] if rest else 1
    return Shape(readers=topics * readers // each, topics=topics, each=each)


async def measure(name: str, shape: Shape, folder: object, given: argparse.Namespace) -> Round:
    async with connected(CHAT[name], folder, shape) as (running, load):  # type: ignore[arg-type]

        async def one(time: float, **how: float) -> Result:
            return await asyncio.to_thread(load.run, time, **how, server=running.pids, store=running.store)

        window = shape.topics // 2
        await one(0.5, window=window)
        saturated = await one(given.seconds, window=window)
        await asyncio.to_thread(load.drain)
        return Round(saturated, await one(given.seconds, rate=given.rate))


async def size(text: str, names: list[str], given: argparse.Namespace) -> None:
    shape, found = parsed(text), dict[str, list[Round]]()
    with compiled("load") as tools:
        for number in range(given.rounds):
            for name in names:
                if number and name not in YARDSTICKS:
                    continue
                try:
                    found.setdefault(name, []).append(await measure(name, shape, tools, given))
                except AbsentError as error:
                    if not number:
                        say(f"{name}: skipped, {error}")
    table = Table(
        f"{text}: {shape.topics} topics, {shape.readers} connections, {shape.each} topics each; "
        f"median of {given.rounds} interleaved rounds",
        [
            ("server", "s"),
            ("saturated: k events per CPU s", ".1f"),
            ("us each", ".2f"),
            ("x bare hub", ".2f"),
            ("x on uvloop", ".2f"),
            ("k events/s", ".1f"),
            ("core", ".0%"),
            ("joined", ".1f"),
            ("Redis us each", ".1f"),
            (f"{given.rate:g}/s: k events/s", ".1f"),
            ("core", ".0%"),
            ("p50 ms", ".1f"),
            ("p99 ms", ".1f"),
        ],
        note="An event counts once, however many read it. Ratios: medians of the rounds' own.",
    )
    each = shape.readers * shape.each / shape.topics

    def against(rounds: list[Round], base: str) -> float | None:
        pairs = list(zip(rounds, found.get(base, []), strict=False))
        return median(mine.saturated.per_core / its.saturated.per_core for mine, its in pairs) if pairs else None

    for name, rounds in found.items():
        stored = [r.saturated.store_cpu / max(r.saturated.published, 1) * 1e6 for r in rounds]
        table.add(
            name,
            median(r.saturated.per_core / each / 1e3 for r in rounds),
            median(1e6 / max(r.saturated.per_core / each, 1e-9) for r in rounds),
            against(rounds, "bare hub"),
            against(rounds, "bare hub, uvloop"),
            median(r.saturated.rate / each / 1e3 for r in rounds),
            median(r.saturated.busy for r in rounds),
            median(r.saturated.joined for r in rounds),
            median(stored) if any(stored) else None,
            median(r.paced.rate / each / 1e3 for r in rounds),
            median(r.paced.busy for r in rounds),
            median(r.paced.p50 for r in rounds),
            median(r.paced.p99 for r in rounds),
        )
    table.show(given.json)


async def main(given: argparse.Namespace) -> None:
    names = [name for name in CHAT if not given.only or name in given.only.split(";")]
    for text in given.shapes.split(","):
        await size(text, names, given)


if __name__ == "__main__":
    parser = options(__doc__, rounds=7, seconds=2)
    parser.add_argument("--shapes", default="1000:1,1000:2,5000:1,1000:1:5")
    parser.add_argument("--rate", type=float, default=60_000, help="events a second, paced (60000)")
    run(main, parser)
