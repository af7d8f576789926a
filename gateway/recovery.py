"""What a reader that comes back is given: the missed events, or the word that it cannot go on — pure."""

from collections.abc import Iterable, Sequence

import msgspec

from gateway.broker.port import History, Stored
from gateway.types import Position, Publication

__all__ = ["Missed", "judge", "missed_after", "publication", "take"]


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """One stored event as a reader at a given place gets it.

    Attributes:
        first: The first offset it stands for: the one after what the reader had before it. What lies between was
            the deltas of a message whose end is stored (DESIGN.md, law 7).
        offset: Its own.
        data: The event, encoded.

    """

    first: int
    offset: int
    data: bytes


def judge(asked: Position, history: History) -> list[Missed] | None:
    """Say what a reader at ``asked`` missed, up to ``history.upto``; None where its position may not go on.

    A position of an epoch that the history replaced goes on where the store's lineage says so.
    """
    if not history.complete or asked.offset > history.top:
        return None
    return missed_after(asked.offset, history.events)


def missed_after(offset: int, events: Iterable[Stored]) -> list[Missed]:
    """Give the events above an offset, each standing for the hole before it too."""
    missed: list[Missed] = []
    for event in events:
        if event.offset <= offset:
            continue  # an overlap of two reads
        missed.append(Missed(first=offset + 1, offset=event.offset, data=event.data))
        offset = event.offset
    return missed


def take(missed: Sequence[Missed], size: int) -> int:
    """Count how many of the events fit into ``size`` bytes; at least one, where there is one."""
    total = 0
    for count, event in enumerate(missed):
        total += len(event.data)
        if count and total > size:
            return count
    return len(missed)


def publication(event: Missed, data: dict[str, object]) -> Publication:
    """Make the publication of a missed event, its data decoded."""
    first = event.first if event.first < event.offset else None
    return Publication(offset=event.offset, first=first, data=data)
