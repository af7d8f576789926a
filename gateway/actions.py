"""People's actions: what clients may put on a topic, and the methods of `rpc` (PROTOCOL.md 4.5 and 7)."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Bound,
    Broker,
    Change,
    Condition,
    Entry,
    Restore,
    Unmet,
)
from gateway.codec import decode_event, encode_event, encode_json
from gateway.errors import BrokerUnavailableError, CommandError, ErrorCode, EventRefusedError
from gateway.event_types import check_publishable
from gateway.session import topic_of
from gateway.types import START, Position, Topic

__all__ = ["GRANTS", "Actions", "Caller", "Method"]

GRANTS = ("cancel", "decide", "edit", "history", "presence", "publish", "read", "send", "withdraw")
"""What a reader may do, where nothing restricts it."""

MAX_CONTENT = 64 * 1024

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_RETRY = 0.1
"""Seconds between two tries of an append while the broker is away; the command's timeout ends them."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks.

    Attributes:
        client: The connection's id.
        user: The user's id; "" for an anonymous one.

    """

    client: str
    user: str = ""

    @property
    def name(self) -> str:
        """How events name the user."""
        return self.user or "anonymous"


Method = Callable[[Caller, dict[str, Any]], Awaitable[dict[str, Any]]]


class Actions:
    """Turns what clients ask into appends; each returns after its event is on the topic."""

    def __init__(self, broker: Broker) -> None:
        """Make the methods over a broker; later ones are added to `methods`."""
        self.broker: Broker = broker
        self.methods: dict[str, Method] = {"send": self._send, "topics": self._topics}

    async def rpc(self, caller: Caller, method: str, data: msgspec.Raw) -> dict[str, Any]:
        """Run a method.

        Raises:
            CommandError: 104 no such method, 107 its data has another form, or what the method says.
            BrokerUnavailableError: The broker is away.

        """
        function = self.methods.get(method)
        if function is None:
            raise CommandError(ErrorCode.METHOD_NOT_FOUND, f"no method {method[:64]!r}")
        return await function(caller, decoded(data) if bytes(data) not in {b"", b"null"} else {})

    async def publish(self, caller: Caller, channel: str, data: msgspec.Raw, *, count: int) -> Position:
        """Put a client's own event on a topic.

        Args:
            caller: Who publishes.
            channel: The topic's name.
            data: The event's JSON as it came.
            count: Which publication of this client it is: a try after a lost answer carries the same one.

        Raises:
            CommandError: 102 no topic name, 103 a type that only the gateway and runs write, 107 no valid event,
                106 the topic is full.
            BrokerUnavailableError: The broker is away.

        """
        topic = topic_of(channel)
        event = decoded(data)
        check_publishable(event)
        kind = event.get("type")
        entry = Entry(kind="h", type=kind if isinstance(kind, str) else "", data=encoded(event))
        request = AppendRequest(writer=f"p/{caller.client}", seq=str(count), entries=(entry,))
        answer = await self._append(topic, request)
        if not isinstance(answer, Appended):
            raise CommandError(ErrorCode.INTERNAL, f"the store answered {type(answer).__name__}")
        return answer.position

    async def _send(self, caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
        topic, client_id, content = topic_field(data), id_field(data), content_field(data)
        text = encode_content(content)
        message = hashlib.sha256(f"{caller.name}\n{client_id}".encode()).hexdigest()[:16]
        writer = f"u/{quote(caller.name, safe='')}/{quote(client_id, safe='')}"
        now = self.broker.now()
        event = {"type": "message_queued", "at": now, "id": message, "content": content, "by": caller.name}
        await self.broker.set_due(topic, now)
        answer = await self._append(
            topic,
            AppendRequest(
                writer=writer,
                seq=hashlib.sha256(text.encode()).hexdigest(),
                entries=(Entry(kind="h", type="message_queued", data=encoded(event)),),
                conditions=(Condition(field=f"w:{writer}", op="!"), Condition(field=f"m:{message}", op="!")),
                changes=(Change(field=f"m:{message}", value=text),),
            ),
        )
        if isinstance(answer, Unmet):
            if answer.field == f"m:{message}" and answer.value == text:
                return {"message": message, "offset": answer.position.offset, "epoch": answer.position.epoch}
            raise CommandError(ErrorCode.CONFLICT, f"id {client_id!r} was used for another message")
        if not isinstance(answer, Appended):
            raise CommandError(ErrorCode.INTERNAL, f"the store answered {type(answer).__name__}")
        await self.broker.wake(topic)
        return {"message": message, "offset": answer.position.offset, "epoch": answer.position.epoch}

    async def _topics(self, caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
        return {"topics": [{"topic": topic, "at": at} for topic, at in await self.broker.topics()]}

    async def _append(self, topic: Topic, request: AppendRequest) -> AppendAnswer:
        """Append, again and again while the broker is away: the same append is stored once."""
        while True:
            try:
                answer = await self.broker.append(topic, request, position=START)
            except BrokerUnavailableError:
                await asyncio.sleep(_RETRY)
                continue
            if isinstance(answer, Restore):
                continue  # nothing was stored, and a new epoch is open now
            if isinstance(answer, Bound):
                raise CommandError(ErrorCode.LIMIT_EXCEEDED, f"the topic is full: it holds {answer.size} bytes")
            return answer


def decoded(data: msgspec.Raw) -> dict[str, Any]:
    """Decode what a client sent as data; 107 where it is no object or not what JSON allows."""
    try:
        return decode_event(bytes(data))
    except EventRefusedError as error:
        raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error


def encoded(event: dict[str, Any]) -> bytes:
    """Encode an event by the entry rules; 107 where it breaks them."""
    try:
        return encode_event(event)
    except EventRefusedError as error:
        raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error


def topic_field(data: dict[str, Any]) -> Topic:
    """Read the field ``topic``."""
    topic = data.get("topic")
    if not isinstance(topic, str):
        raise CommandError(ErrorCode.BAD_REQUEST, "expected a text `topic`")
    return topic_of(topic)


def id_field(data: dict[str, Any]) -> str:
    """Read the field ``id``, the client's own id of an action."""
    client_id = data.get("id")
    if not isinstance(client_id, str) or not _ID.match(client_id):
        raise CommandError(ErrorCode.BAD_REQUEST, "expected an `id` of 1 to 64 characters of A-Z a-z 0-9 _ . -")
    return client_id


def content_field(data: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Read the field ``content`` of a message."""
    content = data.get("content")
    parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    if not content or not (parts or isinstance(content, str)):
        raise CommandError(ErrorCode.BAD_REQUEST, "expected `content`: a text, or a list of content parts")
    size = len(encode_content(content))
    if size > MAX_CONTENT + 2:  # the quotes around a text
        raise CommandError(ErrorCode.BAD_REQUEST, f"`content` may have {MAX_CONTENT} bytes as JSON, this has {size}")
    return content  # type: ignore[no-any-return]  # checked above


def encode_content(content: str | list[dict[str, Any]]) -> str:
    """Give a message's content as the JSON text that the store keeps."""
    return encode_json(content).decode()
