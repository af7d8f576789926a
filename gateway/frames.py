"""Frames of the wire: commands decoded, replies and pushes encoded (PROTOCOL.md 2 and 3)."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from gateway.errors import CommandError, DisconnectCode, DisconnectError, ErrorCode

__all__ = [
    "MAX_FRAME",
    "METHODS",
    "PART_BYTES",
    "PIECE_BYTES",
    "PING",
    "Command",
    "ConnectRequest",
    "EmptyRequest",
    "HistoryRequest",
    "Place",
    "PublishRequest",
    "RefreshRequest",
    "Request",
    "RpcRequest",
    "SendRequest",
    "Since",
    "SubscribeRequest",
    "TopicRequest",
    "decode_frame",
    "encode_error",
    "encode_push",
    "encode_reply",
    "frame_payloads",
    "publication_line",
    "publication_of",
    "push_prefix",
    "split_text",
    "text_frame",
    "text_frames",
    "with_tags",
]

MAX_FRAME: Final = 128 * 1024
"""No frame that the gateway sends is larger, in bytes (PROTOCOL.md 2.4)."""

PIECE_BYTES: Final = 64 * 1024
"""Publications are sent in pieces of about this many bytes; a single event may be larger."""

PART_BYTES: Final = 60 * 1024
"""Bytes of snapshot text in one part: escaping may double them, and the frame stays below `MAX_FRAME`."""

PING: Final = b"{}"

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
_EMPTY = msgspec.Raw(b"")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client stands in a topic that the gateway subscribes it to."""

    recover: bool = False
    epoch: str | None = None
    offset: _Count | None = None


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    token: str | None = None
    name: str | None = None
    version: str | None = None
    data: Any = None
    subs: dict[str, Place] | None = None


class SubscribeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A wish to read a topic, perhaps from a position on.

    Attributes:
        join_leave: Whether the reader wants to be told who comes and goes.
        flag: Bits; 2 asks for error 112 instead of ``recovered: false``, others are ignored.

    """

    channel: str
    token: str | None = None
    recover: bool = False
    epoch: str | None = None
    offset: _Count | None = None
    data: Any = None
    join_leave: bool = False
    flag: _Count = 0

    @property
    def mirror(self) -> bool:
        """Whether the reader keeps a mirror and can take a snapshot."""
        return isinstance(self.data, dict) and self.data.get("mirror") is True

    @property
    def refuse_unrecovered(self) -> bool:
        """Whether the reader wants error 112 where its position may not go on."""
        return bool(self.flag & 2)


class TopicRequest(msgspec.Struct, frozen=True, kw_only=True):
    channel: str


class PublishRequest(msgspec.Struct, frozen=True, kw_only=True):
    channel: str
    data: msgspec.Raw = _EMPTY


class Since(msgspec.Struct, frozen=True, kw_only=True):
    epoch: str | None = None
    offset: _Count = 0


class HistoryRequest(msgspec.Struct, frozen=True, kw_only=True):
    channel: str
    limit: int | None = None
    since: Since | None = None
    reverse: bool = False


class RpcRequest(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    data: msgspec.Raw = _EMPTY


class SendRequest(msgspec.Struct, frozen=True, kw_only=True):
    data: msgspec.Raw = _EMPTY


class RefreshRequest(msgspec.Struct, frozen=True, kw_only=True):
    token: str | None = None
    channel: str | None = None


class EmptyRequest(msgspec.Struct, frozen=True, kw_only=True):
    pass


Request = (
    ConnectRequest
    | SubscribeRequest
    | TopicRequest
    | PublishRequest
    | HistoryRequest
    | RpcRequest
    | SendRequest
    | RefreshRequest
    | EmptyRequest
)


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] = 0
    connect: ConnectRequest | None = None
    subscribe: SubscribeRequest | None = None
    unsubscribe: TopicRequest | None = None
    publish: PublishRequest | None = None
    presence: TopicRequest | None = None
    presence_stats: TopicRequest | None = None
    history: HistoryRequest | None = None
    ping: EmptyRequest | None = None
    send: SendRequest | None = None
    rpc: RpcRequest | None = None
    refresh: RefreshRequest | None = None
    sub_refresh: RefreshRequest | None = None


METHODS = tuple(name for name in _Envelope.__struct_fields__ if name != "id")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a client.

    Attributes:
        id: Its number; 0 only for `send`, which gets no reply.
        method: Its name on the wire.
        request: What it asks; None where it was refused.
        refusal: The error it is answered with; None where it may run.

    """

    id: int
    method: str
    request: Request | None = None
    refusal: CommandError | None = None


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_any_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

# A pair of halves is left alone; a half by itself is what JSON.stringify writes for a broken string.
_SURROGATE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)"
)


def decode_frame(data: bytes) -> list[Command]:
    """Read the commands of one text frame; pongs (``{}``) and empty lines are left out.

    A command that can be answered and cannot run has a `refusal`.

    Raises:
        DisconnectError: The frame is no JSON, a line is no object, or a line has no id to answer to.

    """
    return [_decode_line(line) for line in data.split(b"\n") if line != PING and line.strip()]


