"""What the methods of the API are asked."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

__all__ = [
    "BatchBody",
    "BroadcastBody",
    "ChannelBody",
    "ChannelsBody",
    "DisconnectBody",
    "HistoryBody",
    "NoBody",
    "PublishBody",
    "UnsubscribeBody",
]

MAX_CHANNELS = 1000
"""Of one broadcast."""

MAX_COMMANDS = 1000
"""Of one batch."""


class Unsupported(msgspec.Struct, frozen=True, kw_only=True):
    """What Centrifugo can do with a publication and this gateway cannot: asked for, it is error 108."""

    skip_history: bool = False
    tags: dict[str, str] | None = None
    version: int = 0


class PublishBody(Unsupported, frozen=True, kw_only=True):
    """One event for one topic; ``b64data`` is the event's JSON in base64."""

    channel: str
    data: msgspec.Raw = msgspec.Raw(b"")
    b64data: str = ""
    idempotency_key: Annotated[str, Meta(max_length=256)] = ""


class BroadcastBody(Unsupported, frozen=True, kw_only=True):
    """One event for several topics."""

    channels: Annotated[list[str], Meta(min_length=1, max_length=MAX_CHANNELS)]
    data: msgspec.Raw = msgspec.Raw(b"")
    b64data: str = ""
    idempotency_key: Annotated[str, Meta(max_length=256)] = ""


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """A position."""

    offset: Annotated[int, Meta(ge=0)] = 0
    epoch: str = ""


class HistoryBody(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a topic's events; limit 0 gives only the position, a negative one as many as fit."""

    channel: str
    limit: int = 0
    since: Since | None = None
    reverse: bool = False


class ChannelBody(msgspec.Struct, frozen=True, kw_only=True):
    """A topic."""

    channel: str


class Farewell(msgspec.Struct, frozen=True, kw_only=True):
    """With what a connection is closed; code 0 is 3503, which forbids to come back."""

    code: int = 0
    reason: str = ""


class DisconnectBody(msgspec.Struct, frozen=True, kw_only=True):
    """A user's connections: all, one, or all but some."""

    user: Annotated[str, Meta(min_length=1)]
    client: str = ""
    session: str = ""
    whitelist: Annotated[list[str], Meta(max_length=MAX_CHANNELS)] = []
    disconnect: Farewell | None = None


class UnsubscribeBody(msgspec.Struct, frozen=True, kw_only=True):
    """A user's subscriptions to a topic: all, or that of one connection."""

    user: Annotated[str, Meta(min_length=1)]
    channel: str
    client: str = ""
    session: str = ""


class ChannelsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Topics that have readers, by a glob pattern; "" for all."""

    pattern: Annotated[str, Meta(max_length=512)] = ""


class NoBody(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing; what is there is passed over."""


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """Several commands, each ``{"<method>": {…}}``, in order or all at once."""

    commands: Annotated[list[dict[str, Any]], Meta(max_length=MAX_COMMANDS)]
    parallel: bool = False
