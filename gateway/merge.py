"""Joining neighbouring deltas, so that a reader who fell behind catches up with less (PROTOCOL.md 5.6)."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.event_types import DELTA_TYPES
from gateway.fields import identifier, index, integer, text
from gateway.types import Publication

__all__ = ["MAX_MERGED_TEXT", "merge"]

MAX_MERGED_TEXT = 16_384
"""Code points of a joined text; written as six-byte escapes it still fits an event."""

_FIELDS = frozenset({"type", "at", "run", "message", "text"})
_CALL_FIELDS = _FIELDS | {"index", "id", "name"}

_Growing = tuple[str, str, str, int | None]
"""What two deltas must have in common: type, run ("" for none), message, index."""


class _Group:
    """Neighbouring publications that become one."""

    def __init__(self, first: Publication, growing: _Growing | None) -> None:
        self.growing = growing
        self._publications = [first]
        self._length = len(first.data["text"]) if growing is not None else 0

    def take(self, publication: Publication, growing: _Growing | None) -> bool:
        """Add the next publication; False where it begins a group of its own."""
        first = publication.offset if publication.first is None else publication.first
        if growing is None or growing != self.growing or first != self._publications[-1].offset + 1:
            return False
        length = self._length + len(publication.data["text"])
        if length > MAX_MERGED_TEXT:
            return False
        self._publications.append(publication)
        self._length = length
        return True

    def joined(self) -> Publication:
        """Give the one publication that stands for all."""
        first = self._publications[0]
        if len(self._publications) == 1:
            return first
        data = dict(first.data)
        for later in self._publications[1:]:
            data |= {key: value for key, value in later.data.items() if value != "" or key not in {"id", "name"}}
        data["text"] = "".join([publication.data["text"] for publication in self._publications])
        return Publication(
            offset=self._publications[-1].offset,
            data=data,
            first=first.offset if first.first is None else first.first,
        )


def merge(publications: Iterable[Publication]) -> list[Publication]:
    """Join neighbouring deltas of one growing text; no mirror that can take the first of them sees a difference.

    Args:
        publications: In order, from one cursor.

    """
    groups: list[_Group] = []
    for publication in publications:
        growing = _growing(publication.data)
        if not groups or not groups[-1].take(publication, growing):
            groups.append(_Group(publication, growing))
    return [group.joined() for group in groups]


def _growing(event: Mapping[str, Any]) -> _Growing | None:
    """Tell what a delta adds to; None where the event must stay as it is."""
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in DELTA_TYPES:
        return None
    is_call = kind == "tool_call_delta"
    message, added = identifier(event.get("message")), text(event.get("text"))
    if message is None or added is None or not event.keys() <= (_CALL_FIELDS if is_call else _FIELDS):
        return None
    run = identifier(event["run"]) if "run" in event else ""
    if run is None or ("at" in event and integer(event["at"]) is None):
        return None
    if not is_call:
        return (kind, run, message, None) if added else None
    place = index(event.get("index"))
    named = text(event.get("name", "")) is not None and (
        event.get("id", "") == "" or identifier(event["id"]) is not None
    )
    return (kind, run, message, place) if place is not None and named else None
