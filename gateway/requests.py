"""What a connection asks that changes none of its subscriptions: publish, history, presence, rpc."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.actions import Actions, Caller
from gateway.admission import Credentials
from gateway.codec import encode_json
from gateway.errors import CommandError, ErrorCode
from gateway.frames import MAX_FRAME, HistoryRequest, PublishRequest, RpcRequest, TopicRequest
from gateway.hub import Hub
from gateway.pages import HistoryPages
from gateway.session import topic_of
from gateway.types import Position, Topic
from gateway.view import View

__all__ = ["Requests"]

ENVELOPE = 1024
"""Bytes of a frame that are not the list in it."""


class Requests:
    """Answers one connection, each after its credentials allow it."""

    __slots__ = ("_actions", "_client", "_credentials", "_hub", "_published")

    def __init__(self, hub: Hub, actions: Actions, credentials: Credentials, *, client: str) -> None:
        """Make it for a connection.

        Args:
            hub: Where the topics are.
            actions: What its commands can do.
            credentials: What the connection may do.
            client: The connection's id.

        """
        self._hub = hub
        self._actions = actions
        self._credentials = credentials
        self._client = client
        self._published: int = 0

    @property
    def methods(self) -> Mapping[str, Callable[[Any], Awaitable[dict[str, Any]]]]:
        """The commands that are answered here; each may raise `CommandError` and `BrokerUnavailableError`."""
        return {
            "publish": self._publish,
            "history": self._history,
            "presence": self._presence,
            "presence_stats": self._presence_stats,
            "rpc": self._rpc,
        }

    def knows(self, method: str) -> bool:
        """Say whether a method of ``rpc`` is one."""
        return method in self._actions.methods

    @property
    def _caller(self) -> Caller:
        return Caller(client=self._client, identity=self._credentials.whole)

    def _require(self, verb: str, channel: str) -> Topic:
        topic = topic_of(channel)
        self._credentials.of(topic).require(verb, topic)
        return topic

    async def _publish(self, request: PublishRequest) -> dict[str, Any]:
        self._require("publish", request.channel)
        size, limit = len(bytes(request.data)), self._hub.settings.max_publish
        if size > limit:
            raise CommandError(ErrorCode.LIMIT_EXCEEDED, f"an event may have {limit} bytes, this one has {size}")
        self._published += 1
        await self._actions.publish(self._caller, request.channel, request.data, count=self._published)
        return {}

    async def _history(self, request: HistoryRequest) -> dict[str, Any]:
        topic = self._require("history", request.channel)
        since = request.since
        position = Position(epoch=since.epoch or "", offset=since.offset) if since is not None else None
        redaction = self._credentials.of(topic).redaction(topic)
        return await HistoryPages(self._hub.broker).read(
            topic,
            since=position,
            limit=request.limit or 0,
            reverse=request.reverse,
            view=None if redaction is None else View(redaction=redaction),
        )

    async def _presence(self, request: TopicRequest) -> dict[str, Any]:
        number, attendees = await self._hub.presence.attendees(self._require("presence", request.channel))
        listed = {attendee.client: attendee.info for attendee in attendees}
        if number > len(attendees) or len(encode_json(listed)) > MAX_FRAME - ENVELOPE:
            raise CommandError(
                ErrorCode.LIMIT_EXCEEDED, f"{number} clients are more than one reply lists; ask presence_stats"
            )
        return {"presence": listed}

    async def _presence_stats(self, request: TopicRequest) -> dict[str, Any]:
        clients, users = await self._hub.presence.count(self._require("presence", request.channel))
        return {"num_clients": clients, "num_users": users}

    async def _rpc(self, request: RpcRequest) -> dict[str, Any]:
        return {"data": await self._actions.rpc(self._caller, request.method, request.data)}
