"""What a gateway process counts as it goes, in plain numbers that somebody may read at any time — pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

__all__ = ["HUMAN", "SHORT", "SIZES", "Histogram", "Measures"]

SHORT = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Seconds that work in a process takes, and a server near it."""

HUMAN = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Seconds that models and people take."""

SIZES = (256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0)
"""Bytes."""


class Histogram:
    """How often a value was in which range.

    Where a call would cost too much, the two lines of `add` are written out.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Make an empty one.

        Args:
            bounds: The upper ends of the ranges, ascending; what is above the last one has a range of its own.

        """
        self.bounds: Sequence[float] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total: float = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Measures:
    """What the parts of one gateway process have counted since it started; each adds to its own lines."""

    def __init__(self) -> None:
        """Begin at nothing."""
        # The fan-out, once a turn
        self.flush_seconds: Histogram = Histogram(SHORT)
        self.flush_bytes: Histogram = Histogram(SIZES)  # to all readers together, before compression
        self.flush_writes: int = 0  # frames given to readers
        self.sent_events: int = 0  # by which live readers were moved on

        # Other roads out, once a piece or a reply
        self.catch_up_bytes: int = 0
        self.reply_bytes: int = 0

        # Connections and commands
        self.opened: int = 0
        self.closes: Counter[str] = Counter()  # by close code; "client" where the other side ended it
        self.commands: Counter[tuple[str, str]] = Counter()  # by method, and "ok", the error's code or "closed"

        # Readers that come, and come back
        self.joins: int = 0  # that named no position
        self.recoveries: Counter[str] = Counter()  # continued, snapshot, refused

        # Hearing everything
        self.gaps: Counter[str] = Counter()  # by how they were found: live, audit, moved
        self.gaps_healed: int = 0
        self.losses: int = 0  # of the link

        # Folded states
        self.snapshots_shared: int = 0
        self.snapshots_made: int = 0
        self.snapshot_bytes: Histogram = Histogram(SIZES)
