"""Push lines for a reader that fell behind: neighbouring deltas become one (PROTOCOL.md 5.6)."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gateway.codec import encode_json
from gateway.events import DELTA_TYPES
from gateway.frames import publication_of
from gateway.mirror import merge
from gateway.types import Publication

__all__ = ["merge_lines", "publications_of"]


class _Tags(msgspec.Struct, frozen=True):
    from_: str | None = msgspec.field(name="from", default=None)


class _Wire(msgspec.Struct, frozen=True):
    offset: int
    data: dict[str, Any]
    tags: _Tags | None = None


_decoder = msgspec.json.Decoder(_Wire)
_MARKS = tuple(b'"type":"' + name.encode() + b'"' for name in sorted(DELTA_TYPES))


def publications_of(prefix: bytes, lines: Iterable[bytes]) -> list[Publication]:
    """Decode push lines of the topic that has this prefix."""
    publications: list[Publication] = []
    for line in lines:
        wire = _decoder.decode(publication_of(prefix, line))
        first = int(wire.tags.from_) if wire.tags is not None and wire.tags.from_ is not None else None
        publications.append(Publication(offset=wire.offset, data=wire.data, first=first))
    return publications


def merge_lines(prefix: bytes, lines: Sequence[bytes]) -> Sequence[bytes]:
    """Give the same news in fewer lines; lines without neighbouring deltas come back as they are."""
    if not _worthwhile(lines):
        return lines
    return [b"%b%b}}" % (prefix, _encode(publication)) for publication in merge(publications_of(prefix, lines))]


def _encode(publication: Publication) -> bytes:
    value: dict[str, Any] = {"data": publication.data, "offset": publication.offset}
    if publication.first is not None and publication.first < publication.offset:
        value["tags"] = {"from": str(publication.first)}
    return encode_json(value)


def _worthwhile(lines: Sequence[bytes]) -> bool:
    """Whether two neighbours may be deltas; a text that quotes such an event only costs a needless try."""
    before = False
    for line in lines:
        delta = any(mark in line for mark in _MARKS)
        if delta and before:
            return True
        before = delta
    return False
