"""The read side of the Durable Streams protocol (its PROTOCOL.md 5.5 to 5.8, 6, 8) over a topic's events."""

import random
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.datastructures import QueryParams

from gateway.codec import encode_json
from gateway.errors import CommandError, ErrorCode
from gateway.streaming.forms import Form, server_sent_event
from gateway.streaming.pushes import EventPush, SnapshotPiece
from gateway.types import START, Position
from gateway.view import HIDDEN

__all__ = ["DurableEvents", "cursor_after", "offset_of", "position_of"]

INTERVAL = 20.0
"""Seconds that a cursor lasts."""

_EPOCH = 1_728_432_000.0
"""Unix time of cursor 0: 9 October 2024."""

_OFFSET = re.compile(r"([0-9]{16})_([A-Za-z0-9]{8}|)\Z")


def offset_of(position: Position) -> str:
    """Write a position so that texts of one history sort as the positions do."""
    return f"{position.offset:016d}_{position.epoch}"


def position_of(query: QueryParams) -> Position | None:
    """Read ``offset``: -1, and none, is the start, ``now`` is None.

    Raises:
        CommandError: 107, it is no offset, or there are several.

    """
    texts = query.getlist("offset")
    if len(texts) > 1:
        raise CommandError(ErrorCode.BAD_REQUEST, "expected one offset, got several")
    if not texts or texts[0] == "-1":
        return START
    if texts[0] == "now":
        return None
    found = _OFFSET.match(texts[0])
    if found is None:
        raise CommandError(
            ErrorCode.BAD_REQUEST, f"expected an offset that a reply gave, -1 or now, got {texts[0]!r:.80}"
        )
    return Position(epoch=found[2], offset=int(found[1]))


def cursor_after(known: str | None) -> str:
    """Give the cursor of a live answer: the interval that it is, or one beyond the one that the client knows."""
    now = int((time.time() - _EPOCH) / INTERVAL)
    if known is None or not (known.isascii() and known.isdecimal() and len(known) <= 12) or int(known) < now:
        return str(now)
    return str(int(known) + max(1, round(random.uniform(1, 3600) / INTERVAL)))


class DurableEvents(Form):
    """Server-sent events ``data``, a JSON array of messages, each batch followed by a ``control``."""

    media_type = "text/event-stream"

    def __init__(self, *, cursor: str | None) -> None:
        """Begin; ``cursor`` is the one that the client knows."""
        super().__init__()
        self._cursor = cursor

    def items(self, items: Iterable[EventPush | SnapshotPiece], *, epoch: str) -> bytes:
        """Write a batch and where the reader stands after it."""
        events = [item for item in items if isinstance(item, EventPush)]
        if not events:
            return b""
        shown = [event.data for event in events if event.data != HIDDEN]
        batch = server_sent_event(b"[%b]" % b",".join(shown), name="data") if shown else b""
        return batch + self._control(Position(epoch=epoch, offset=events[-1].offset))

    def event(self, event: EventPush, *, epoch: str) -> bytes:
        """Write a batch of one."""
        return self.items([event], epoch=epoch)

    def piece(self, piece: SnapshotPiece) -> bytes:
        """Leave it out: these readers take none."""
        return b""

    def opening(self, position: Position) -> bytes:
        """Write where a reader stands to whom nothing is missing; what others miss brings that along."""
        return self._control(position) if position.offset >= self.top else b""

    def _control(self, position: Position) -> bytes:
        self._cursor = cursor_after(self._cursor)
        control: dict[str, Any] = {"streamNextOffset": offset_of(position), "streamCursor": self._cursor}
        if position.offset >= self.top:
            control["upToDate"] = True
        return server_sent_event(encode_json(control), name="control")

    def word(self, name: str, data: Mapping[str, Any], position: Position | None = None) -> bytes:
        """Say nothing, but end where the history is another one: the next request is told so."""
        self.ended = self.ended or name == "gap"
        return b""

    def alive(self) -> bytes:
        """Write a comment."""
        return b":\n\n"
