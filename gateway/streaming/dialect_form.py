"""A topic's run as the server-sent events of a dialect, each with the position that it can be continued from."""

from collections.abc import Mapping
from typing import Any

from gateway.codec import decode_event, encode_json
from gateway.dialects import Translator
from gateway.streaming.forms import Form, server_sent_event
from gateway.streaming.pushes import EventPush, SnapshotPiece, one_line
from gateway.types import Position

__all__ = ["DialectForm"]


class DialectForm(Form):
    """Server-sent events of one run; the stream ends with it.

    One event of the topic may become several. The id of the last of them is its position, of the others
    ``<position before it>.<how many of them>``: a reader that is cut off between two goes on with the next.
    In the middle of a message ``~<how much of it>`` follows.
    """

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, translator: Translator, *, begun: list[dict[str, Any]], skip: int) -> None:
        """Begin.

        Args:
            translator: What translates; it stands where the reader does.
            begun: What the reader is told first.
            skip: Events that the reader had before it was cut off.

        """
        super().__init__()
        self._translator = translator
        self._begun = begun
        self._skip = skip

    def event(self, event: EventPush, *, epoch: str) -> bytes:
        """Write what an event of the topic means."""
        before = self._told()
        events = self._translator.take(decode_event(event.data), first=event.first, last=event.offset)
        ids = [f"{epoch}:{event.first - 1}.{count}{before}" for count in range(1, len(events))]
        ids.append(f"{epoch}:{event.offset}{self._told()}")
        had = min(self._skip, len(events))
        self._skip -= had
        return self._write(events[had:], ids[had:])

    def piece(self, piece: SnapshotPiece) -> bytes:
        """Leave it out: these readers take none."""
        return b""

    def opening(self, position: Position) -> bytes:
        """Write what comes first: the run so far."""
        events = self._begun
        return self._write(events, [""] * (len(events) - 1) + [f"{position}{self._told()}"])

    def word(self, name: str, data: Mapping[str, Any], position: Position | None = None) -> bytes:
        """Write a comment, as the dialects have no words for it; where the history is lost, so is the run."""
        told = b": %b %b\n\n" % (name.encode(), one_line(encode_json(data)))
        if name != "gap" or position is None:
            return told
        events = self._translator.lose(at=position.offset)
        self.ended = True
        return told + self._write(events, [""] * len(events))

    def alive(self) -> bytes:
        """Write a comment."""
        return b":\n\n"

    def _told(self) -> str:
        told = self._translator.told
        return f"~{told}" if told else ""

    def _write(self, events: list[dict[str, Any]], ids: list[str]) -> bytes:
        dialect = self._translator.dialect
        written = [
            server_sent_event(one_line(encode_json(event)), id=place, name=event["type"] if dialect.names else "")
            for event, place in zip(events, ids, strict=False)
        ]
        if self._translator.ended and not self.ended:
            self.ended = True
            if dialect.done:
                written.append(server_sent_event(dialect.done.encode()))
        return b"".join(written)
