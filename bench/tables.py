"""Tables of measurements: printed as text, kept as JSON where asked for, ratios as medians over interleaved rounds."""

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["LINE_UP", "Table", "median", "options", "run", "say"]

LINE_UP = "  "


def median(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else float("nan")


def say(text: str) -> None:
    """Print a line at once: a benchmark takes long."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Table:
    """A table with a title.

    Args:
        title: What is measured.
        columns: A name and a format each, e.g. ``("M/s", "8.3f")``; the first column is a text.
        note: What a reader must know beside it.

    """

    def __init__(self, title: str, columns: Sequence[tuple[str, str]], *, note: str = "") -> None:
        self._title = title
        self._columns = list(columns)
        self._note = note
        self._rows: list[list[Any]] = []

    def add(self, *row: Any) -> None:
        """Add a row; None is a value that there is not."""
        self._rows.append(list(row))

    def show(self, file: Path | None) -> None:
        """Print it, and append it to a file as one line of JSON."""
        cells = [[name for name, _ in self._columns]]
        cells += [
            ["-" if value is None else format(value, spec) for value, (_, spec) in zip(row, self._columns, strict=True)]
            for row in self._rows
        ]
        widths = [max(len(line[number]) for line in cells) for number in range(len(self._columns))]
        say(f"\n{self._title}")
        for line in cells:
            first, *others = (cell.strip() for cell in line)
            say(LINE_UP.join([first.ljust(widths[0]), *(o.rjust(w) for o, w in zip(others, widths[1:], strict=True))]))
        if self._note:
            say(self._note)
        if file is not None:
            names = [name for name, _ in self._columns]
            rows = [dict(zip(names, row, strict=True)) for row in self._rows]
            machine = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
            entry = {"title": self._title, "at": int(time.time()), "machine": machine, "rows": rows}
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(entry) + "\n")


def options(description: str | None, *, rounds: int, seconds: float) -> argparse.ArgumentParser:
    """Make a parser with what all the benchmarks of servers take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"interleaved rounds; medians count ({rounds})")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"of each measurement ({seconds:g})")
    parser.add_argument("--only", default="", help="names of servers, separated by semicolons; all by default")
    parser.add_argument("--json", type=Path, help="a file to which each table is appended as a line of JSON")
    return parser


def run(main: Callable[[argparse.Namespace], Coroutine[Any, Any, None]], parser: argparse.ArgumentParser) -> None:
    """Run a benchmark with as many open files as the system lets it have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(parser.parse_args()))
