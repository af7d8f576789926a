"""What a request for a stream asks."""

from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from gateway.errors import CommandError, ErrorCode
from gateway.grants import EVERYTHING, Identity
from gateway.session import topic_of
from gateway.types import START, Position, Topic, parse_position

__all__ = ["StreamRequest", "below_topics", "identity_of", "read_flag", "read_request"]


class StreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads what, and from where.

    Attributes:
        topic: The topic.
        identity: Who asks; may read the topic.
        known: The position that was named, as text; "" for none.
        asked: The same, where it can be a position; None where it is none, or none was named.
        mirror: A snapshot is wanted wherever the position cannot be continued, or none was named.

    """

    topic: Topic
    identity: Identity
    known: str
    asked: Position | None
    mirror: bool


def read_request(request: Request) -> StreamRequest:
    """Read what is asked.

    Raises:
        CommandError: 102 no topic, 101 or 109 credentials that are none, 103 may not read, 107 another parameter.

    """
    topic = topic_of(below_topics(request.scope)[0])
    identity = identity_of(request)
    identity.require("read", topic)
    known, asked = _position(request)
    return StreamRequest(
        topic=topic, identity=identity, known=known, asked=asked, mirror=read_flag(request, "mirror", absent=False)
    )


def identity_of(request: Request) -> Identity:
    """Say who asks.

    Raises:
        CommandError: 101 or 109, the credentials are not accepted.

    """
    authority = getattr(request.app.state, "authority", None)
    found: Identity = EVERYTHING if authority is None else authority.http(request)
    return found


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


def _position(request: Request) -> tuple[str, Position | None]:
    # A browser that comes back sends the header, beside the same address as before.
    header = request.headers.get("last-event-id", "").strip()
    if header:
        try:
            return header, parse_position(header)
        except ValueError:
            return header[:80], None  # another server's id: a position that is not ours, so one that is lost
    for name in ("last_event_id", "from"):
        text = request.query_params.get(name, "")
        if text == "start":
            return str(START), START
        if text:
            try:
                return text, parse_position(text)
            except ValueError as error:
                expected = "expected start or a position <epoch>:<offset>"
                raise CommandError(ErrorCode.BAD_REQUEST, f"{expected} as {name}, got {text!r:.80}") from error
    return "", None
