"""permessage-deflate without a context, so that one compressed frame serves every reader (RFC 7692, 7.1.1.1)."""

import zlib
from collections import OrderedDict

from gateway.frames import frame_payloads, text_frame

__all__ = ["SharedDeflate"]

_KEPT = 16
"""Results that are kept: one flush serves readers at a few cursors of one topic, one after the other."""

_LEVEL = 1
"""Of zlib's nine; JSON this size gets little smaller above it, and costs several times as much."""


class SharedDeflate:
    """Compresses websocket frames once for all who are given the same bytes object."""

    def __init__(self) -> None:
        """Begin with nothing kept."""
        # By identity; the plain frames are kept too, else another object could get their id.
        self._kept: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()

    def __call__(self, frames: bytes, smallest: int) -> bytes:
        """Give finished text frames as compressed ones; those with less than ``smallest`` bytes stay as they are."""
        found = self._kept.get(id(frames))
        if found is not None:
            return found[1]
        packed = b"".join(
            text_frame(payload) if len(payload) < smallest else _compressed(payload)
            for payload in frame_payloads(frames)
        )
        self._kept[id(frames)] = (frames, packed)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return packed


def _compressed(payload: bytes) -> bytes:
    deflater = zlib.compressobj(_LEVEL, wbits=-zlib.MAX_WBITS)
    data = deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH)
    frame = text_frame(data[:-4])  # RFC 7692, 7.2.1: the receiver adds 00 00 FF FF itself
    return bytes((frame[0] | 0x40,)) + frame[1:]
