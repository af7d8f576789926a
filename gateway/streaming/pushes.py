"""What the hub writes for websockets, read again by readers that speak something else — pure."""

from collections.abc import Iterator

import msgspec

from gateway.frames import frame_payloads

__all__ = ["EventPush", "SnapshotPiece", "one_line", "read_frames", "read_publication", "whole_snapshot"]


class EventPush(msgspec.Struct, frozen=True, kw_only=True):
    """One event.

    Attributes:
        first: The first offset it stands for.
        offset: The last one, its own.
        data: The event's JSON, one line.

    """

    first: int
    offset: int
    data: bytes


class SnapshotPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a snapshot's JSON, which has `type` first; all pieces joined are the whole.

    Attributes:
        epoch: Of the snapshot.
        offset: Of the snapshot.
        text: The piece.
        first: It begins the snapshot.
        last: It ends it: from here on the reader stands at the snapshot's position.

    """

    epoch: str
    offset: int
    text: bytes
    first: bool = True
    last: bool = True


class _Tags(msgspec.Struct, frozen=True):
    from_: str | None = msgspec.field(name="from", default=None)


class _Publication(msgspec.Struct, frozen=True):
    data: msgspec.Raw
    offset: int = 0
    tags: _Tags | None = None


class _Push(msgspec.Struct, frozen=True):
    pub: _Publication | None = None


class _Line(msgspec.Struct, frozen=True):
    push: _Push


class _Snapshot(msgspec.Struct, frozen=True, tag="snapshot", tag_field="type"):
    epoch: str
    offset: int
    part: int = 0
    parts: int = 0
    text: str = ""


# U+0085, U+2028 and U+2029; those below U+0020 are escaped in every JSON.
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))

_line_decoder = msgspec.json.Decoder(_Line)
_publication_decoder = msgspec.json.Decoder(_Publication)
_snapshot_decoder = msgspec.json.Decoder(_Snapshot)


def read_frames(frames: bytes) -> Iterator[EventPush | SnapshotPiece]:
    """Take finished websocket frames apart into the events and the pieces of snapshots that they push."""
    for payload in frame_payloads(frames):
        for line in payload.split(b"\n"):
            pub = _line_decoder.decode(line).push.pub
            if pub is None:
                continue
            yield _event(pub) if pub.offset else _piece(pub.data)


def read_publication(publication: bytes) -> EventPush:
    """Read a publication of a subscribe reply."""
    return _event(_publication_decoder.decode(publication))


def whole_snapshot(text: bytes, *, epoch: str, offset: int) -> SnapshotPiece:
    """Make the only piece of a snapshot from the JSON that a subscribe reply has of it."""
    return SnapshotPiece(epoch=epoch, offset=offset, text=_typed(one_line(text)))


def one_line(text: bytes) -> bytes:
    """Escape in JSON, or in a piece of it, what some clients take for the end of a line, as Python's `splitlines`."""
    for end, escape in _LINE_ENDS:
        if end in text:
            text = text.replace(end, escape)
    return text


def _event(pub: _Publication) -> EventPush:
    first = pub.offset if pub.tags is None or pub.tags.from_ is None else int(pub.tags.from_)
    return EventPush(first=first, offset=pub.offset, data=one_line(bytes(pub.data)))


def _piece(data: msgspec.Raw) -> SnapshotPiece:
    head = _snapshot_decoder.decode(data)
    if not head.parts:
        return SnapshotPiece(epoch=head.epoch, offset=head.offset, text=one_line(bytes(data)))
    text = one_line(head.text.encode())
    return SnapshotPiece(
        epoch=head.epoch,
        offset=head.offset,
        text=_typed(text) if head.part == 1 else text,
        first=head.part == 1,
        last=head.part == head.parts,
    )


def _typed(snapshot: bytes) -> bytes:
    return b'{"type":"snapshot",' + snapshot[1:]
