"""What clients may put on a topic, and the methods of `rpc`."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gateway.actions.caller import Caller
from gateway.actions.cancellations import Cancellations
from gateway.actions.decisions import Decisions
from gateway.actions.fates import Fates
from gateway.actions.messages import WaitingMessages
from gateway.actions.store import ActionStore, encoded
from gateway.broker.port import Appended, AppendRequest, Broker, Entry
from gateway.codec import decode_event
from gateway.errors import CommandError, ErrorCode, EventRefusedError
from gateway.event_types import check_publishable
from gateway.session import topic_of
from gateway.types import Position

__all__ = ["GRANTS", "Actions", "Method"]

GRANTS = ("cancel", "decide", "edit", "history", "presence", "publish", "read", "send", "withdraw")
"""What a reader may do, where nothing restricts it."""

Method = Callable[[Caller, dict[str, Any]], Awaitable[dict[str, Any]]]


class Actions:
    """Turns what clients ask into appends; each returns after its event is on the topic."""

    def __init__(self, broker: Broker) -> None:
        """Make the methods over a broker; later ones are added to `methods`."""
        self.broker: Broker = broker
        self._store = ActionStore(broker)
        fates = Fates(self._store)
        messages = WaitingMessages(self._store, fates)
        self.methods: dict[str, Method] = {
            "cancel": Cancellations(self._store, messages, fates).cancel,
            "decide": Decisions(self._store, fates).decide,
            "edit": messages.edit,
            "send": messages.send,
            "topics": self._topics,
            "withdraw": messages.withdraw,
        }

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
        answer = await self._store.append(topic, request)
        if not isinstance(answer, Appended):
            raise CommandError(ErrorCode.INTERNAL, f"the store answered {type(answer).__name__}")
        return answer.position

    async def _topics(self, caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
        return {"topics": [{"topic": topic, "at": at} for topic, at in await self.broker.topics()]}


def decoded(data: msgspec.Raw) -> dict[str, Any]:
    """Decode what a client sent as data; 107 where it is no object or not what JSON allows."""
    try:
        return decode_event(bytes(data))
    except EventRefusedError as error:
        raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error
