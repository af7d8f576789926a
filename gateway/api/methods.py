"""The methods of the API, apart from HTTP."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from gateway.actions.actions import decoded
from gateway.actions.store import ActionStore, encoded
from gateway.api.bodies import (
    BatchBody,
    BroadcastBody,
    ChannelBody,
    ChannelsBody,
    DisconnectBody,
    HistoryBody,
    NoBody,
    PublishBody,
    UnsubscribeBody,
    Unsupported,
)
from gateway.api.globs import compile_glob
from gateway.broker.port import Appended, AppendRequest, Condition, Entry
from gateway.control import Control
from gateway.erasure import Erasure
from gateway.errors import BrokerUnavailableError, CommandError, DisconnectCode, ErrorCode
from gateway.event_types import check_publishable
from gateway.hub import Hub
from gateway.pages import HistoryPages
from gateway.session import topic_of
from gateway.types import Position, new_id

__all__ = ["Methods"]

AT_ONCE = 32
"""Commands of one batch, or topics of one broadcast, that are under way at a time."""

_Answer = TypeVar("_Answer")
_Body = TypeVar("_Body")
_Result = dict[str, Any]


class Methods:
    """Answers commands; each is one attempt within the command timeout.

    Args:
        hub: Of this process.

    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._control: Control = hub.control
        self._store = ActionStore(hub.broker)
        self._erasure = Erasure(hub.broker)
        self._pages = HistoryPages(hub.broker)
        self._writer = f"p/{new_id()}"
        self._free: list[int] = []
        """Numbers of writers that have no append under way."""
        self._writers = 0
        self._seq = 0
        self._methods: dict[str, Callable[[Any], Awaitable[_Result]]] = {
            "broadcast": _typed(BroadcastBody, self._broadcast),
            "channels": _typed(ChannelsBody, self._channels),
            "disconnect": _typed(DisconnectBody, self._disconnect),
            "history": _typed(HistoryBody, self._history),
            "history_remove": _typed(ChannelBody, self._history_remove),
            "info": _typed(NoBody, self._info),
            "presence": _typed(ChannelBody, self._presence),
            "presence_stats": _typed(ChannelBody, self._presence_stats),
            "publish": _typed(PublishBody, self._publish),
            "refresh": self._refresh,
            "subscribe": self._subscribe,
            "unsubscribe": _typed(UnsubscribeBody, self._unsubscribe),
        }

    async def answer(self, method: str, body: Any) -> dict[str, Any]:
        """Answer one command: ``{"result"}``, or ``{"error": {"code", "message"}}``; to a batch, ``{"replies"}``."""
        try:
            if method == "batch":
                return await self._batch(_converted(body, BatchBody))
            return {"result": await self._run(method, body)}
        except CommandError as error:
            return _told(error)

    async def _run(self, method: str, body: Any) -> _Result:
        function = self._methods.get(method)
        if function is None:
            raise CommandError(ErrorCode.METHOD_NOT_FOUND, f"no method {method[:64]!r}")
        try:
            async with asyncio.timeout(self._hub.settings.command_timeout):
                return await function(body)
        except (BrokerUnavailableError, TimeoutError) as error:
            raise CommandError(ErrorCode.INTERNAL, "the broker is away; try again") from error

    async def _batch(self, body: BatchBody) -> dict[str, Any]:
        if body.parallel:
            return {"replies": await _some_at_once([_bound(self._one, command) for command in body.commands])}
        return {"replies": [await self._one(command) for command in body.commands]}

    async def _one(self, command: dict[str, Any]) -> dict[str, Any]:
        if len(command) != 1:
            return _told(CommandError(ErrorCode.BAD_REQUEST, f"expected one method in a command, got {len(command)}"))
        ((method, body),) = command.items()
        try:
            return {method: await self._run(method, body)}
        except CommandError as error:
            return _told(error)

    # Publications

    async def _publish(self, body: PublishBody) -> _Result:
        _check_supported(body)
        return await self._append(body.channel, _event(body.data, body.b64data), key=body.idempotency_key)

    async def _broadcast(self, body: BroadcastBody) -> _Result:
        _check_supported(body)
        event = _event(body.data, body.b64data)

        async def one(channel: str) -> dict[str, Any]:
            try:
                return {"result": await self._append(channel, event, key=body.idempotency_key)}
            except CommandError as error:
                return _told(error)

        return {"responses": await _some_at_once([_bound(one, channel) for channel in body.channels])}

    async def _append(self, channel: str, event: dict[str, Any], *, key: str) -> _Result:
        topic = topic_of(channel)
        check_publishable(event)
        data = encoded(event)
        entry = Entry(kind="h", type=str(event.get("type", "")), data=data)
        if key:
            writer, mark = f"i/{quote(key, safe='')}", hashlib.sha256(data).hexdigest()
            own = Condition(field=f"w:{writer}", op="!")
            request = AppendRequest(writer=writer, seq=mark, entries=(entry,), conditions=(own,))
            answer = await self._store.append(topic, request)
            if not isinstance(answer, Appended):
                raise CommandError(ErrorCode.CONFLICT, f"the idempotency key {key!r:.80} was used for another event")
            return _place(answer.position)
        # A writer has one append under way at a time: a try after a lost answer is known by the writer's last mark.
        if self._free:
            number = self._free.pop()
        else:
            number, self._writers = self._writers, self._writers + 1
        self._seq += 1
        try:
            request = AppendRequest(writer=f"{self._writer}-{number}", seq=str(self._seq), entries=(entry,))
            answer = await self._store.append(topic, request)
        finally:
            self._free.append(number)
        if not isinstance(answer, Appended):
            raise CommandError(ErrorCode.INTERNAL, f"the store answered {type(answer).__name__}")
        return _place(answer.position)

    # Histories

    async def _history(self, body: HistoryBody) -> _Result:
        since = None if body.since is None else Position(epoch=body.since.epoch, offset=body.since.offset)
        return await self._pages.read(topic_of(body.channel), since=since, limit=body.limit, reverse=body.reverse)

    async def _history_remove(self, body: ChannelBody) -> _Result:
        await self._erasure.erase(topic_of(body.channel))
        return {}

    # Connections

    async def _presence(self, body: ChannelBody) -> _Result:
        number, attendees = await self._hub.presence.attendees(topic_of(body.channel))
        if number > len(attendees):
            reason = f"{number} clients are more than one answer lists; ask presence_stats"
            raise CommandError(ErrorCode.LIMIT_EXCEEDED, reason)
        return {"presence": {attendee.client: attendee.info for attendee in attendees}}

    async def _presence_stats(self, body: ChannelBody) -> _Result:
        clients, users = await self._hub.presence.count(topic_of(body.channel))
        return {"num_clients": clients, "num_users": users}

    async def _disconnect(self, body: DisconnectBody) -> _Result:
        if body.session:
            raise CommandError(ErrorCode.NOT_AVAILABLE, "sessions are not known here; name the `client`")
        farewell = body.disconnect
        code = int(DisconnectCode.FORCE_NO_RECONNECT)
        reason = "force disconnect"
        if farewell is not None and farewell.code:
            code, reason = farewell.code, farewell.reason
            if not 3000 <= code < 5000:
                raise CommandError(ErrorCode.BAD_REQUEST, f"expected a close code from 3000 to 4999, got {code}")
        await self._control.disconnect(
            body.user, client=body.client, keep=frozenset(body.whitelist), code=code, reason=reason
        )
        return {}

    async def _unsubscribe(self, body: UnsubscribeBody) -> _Result:
        if body.session:
            raise CommandError(ErrorCode.NOT_AVAILABLE, "sessions are not known here; name the `client`")
        await self._control.unsubscribe(body.user, topic_of(body.channel), client=body.client)
        return {}

    async def _subscribe(self, _body: Any) -> _Result:
        raise CommandError(
            ErrorCode.NOT_AVAILABLE, "clients subscribe by themselves here; a token's `channels` says what they may"
        )

    async def _refresh(self, _body: Any) -> _Result:
        raise CommandError(
            ErrorCode.NOT_AVAILABLE, "clients refresh their tokens by themselves here; `disconnect` ends a connection"
        )

    # Nodes

    async def _channels(self, body: ChannelsBody) -> _Result:
        try:
            pattern = compile_glob(body.pattern)
        except ValueError as error:
            raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error
        found = await self._control.channels()
        return {"channels": {topic: {"num_clients": found[topic]} for topic in sorted(found) if pattern.match(topic)}}

    async def _info(self, _body: NoBody) -> _Result:
        return {"nodes": await self._control.nodes()}


