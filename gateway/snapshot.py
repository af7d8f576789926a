"""A folded state, encoded once for all who need it at that place (PROTOCOL.md 3.2 and 5.5)."""

from typing import Any

import msgspec

from gateway.frames import MAX_FRAME, PART_BYTES, encode_push, split_text, text_frame

__all__ = ["Snapshot"]

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

    @property
    def size(self) -> int:
        """Bytes of the JSON text."""
        return len(self.text)

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
