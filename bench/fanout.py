"""One topic, many readers: the gateway beside bare servers of every kind, all under the same load.

    python -m bench.fanout [--readers 100,1000,5000,10000] [--rounds 7] [--seconds 2] [--only NAMES] [--json FILE]

The gateway is the product as it is served: a real store in front, appended to by a run, real sessions behind. The
baselines have neither, but for the "bare subclass on Redis", which hears the very publications the gateway hears.

* ticks of 16: one burst of 16 events is in flight, so that every server has the same 16 to join. Deliveries per second
  of the server's CPU compare what a delivery costs, whatever else the machine does.
* saturated: 64 events are in flight, in bursts of 16: what arrives a second of the wall clock, on one core.
* 20/s: single events at a fixed rate; latency from the publisher's clock in the event.

Servers take turns within each round; those that are no yardstick (all but the first six) are measured once.
"""

import argparse
import asyncio
import resource
from typing import NamedTuple

from bench.load import Result, Shape, compiled
from bench.servers import FAN_OUT, AbsentError, connected
from bench.tables import Table, median, options, run, say

BURST = 16
SATURATED = 4 * BURST
RATE = 20
YARDSTICKS = tuple(FAN_OUT)[:6]
SPARE_FILES = 200


class Round(NamedTuple):
    """One server's three measurements."""

    ticks: Result
    saturated: Result
    paced: Result


async def measure(name: str, shape: Shape, folder: object, seconds: float) -> Round:
    async with connected(FAN_OUT[name], folder, shape) as (running, load):  # type: ignore[arg-type]

        async def one(time: float, **how: float) -> Result:
            return await asyncio.to_thread(load.run, time, **how, server=running.pids, store=running.store)

        await one(0.5, window=BURST)
        ticks = await one(seconds, window=BURST)
        await one(0.5, window=SATURATED)
        saturated = await one(seconds, window=SATURATED)
        await asyncio.to_thread(load.drain)
        return Round(ticks, saturated, await one(max(seconds, 3), rate=RATE))


async def size(readers: int, names: list[str], given: argparse.Namespace) -> None:
    shape, found = Shape(readers=readers, burst=BURST), dict[str, list[Round]]()
    with compiled("load", "baselines/floor") as tools:
        for number in range(given.rounds):
            for name in names:
                if number and name not in YARDSTICKS:
                    continue
                try:
                    found.setdefault(name, []).append(await measure(name, shape, tools, given.seconds))
                except AbsentError as error:
                    if not number:
                        say(f"{name}: skipped, {error}")
    table = Table(
        f"1 topic x {readers} readers, median of {given.rounds} interleaved rounds",
        [
            ("server", "s"),
            ("ticks of 16: M per CPU s", ".3f"),
            ("us each", ".2f"),
            ("x subclass", ".2f"),
            ("x joined C", ".2f"),
            ("x uWS", ".2f"),
            ("saturated: M/s", ".3f"),
            ("M per CPU s", ".3f"),
            ("core", ".0%"),
            ("joined", ".0f"),
            ("20/s: p50 ms", ".2f"),
            ("p99 ms", ".2f"),
            ("x C p99", ".2f"),
        ],
        note="joined: events in one read. Ratios: medians of the rounds' own.",
    )

    def against(rounds: list[Round], base: str) -> float | None:
        pairs = list(zip(rounds, found.get(base, []), strict=False))
        return median(mine.ticks.per_core / its.ticks.per_core for mine, its in pairs) if pairs else None

    for name, rounds in found.items():
        floor = list(zip(rounds, found.get("C loop, a send each", []), strict=False))
        table.add(
            name,
            median(r.ticks.per_core / 1e6 for r in rounds),
            median(1e6 / max(r.ticks.per_core, 1e-9) for r in rounds),
            against(rounds, "bare subclass"),
            against(rounds, "C loop, joined"),
            against(rounds, "uWebSockets.js"),
            median(r.saturated.rate / 1e6 for r in rounds),
            median(r.saturated.per_core / 1e6 for r in rounds),
            median(r.saturated.busy for r in rounds),
            median(r.saturated.joined for r in rounds),
            median(r.paced.p50 for r in rounds),
            median(r.paced.p99 for r in rounds),
            median(mine.paced.p99 / max(its.paced.p99, 1e-3) for mine, its in floor) if floor else None,
        )
    table.show(given.json)


async def main(given: argparse.Namespace) -> None:
    names = [name for name in FAN_OUT if not given.only or name in given.only.split(";")]
    for readers in (int(text) for text in given.readers.split(",")):
        if readers + SPARE_FILES > resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
            say(f"{readers} readers: skipped, a process may open fewer files here (ulimit -n)")
            continue
        await size(readers, names, given)


if __name__ == "__main__":
    parser = options(__doc__, rounds=7, seconds=2)
    parser.add_argument("--readers", default="100,1000,5000,10000")
    run(main, parser)