def _decode_line(line: bytes) -> Command:
    try:
        envelope = _envelope_decoder.decode(line)
    except msgspec.ValidationError as error:
        return _refused(line, str(error))
    except (msgspec.DecodeError, RecursionError) as error:
        repaired = _SURROGATE.sub(_whole_or_replaced, line)
        if repaired != line:
            return _decode_line(repaired)
        raise DisconnectError(DisconnectCode.BAD_REQUEST, f"a frame is no JSON: {error}"[:120]) from error
    found = [name for name in METHODS if getattr(envelope, name) is not None]
    if len(found) != 1:
        return _refused(line, "expected exactly one method in a command")
    method = found[0]
    if envelope.id == 0 and method != "send":
        raise DisconnectError(DisconnectCode.BAD_REQUEST, "a command needs a positive id")
    return Command(id=envelope.id, method=method, request=getattr(envelope, method))


def _whole_or_replaced(match: re.Match[bytes]) -> bytes:
    text = match.group()
    return rb"\ufffd" if len(text) == 6 else text  # `\uXXXX` alone; a pair has 12 bytes, another escape 2


def _refused(line: bytes, reason: str) -> Command:
    """Answer what has an id, close on what has none."""
    try:
        value = _any_decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DisconnectError(DisconnectCode.BAD_REQUEST, f"a frame is no JSON: {error}"[:120]) from error
    if not isinstance(value, dict):
        raise DisconnectError(DisconnectCode.BAD_REQUEST, "a command is no object")
    number = value.pop("id", 0)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**53:
        raise DisconnectError(DisconnectCode.BAD_REQUEST, "a command needs a positive id")
    known = [name for name in value if name in METHODS]
    method = known[0] if known else next(iter(value), "")
    if not known:
        refusal = CommandError(ErrorCode.METHOD_NOT_FOUND, f"no command {method[:64]!r}")
    else:
        refusal = CommandError(ErrorCode.BAD_REQUEST, reason)
    return Command(id=number, method=method, refusal=refusal)


def encode_reply(command: Command, result: Mapping[str, Any]) -> bytes:
    """Encode the reply to a command."""
    return _encoder.encode({"id": command.id, command.method: result})


def encode_error(command: Command, error: CommandError) -> bytes:
    """Encode the error reply to a command."""
    body: dict[str, Any] = {"code": int(error.code), "message": error.message}
    if error.temporary:
        body["temporary"] = True
    return _encoder.encode({"id": command.id, "error": body})


def encode_push(kind: str, body: Mapping[str, Any], *, channel: str = "") -> bytes:
    """Encode a push; an empty channel is that of the whole connection."""
    push: dict[str, Any] = {"channel": channel} if channel else {}
    push[kind] = body
    return _encoder.encode({"push": push})


def push_prefix(topic: str) -> bytes:
    """Give what stands before the publication in every push line of a topic."""
    return b'{"push":{"channel":"' + topic.encode() + b'","pub":'


def publication_line(prefix: bytes, offset: int, data: bytes) -> bytes:
    """Compose the push line of a stored event, as the append script composes it."""
    return b'%b{"data":%b,"offset":%d}}}' % (prefix, data, offset)


def publication_of(prefix: bytes, line: bytes) -> bytes:
    """Cut the publication out of a push line."""
    return line[len(prefix) : -2]


def with_tags(line: bytes, first: int) -> bytes:
    """Add to an untagged push line that it stands for all offsets from ``first`` to its own."""
    return b'%b,"tags":{"from":"%d"}}}}' % (line[:-3], first)


def _head(length: int) -> bytes:
    if length < 126:
        return b"\x81" + length.to_bytes(1)
    if length < 65536:
        return b"\x81\x7e" + length.to_bytes(2)
    return b"\x81\x7f" + length.to_bytes(8)


_HEADS = [_head(length) for length in range(4096)]
"""Of nearly all frames: every event passes here."""


def text_frame(payload: bytes) -> bytes:
    """Make an unmasked websocket text frame (RFC 6455, 5.2) that any number of connections can share."""
    length = len(payload)
    return (_HEADS[length] if length < len(_HEADS) else _head(length)) + payload


def text_frames(lines: Iterable[bytes]) -> bytes:
    """Pack lines into websocket frames of at most `PIECE_BYTES`, a larger line into one of its own."""
    frames: list[bytes] = []
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and size + len(line) > PIECE_BYTES:
            frames.append(text_frame(b"\n".join(batch)))
            batch, size = [], 0
        batch.append(line)
        size += len(line) + 1
    if batch:
        frames.append(text_frame(b"\n".join(batch)))
    return frames[0] if len(frames) == 1 else b"".join(frames)


def frame_payloads(frames: bytes) -> list[bytes]:
    """Take apart the unmasked text frames that `text_frame` made."""
    payloads: list[bytes] = []
    start = 0
    while start < len(frames):
        length = frames[start + 1]
        start += 2
        if length == 126:
            length = int.from_bytes(frames[start : start + 2])
            start += 2
        elif length == 127:
            length = int.from_bytes(frames[start : start + 8])
            start += 8
        payloads.append(frames[start : start + length])
        start += length
    return payloads


def split_text(data: bytes, size: int) -> list[str]:
    """Cut UTF-8 into texts of at most ``size`` bytes, only between code points."""
    parts: list[str] = []
    start = 0
    while start < len(data):
        end = min(start + size, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(data[start:end].decode())
        start = end
    return parts
