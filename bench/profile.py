"""Where the gateway's time goes, under the loads of `bench.fanout` and `bench.chat`.

    python -m bench.profile [--readers 1000] [--topics 1000] [--seconds 5] [--lines 25]

With `perf` (apt-get install linux-perf): the shares of the kernel, of the interpreter and of each library, and the
functions at the top. With `py-spy` (pip install py-spy): the Python functions and lines at the top.
"""

import argparse
import asyncio
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.load import Load, Shape, compiled
from bench.servers import CHAT, Running, connected
from bench.tables import options, run, say


@asynccontextmanager
async def loaded(running: Running, load: Load, *, window: int, seconds: float) -> AsyncIterator[None]:
    """Keep a window of events in flight for some time."""
    work = asyncio.create_task(asyncio.to_thread(load.run, seconds, window=window, server=running.pids))
    try:
        yield
    finally:
        await work


async def output(*command: str | Path) -> str:
    """Run a tool and give what it printed.

    Raises:
        SystemExit: It failed.

    """
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    if process.returncode:
        raise SystemExit(f"bench.profile: {command[0]} ended with {process.returncode}: {err.decode()[-500:]}")
    return out.decode(errors="replace")


async def by_perf(pid: int, folder: Path, *, seconds: float, lines: int) -> None:
    data = folder / "perf.data"
    await output("perf", "record", "-F", "1999", "-o", data, "-p", str(pid), "--", "sleep", str(seconds))
    for title, sort, limit in (("by library", "dso", 8), ("by function", "dso,sym", lines)):
        report = await output("perf", "report", "-i", data, "--stdio", "--sort", sort, "--percent-limit", "0.5")
        say(f"\nperf, {title}")
        rows = [row.rstrip() for row in report.splitlines() if row.strip() and not row.startswith("#")]
        for row in rows[:limit]:
            say(row)


async def by_py_spy(pid: int, folder: Path, *, seconds: float, lines: int) -> None:
    raw = folder / "stacks"
    program = shutil.which("py-spy") or Path(sys.executable).with_name("py-spy")
    await output(
        program,
        "record",
        "-p",
        str(pid),
        "-d",
        str(max(1, round(seconds))),
        "-r",
        "997",
        "-f",
        "raw",
        "-o",
        raw,
        "--nonblocking",
    )
    functions, places, total = Counter[str](), Counter[str](), 0
    for line in raw.read_text("utf-8").splitlines():
        stack, _, samples = line.rpartition(" ")
        leaf = stack.split(";")[-1]
        functions[re.sub(r":\d+\)$", ")", leaf)] += int(samples)
        places[leaf] += int(samples)
        total += int(samples)
    for title, found in (("functions", functions), ("lines", places)):
        say(f"\npy-spy, {title}: share of the time on top of the stack (what they call in C included)")
        for name, samples in found.most_common(lines):
            say(f"{samples / max(total, 1):7.1%}  {name}")


async def profile(title: str, shape: Shape, window: int, given: argparse.Namespace) -> None:
    with compiled("load") as tools, tempfile.TemporaryDirectory(prefix="gateway-bench-") as name:
        async with connected(CHAT[given.only or "gateway"], tools, shape) as (running, load):
            result = await asyncio.to_thread(load.run, 2, window=window, server=running.pids)
            each = result.server_cpu / max(result.delivered, 1) * 1e6
            say(f"\n== {title}: {each:.2f} us a delivery, {result.joined:.1f} joined, {result.busy:.0%} of a core")
            pid = running.pids[0]
            for tool in (by_perf, by_py_spy):
                program = {"by_perf": "perf", "by_py_spy": "py-spy"}[tool.__name__]
                if shutil.which(program) is None and not Path(sys.executable).with_name(program).exists():
                    say(f"{program}: skipped, it is not installed")
                    continue
                async with loaded(running, load, window=window, seconds=given.seconds + 2):
                    await tool(pid, Path(name), seconds=given.seconds, lines=given.lines)


async def main(given: argparse.Namespace) -> None:
    await profile(f"1 topic x {given.readers} readers, ticks of 16", Shape(readers=given.readers, burst=16), 16, given)
    shape = Shape(readers=given.topics, topics=given.topics)
    await profile(f"{given.topics} topics x 1 reader", shape, given.topics // 2, given)


if __name__ == "__main__":
    parser = options(__doc__, rounds=1, seconds=5)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=25)
    run(main, parser)
