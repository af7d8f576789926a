"""What a delta costs a mirror, in Python and in JavaScript, by how long the conversation is already.

python -m bench.mirrors [--messages 10,1000,100000] [--deltas 20000] [--rounds 7] [--json FILE]
"""

import argparse
import asyncio
import shutil
import time
from itertools import count

from bench.load import HERE
from bench.tables import Table, median, options, run, say
from gateway.mirror import Mirror
from gateway.types import Publication

TEXT = "twenty characters ok"


def python(messages: int, deltas: int) -> float:
    """Give microseconds a delta."""
    mirror, offsets = Mirror("bench", "aaaaaaaa"), count(1)
    mirror.apply(Publication(offset=next(offsets), data={"type": "agent_start", "run": "r", "agent": "bench"}))
    for seq in range(messages):
        event = {"type": "user_message", "seq": seq, "time": "t", "run": "r", "content": f"question {seq}"}
        mirror.apply(Publication(offset=next(offsets), data=event))
    assert len(mirror.messages()) == messages
    delta = {"type": "agent_delta", "run": "r", "message": "m", "text": TEXT}
    publications = [Publication(offset=next(offsets), data=delta) for _ in range(2 * deltas)]
    for publication in publications[:deltas]:
        mirror.apply(publication)
    begun = time.perf_counter()
    for publication in publications[deltas:]:
        mirror.apply(publication)
    took = time.perf_counter() - begun
    assert mirror.open[0]["text"] == TEXT * 2 * deltas
    return took / deltas * 1e6


async def javascript(sizes: list[int], deltas: int) -> list[float]:
    """Give microseconds a delta at each size."""
    process = await asyncio.create_subprocess_exec(
        "node", HERE / "mirrors.mjs", str(deltas), *map(str, sizes), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return [float(line) for line in out.split()]


async def main(given: argparse.Namespace) -> None:
    sizes = [int(text) for text in given.messages.split(",")]
    found: dict[tuple[str, int], list[float]] = {}
    if shutil.which("node") is None:
        say("JavaScript: skipped, node is not installed")
    for _ in range(given.rounds):
        for size in sizes:
            found.setdefault(("Python", size), []).append(python(size, given.deltas))
        if shutil.which("node") is not None:
            for size, cost in zip(sizes, await javascript(sizes, given.deltas), strict=True):
                found.setdefault(("JavaScript", size), []).append(cost)
    table = Table(
        f"A delta of {len(TEXT)} characters onto a message that is open, median of {given.rounds}",
        [("mirror", "s"), ("messages before", "d"), ("us each", ".2f"), (f"x at {sizes[0]}", ".2f")],
    )
    for (name, size), costs in found.items():
        table.add(name, size, median(costs), median(costs) / median(found[name, sizes[0]]))
    table.show(given.json)


if __name__ == "__main__":
    parser = options(__doc__, rounds=7, seconds=0)
    parser.add_argument("--messages", default="10,1000,100000")
    parser.add_argument("--deltas", type=int, default=20_000)
    run(main, parser)
