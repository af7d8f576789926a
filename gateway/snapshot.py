"""A folded state, encoded once for all who need it at that place (PROTOCOL.md 3.2 and 5.5)."""

from typing import Any

import msgspec

from gateway.codec import encode_json
from gateway.frames import MAX_FRAME, PART_BYTES, encode_push, split_text, text_frame
from gateway.view import View

__all__ = ["Snapshot"]

MAX_SEEN = 8
"""Views for which one snapshot is kept; asked for longest ago goes first."""

_ENVELOPE = 4 * 1024
"""Room in a frame for what stands around a snapshot: a topic name, a reply's fields."""


class Snapshot:
    """The state of a mirror at a position, as JSON text, with its frames made on first use."""

    def __init__(self, *, topic: str, epoch: str, offset: int, text: bytes) -> None:
        """Hold the encoded snapshot of ``topic`` at (``epoch``, ``offset``)."""
        self.topic: str = topic
        self.epoch: str = epoch
        self.offset: int = offset
        self.text: bytes = text
        self._frames: tuple[bytes, ...] = ()
        self._seen: dict[View, Snapshot] = {}

    @property
    def size(self) -> int:
        """Bytes of the JSON text."""
        return len(self.text)

    def seen(self, view: View | None) -> "Snapshot":
        """Give it as readers of a view see it; made once for all of them."""
        if view is None or view.unpaced == View():
            return self
        view = view.unpaced
        found = self._seen.pop(view, None)
        if found is None:
            text = encode_json(view.snapshot(msgspec.json.decode(self.text)))
            found = Snapshot(topic=self.topic, epoch=self.epoch, offset=self.offset, text=text)
        self._seen[view] = found
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return found

    @property
    def whole(self) -> bool:
        """Whether it fits into one frame."""
        return len(self.text) <= MAX_FRAME - _ENVELOPE

    @property
    def in_reply(self) -> Any:
        """What a subscribe reply says of it: the snapshot itself, or how many parts follow."""
        return msgspec.Raw(self.text) if self.whole else {"parts": len(self.frames())}

    def frames(self) -> tuple[bytes, ...]:
        """Give its pushes as websocket frames: one, or its parts in order."""
        if not self._frames:
            self._frames = self._encode()
        return self._frames

    def _encode(self) -> tuple[bytes, ...]:
        if self.whole:
            data = msgspec.Raw(b'{"type":"snapshot",' + self.text[1:])
            return (text_frame(encode_push("pub", {"data": data}, channel=self.topic)),)
        texts = split_text(self.text, PART_BYTES)
        head = {"type": "snapshot", "epoch": self.epoch, "offset": self.offset}
        return tuple(
            text_frame(
                encode_push(
                    "pub", {"data": {**head, "part": part, "parts": len(texts), "text": text}}, channel=self.topic
                )
            )
            for part, text in enumerate(texts, 1)
        )
