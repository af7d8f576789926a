"""Runs every benchmark, each in a process of its own: `python -m bench [NAME…]`."""

import subprocess
import sys

BENCHMARKS = ("append", "context", "fanout", "history", "memory", "silent", "recovery", "herd", "stop")


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or BENCHMARKS:
        sys.stdout.write(f"\n== python -m bench.{name}\n")
        sys.stdout.flush()
        failed += subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
