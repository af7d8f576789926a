"""What a request for a stream asks."""

import re
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from gateway.auth import Authority
from gateway.errors import CommandError, ErrorCode
from gateway.grants import Identity
from gateway.lens import Lens, read_lens
from gateway.session import topic_of
from gateway.types import START, Position, Topic, parse_position
from gateway.view import View, view_of

__all__ = ["StreamRequest", "below_topics", "identity_of", "read_flag", "read_request"]


_COUNT = re.compile(r"[0-9]{1,9}\Z")
_TOLD = re.compile(r"[0-9]{1,9}(,[0-9]{1,9}){1,200}\Z")


class StreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads what, and from where.

    Attributes:
        topic: The topic.
        identity: Who asks; may read the topic.
        known: The position that was named, as text; "" for none.
        asked: The same, where it can be a position; None where it is none, or none was named.
        skip: Events that a dialect's client had of a group before its connection was cut, at that position.
        told: How much of the open message it had; "" for nothing.
        header: The client comes back: the position is that of its `Last-Event-ID`.
        mirror: A snapshot is wanted wherever the position cannot be continued, or none was named.
        view: The rules by which the client sees the topic; None shows it everything.

    """

    topic: Topic
    identity: Identity
    known: str
    asked: Position | None
    skip: int
    told: str
    header: bool
    mirror: bool
    view: View | None


def read_request(request: Request) -> StreamRequest:
    """Read what is asked.

    Raises:
        CommandError: 102 no topic, 101 or 109 credentials that are none, 103 may not read, 107 another parameter.

    """
    topic = topic_of(below_topics(request.scope)[0])
    identity = identity_of(request)
    identity.require("read", topic)
    known, asked, skip, told = _position(request)
    return StreamRequest(
        topic=topic,
        identity=identity,
        known=known,
        asked=asked,
        skip=skip,
        told=told,
        header=bool(request.headers.get("last-event-id", "").strip()),
        mirror=read_flag(request, "mirror", absent=False),
        view=view_of(_lens(request), identity.redaction(topic)),
    )


def identity_of(request: Request) -> Identity:
    """Say who asks.

    Raises:
        CommandError: 101 or 109, the credentials are not accepted.

    """
    authority: Authority = request.app.state.authority
    return authority.http(request)


def below_topics(scope: Scope) -> list[str]:
    """Take the topic, and what is asked of it, from the path as it was sent: there, a ``/`` in a topic is ``%2F``."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    _, _, rest = raw.decode("latin-1").partition("?")[0].partition("/topics/")
    return [unquote(part) for part in rest.split("/")]


def read_flag(request: Request, name: str, *, absent: bool) -> bool:
    """Read a parameter that is 0 or 1.

    Raises:
        CommandError: 107, it is something else.

    """
    text = request.query_params.get(name, "")
    if text not in {"", "0", "1"}:
        raise CommandError(ErrorCode.BAD_REQUEST, f"expected 0 or 1 as {name}, got {text!r:.80}")
    return text == "1" if text else absent


def _lens(request: Request) -> Lens:
    query = request.query_params
    asked: dict[str, Any] = {}
    if query.get("types"):
        asked["types"] = query["types"].split(",")
    if query.get("rate"):
        rate = query["rate"]
        asked["rate"] = int(rate) if rate.isascii() and rate.isdecimal() and len(rate) <= 4 else rate
    if read_flag(request, "finished", absent=False):
        asked["finished"] = True
    return read_lens({"lens": asked} if asked else None)


def _position(request: Request) -> tuple[str, Position | None, int, str]:
    # A browser that comes back sends the header, beside the same address as before.
    header = request.headers.get("last-event-id", "").strip()
    if header:
        try:
            return header, *_parsed(header)
        except ValueError:
            return header[:80], None, 0, ""  # another server's id: a position that is not ours, so one that is lost
    for name in ("last_event_id", "from"):
        text = request.query_params.get(name, "")
        if text == "start":
            return str(START), START, 0, ""
        if text:
            try:
                return text, *_parsed(text)
            except ValueError as error:
                expected = "expected start or a position <epoch>:<offset>"
                raise CommandError(ErrorCode.BAD_REQUEST, f"{expected} as {name}, got {text!r:.80}") from error
    return "", None, 0, ""


def _parsed(text: str) -> tuple[Position, int, str]:
    """Read an id: a position, and of a dialect perhaps what was had beyond it (`DialectForm`)."""
    place, wave, told = text.partition("~")
    position, dot, count = place.partition(".")
    if (dot and not _COUNT.match(count)) or (wave and not _TOLD.match(told)):
        raise ValueError(text)
    return parse_position(position), int(count or 0), told
