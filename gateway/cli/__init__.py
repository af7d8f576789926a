"""The command line."""

import logging
import signal
import sys
from typing import NoReturn

from gateway.cli.interrupt import end_at_once

__all__ = ["main"]


def main() -> NoReturn:
    """Run the process's own command line."""
    # Before anything else is loaded, which takes a while: Ctrl-C must find no half-made import.
    signal.signal(signal.SIGINT, end_at_once)
    from gateway.cli.root import run  # noqa: PLC0415  # see above

    # Warnings, such as that a gateway is away, beside what the commands themselves say.
    logging.basicConfig(format="gateway: %(message)s")
    code = run(sys.argv[1:])
    # Nothing is left to be ended; in the interpreter's own last steps Ctrl-C would change the exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
