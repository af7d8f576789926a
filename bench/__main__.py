"""Runs every benchmark: `python -m bench`."""

import importlib
import sys

BENCHMARKS = ("append", "context", "fanout", "history", "memory", "stop")


def main() -> None:
    for name in BENCHMARKS:
        sys.stdout.write(f"\n== bench.{name}\n")
        sys.stdout.flush()
        sys.argv = [f"bench.{name}"]
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
