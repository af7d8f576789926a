"""The forms in which a topic is streamed over HTTP: server-sent events, lines of JSON (PROTOCOL.md 9) — pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from gateway.codec import encode_json
from gateway.streaming.pushes import EventPush, SnapshotPiece, read_frames
from gateway.types import Position

__all__ = ["EventStream", "Form", "JsonLines", "Shared", "server_sent_event"]

RETRY = 1000
"""Milliseconds that a browser waits before it comes back."""


class Form(ABC):
    """How one reader is written to.

    Attributes:
        media_type: Of the response.
        midway: The last piece of a snapshot has not come yet: nothing else may be written.
        broken: Another snapshot came instead of the rest of one: what was written cannot be made whole any more.
        ended: Everything has been written.
        top: The last offset of the topic, as far as it was heard when something was last to be written.

    """

    media_type: ClassVar[str]

    def __init__(self) -> None:
        self.midway: bool = False
        self.broken: bool = False
        self.ended: bool = False
        self.top: int = 0

    def frames(self, frames: bytes, *, epoch: str) -> bytes:
        """Translate finished websocket frames of a topic that stands in an epoch."""
        return self.items(read_frames(frames), epoch=epoch)

    def items(self, items: Iterable[EventPush | SnapshotPiece], *, epoch: str) -> bytes:
        """Translate events and pieces of snapshots."""
        written = []
        for item in items:
            if isinstance(item, EventPush):
                written.append(self.event(item, epoch=epoch))
            else:
                if item.first and self.midway:
                    self.broken = True
                    break
                self.midway = not item.last
                written.append(self.piece(item))
        return b"".join(written)

    @abstractmethod
    def event(self, event: EventPush, *, epoch: str) -> bytes:
        """Write an event."""

    @abstractmethod
    def piece(self, piece: SnapshotPiece) -> bytes:
        """Write a piece of a snapshot."""

    @abstractmethod
    def opening(self, position: Position) -> bytes:
        """Begin, where the reader knows no position yet and is sent no snapshot."""

    @abstractmethod
    def word(self, name: str, data: Mapping[str, Any], position: Position | None = None) -> bytes:
        """Say something that is no event of the topic; ``position`` is where the reader stands after it."""

    @abstractmethod
    def alive(self) -> bytes:
        """Say nothing, so that proxies and clients see the stream alive."""


class Shared:
    """What a flush gives to many readers is translated once: they get the same bytes object from the hub."""

    def __init__(self) -> None:
        """Begin with nothing kept."""
        self._frames: bytes = b""
        self._text: bytes = b""

    def text(self, form: Form, frames: bytes, *, epoch: str) -> bytes:
        """Translate, or give what another reader's form of the same kind made of the same frames."""
        if frames is not self._frames:
            midway = form.midway
            text = form.items(read_frames(frames), epoch=epoch)
            if midway or form.midway:
                return text  # pieces are this reader's own
            self._frames, self._text = frames, text
        return self._text


class EventStream(Form):
    """Server-sent events: those of the topic without a name, the gateway's own words with one."""

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, shared: Shared) -> None:
        """Begin; ``shared`` is that of all readers of this form."""
        super().__init__()
        self._shared = shared

    def frames(self, frames: bytes, *, epoch: str) -> bytes:
        """Translate finished websocket frames of a topic that stands in an epoch."""
        return self._shared.text(self, frames, epoch=epoch)

    def event(self, event: EventPush, *, epoch: str) -> bytes:
        """Write an event."""
        return server_sent_event(event.data, id=f"{epoch}:{event.offset}")

    def piece(self, piece: SnapshotPiece) -> bytes:
        """Write a piece of the one line that a snapshot is; its id comes last, when the reader has the whole."""
        head = b"event: snapshot\ndata: " if piece.first else b""
        tail = f"\nid: {piece.epoch}:{piece.offset}\n\n".encode() if piece.last else b""
        return head + piece.text + tail

    def opening(self, position: Position) -> bytes:
        """Tell the position, which a browser repeats when it comes back, without an event."""
        return f"retry: {RETRY}\nid: {position}\n\n".encode()

    def word(self, name: str, data: Mapping[str, Any], position: Position | None = None) -> bytes:
        """Write a named event."""
        body = encode_json({"type": name, **data})
        return server_sent_event(body, name=name, id="" if position is None else str(position))

    def alive(self) -> bytes:
        """Write a comment."""
        return b":\n\n"


class JsonLines(Form):
    """One JSON object a line: ``epoch``, ``offset``, ``data``, and ``event`` in the gateway's own words."""

    media_type = "application/x-ndjson"

    def __init__(self, shared: Shared) -> None:
        """Begin; ``shared`` is that of all readers of this form."""
        super().__init__()
        self._shared = shared

    def frames(self, frames: bytes, *, epoch: str) -> bytes:
        """Translate finished websocket frames of a topic that stands in an epoch."""
        return self._shared.text(self, frames, epoch=epoch)

    def event(self, event: EventPush, *, epoch: str) -> bytes:
        """Write an event."""
        merged = b',"from":%d' % event.first if event.first < event.offset else b""
        return b'{"epoch":"%b","offset":%d%b,"data":%b}\n' % (epoch.encode(), event.offset, merged, event.data)

    def piece(self, piece: SnapshotPiece) -> bytes:
        """Write a piece of the one line that a snapshot is."""
        head = b""
        if piece.first:
            head = b'{"event":"snapshot","epoch":"%b","offset":%d,"data":' % (piece.epoch.encode(), piece.offset)
        return head + piece.text + (b"}\n" if piece.last else b"")

    def opening(self, position: Position) -> bytes:
        """Write where the reader stands."""
        return self.word("open", {}, position)

    def word(self, name: str, data: Mapping[str, Any], position: Position | None = None) -> bytes:
        """Write a line with ``event``."""
        where = {} if position is None else {"epoch": position.epoch, "offset": position.offset}
        return encode_json({"event": name, **where, "data": {"type": name, **data}}) + b"\n"

    def alive(self) -> bytes:
        """Write an empty line."""
        return b"\n"


def server_sent_event(data: bytes, *, id: str = "", name: str = "") -> bytes:
    """Write one server-sent event (HTML standard, 9.2.5).

    Args:
        data: One line.
        id: Where the client goes on from when it comes back; "" leaves what it has.
        name: Its type for listeners; "" is the default ``message``.

    """
    lines = []
    if id:
        lines.append(b"id: " + id.encode())
    if name:
        lines.append(b"event: " + name.encode())
    lines.append(b"data: " + data)
    return b"\n".join(lines) + b"\n\n"