def _typed(kind: type[_Body], function: Callable[[_Body], Awaitable[_Result]]) -> Callable[[Any], Awaitable[_Result]]:
    async def run(body: Any) -> _Result:
        return await function(_converted(body, kind))

    return run


def _converted(body: Any, kind: type[_Body]) -> _Body:
    """Read a body; 107 where it has another form."""
    try:
        # From bytes, as only so a part of it stays as it came.
        return msgspec.json.decode(msgspec.json.encode(body if body is not None else {}), type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error


def _check_supported(body: Unsupported) -> None:
    if body.skip_history:
        raise CommandError(ErrorCode.NOT_AVAILABLE, "`skip_history`: every event is a part of its topic's history")
    if body.tags:
        raise CommandError(ErrorCode.NOT_AVAILABLE, "`tags`: an event has no more than its data")
    if body.version:
        raise CommandError(ErrorCode.NOT_AVAILABLE, "`version`: events are numbered by the gateway")


def _event(data: msgspec.Raw, b64data: str) -> dict[str, Any]:
    if b64data:
        try:
            data = msgspec.Raw(base64.b64decode(b64data, validate=True))
        except (binascii.Error, ValueError) as error:
            raise CommandError(ErrorCode.BAD_REQUEST, f"`b64data` is no base64: {error}") from error
    if not bytes(data):
        raise CommandError(ErrorCode.BAD_REQUEST, "expected `data`: the event, a JSON object")
    return decoded(data)


def _place(position: Position) -> _Result:
    return {"offset": position.offset, "epoch": position.epoch}


def _told(error: CommandError) -> dict[str, Any]:
    return {"error": {"code": int(error.code), "message": error.message}}


def _bound(function: Callable[[Any], Awaitable[_Answer]], argument: Any) -> Callable[[], Awaitable[_Answer]]:
    return lambda: function(argument)


async def _some_at_once(calls: list[Callable[[], Awaitable[_Answer]]]) -> list[_Answer]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        async with room:
            return await call()

    return await asyncio.gather(*(one(call) for call in calls))
