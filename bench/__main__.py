"""Runs every benchmark, each in a process of its own: `python -m bench [NAME…] [--rounds N] [--json FILE]`.

Those of servers, stores and mirrors measure in interleaved rounds against baselines of the same run and take the
options; the others are one run each. Baselines that are not installed are skipped (`make baselines` installs them).
"""

import argparse
import subprocess
import sys
import time

from bench.tables import say

ROUNDS = ("fanout", "chat", "append", "connections", "joins", "mirrors", "deflate")
ONCE = ("context", "history", "memory", "recovery", "herd", "stop")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ROUNDS + ONCE)}; all by default")
    parser.add_argument("--rounds", type=int, help="interleaved rounds; each benchmark has its own number by default")
    parser.add_argument("--json", help="a file to which each table is appended as a line of JSON")
    given = parser.parse_args()
    unknown = sorted({*given.names} - {*ROUNDS, *ONCE})
    if unknown:
        parser.error(f"expected names out of {', '.join(ROUNDS + ONCE)}, got {', '.join(unknown)}")
    failed = 0
    for name in given.names or ROUNDS + ONCE:
        options = []
        if name in ROUNDS:
            options += ["--rounds", str(given.rounds)] if given.rounds else []
            options += ["--json", given.json] if given.json else []
        say(f"\n== python -m bench.{name} {' '.join(options)}".rstrip())
        begun = time.monotonic()
        failed += subprocess.run([sys.executable, "-m", f"bench.{name}", *options], check=False).returncode != 0
        say(f"({time.monotonic() - begun:.0f} s)")
    return failed


if __name__ == "__main__":
    sys.exit(main())
