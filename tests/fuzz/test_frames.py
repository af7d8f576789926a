"""Fuzzing the websocket itself: any bytes after the handshake are answered by right frames and an end."""

import json
import struct

from hypothesis import strategies as st

from tests.fuzz.ground import Ground, fuzz
from tests.fuzz.wire import CLOSE, PING, TEXT, frame, packed, peer

_SENSIBLE = [
    b'{"id":1,"connect":{}}',
    b'{"id":2,"ping":{}}',
    b'{"id":3,"subscribe":{"channel":"fuzz","data":{"mirror":true}}}',
    b"{}",
    b"",
    b'{"id":1,"connect":{}}\n{"id":2,"ping":{}}\n{"id":3,"ping":{}}',
]
_PAYLOADS = st.one_of(
    st.sampled_from(_SENSIBLE),
    st.binary(max_size=200),
    st.text(max_size=50).map(lambda text: text.encode()),
    st.builds(
        lambda text, size: text * size,
        st.sampled_from([b"a", b"\xc3\xa9", b"[", b"\n", b"{}\n"]),
        st.integers(1, 40_000),
    ),
    st.builds(lambda code, reason: struct.pack("!H", code) + reason, st.integers(0, 65535), st.binary(max_size=130)),
)
_FRAMES = st.builds(
    lambda opcode, payload, fin, bits, masked, off: frame(
        opcode, payload, fin=fin, bits=bits, masked=masked, length=None if off is None else abs(len(payload) + off)
    ),
    st.one_of(st.sampled_from([0, 1, 1, 1, 1, 2, 8, 9, 10]), st.integers(0, 15)),
    st.one_of(_PAYLOADS, _PAYLOADS.map(packed)),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([0, 0, 0, 0x40, 0x40, 0x20, 0x10, 0x70]),
    st.sampled_from([True] * 9 + [False]),
    st.sampled_from([None] * 9 + [-1, 1, 2**31, 2**62]),
)
_RIGHT = st.one_of(
    st.builds(lambda payload: frame(TEXT, payload), st.sampled_from(_SENSIBLE)),
    st.builds(lambda payload: frame(TEXT, packed(payload), bits=0x40), st.sampled_from(_SENSIBLE)),
    st.builds(lambda payload: frame(PING, payload), st.binary(max_size=125)),
)
_STREAMS = st.lists(st.one_of(_RIGHT, _RIGHT, _FRAMES, st.binary(max_size=60)), max_size=8)
_INPUTS = st.tuples(_STREAMS, st.booleans(), st.lists(st.integers(0, 200), max_size=4), st.booleans())

CODES = {1002, 1007, 1009, 3501, 3502}
"""With which the gateway closes what breaks rules; who closes gets its own code back."""


def test_frames(open_ground: Ground) -> None:
    async def throw(stream: list[bytes], *, deflate: bool, cuts: list[int], shut: bool) -> None:
        data = b"".join(stream)
        async with peer(open_ground.port, extensions="permessage-deflate" if deflate else "") as one:
            start = 0
            for cut in sorted(min(cut, len(data)) for cut in cuts):
                await one.send(data[start:cut])
                start = cut
            await one.send(data[start:])
            if shut:
                one.writer.write_eof()
            else:
                await one.send(frame(CLOSE, struct.pack("!H", 4321)))
                # What it was is the rest of an unfinished frame, perhaps: then only the end of the stream ends it.
                one.writer.write_eof()
            frames = await one.rest()
        closes = [index for index, (opcode, _, _) in enumerate(frames) if opcode == CLOSE]
        assert closes in ([], [len(frames) - 1]), "nothing follows a close frame"
        for opcode, payload, first in frames:
            assert first & 0x80, "the gateway does not send fragments"
            if opcode == TEXT:
                for line in payload.decode().split("\n"):
                    assert isinstance(json.loads(line), dict)
        if closes and len(frames[-1][1]) >= 2:
            code = int.from_bytes(frames[-1][1][:2])
            frames[-1][1][2:].decode()
            assert code in CODES or code == 4321 or 1000 <= code < 5000

    fuzz(
        "frames",
        _INPUTS,
        lambda given: open_ground.run(throw(given[0], deflate=given[1], cuts=given[2], shut=given[3])),
        examples=250,
    )
