"""Patiences and pauses so short that a minute holds many faults, and counts of what parts do inside."""

from typing import Any

from gateway.journal import Journal
from gateway.reader import Reader
from tests.faults.tally import Tally

__all__ = ["SILENCE", "counted", "in_a_hurry"]

SILENCE = 0.6
"""Seconds after which client and gateway give up each other's silence."""


def in_a_hurry(patch: Any, *, silence: float = SILENCE) -> None:
    """Shorten the pauses and patiences of client, link, hub and runs, so that a minute holds many faults.

    Args:
        patch: Of the test.
        silence: Seconds after which a client gives up a silent gateway; many readers in one process need more.

    """
    for name, value in {
        "gateway.client.BACKOFF_BASE": 0.02,
        "gateway.client.BACKOFF_CAP": 0.2,
        "gateway.client_socket.PING_PATIENCE": silence,
        "gateway.client_socket.OPEN_PATIENCE": 2 * silence,
        "gateway.broker.link.LONGEST_PAUSE": 0.1,
        "gateway.hub._RETRY": (0.02, 0.1),
        "gateway.patience._MAX_DELAY": 0.1,
        "gateway.reading.RETRY": 0.05,
    }.items():
        patch.setattr(name, value)


def counted(patch: Any, tally: Tally) -> None:
    """Count what parts do inside: positions that went on, and what runs wrote again."""
    replied, requests, hole = Reader.replied, Journal.requests, Reader._hole

    def count_recovery(self: Reader, reply: Any) -> Any:
        tally.add("recovery", reply.get("recovered") is True)
        return replied(self, reply)

    def count_restore(self: Journal, *arguments: Any, **named: Any) -> Any:
        tally.add("restore")
        return requests(self, *arguments, **named)

    def count_hole(self: Reader) -> None:
        # A topic that nobody had written has no position to go on from; any other hole is the gateway's fault.
        tally.add("hole", bool(self.position and self.position.epoch))
        hole(self)

    patch.setattr(Reader, "replied", count_recovery)
    patch.setattr(Reader, "_hole", count_hole)
    patch.setattr(Journal, "requests", count_restore)
