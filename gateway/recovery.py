"""What a reader that comes back is given: the missed events, or the word that it cannot go on — pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gateway.broker.port import History, Stored
from gateway.types import Position, Publication

__all__ = ["Missed", "judge", "missed_after", "missed_of", "publication", "take"]


_TYPE_FIRST = b'{"type":"'


class _Typed(msgspec.Struct, frozen=True):
    type: Any = None


_type_decoder = msgspec.json.Decoder(_Typed)


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

    @property
    def kind(self) -> str:
        """The event's type; "" where it has none."""
        data = self.data
        # Keys are unique: where the type stands first, it need not be decoded.
        if data.startswith(_TYPE_FIRST):
            kind = data[len(_TYPE_FIRST) : data.index(b'"', len(_TYPE_FIRST))]
            if b"\\" not in kind:
                return kind.decode()
        found = _type_decoder.decode(data).type
        return found if isinstance(found, str) else ""


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


def missed_of(prefix: bytes, line: bytes) -> Missed:
    """Take an event out of its push line; what it stands for beside itself is not looked at."""
    data, _, place = line[len(prefix) + len(b'{"data":') :].rpartition(b',"offset":')
    offset = int(place.partition(b",")[0].rstrip(b"}"))
    return Missed(first=offset, offset=offset, data=data)


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
