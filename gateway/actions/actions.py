"""What clients may put on a topic, and the methods of `rpc`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from gateway.actions.caller import Caller
from gateway.actions.cancellations import Cancellations
from gateway.actions.decisions import Decisions
from gateway.actions.fates import Fates
from gateway.actions.fields import topic_field
from gateway.actions.messages import WaitingMessages
from gateway.actions.store import ActionStore, encoded
from gateway.broker.port import Appended, AppendRequest, Broker, Entry
from gateway.codec import decode_event
from gateway.erasure import Erasure
from gateway.errors import CommandError, ErrorCode, EventRefusedError
from gateway.event_types import check_publishable
from gateway.prices import Price
from gateway.session import topic_of
from gateway.types import Position

__all__ = ["Actions", "Method"]

MAX_TOPICS = 1000
"""Topics that one answer lists."""

MAX_SEARCHED = 20_000
"""Topics, those written last, among which the caller's are looked for where most are not theirs."""

_OF_NO_TOPIC = frozenset({"prices", "topics"})

Method = Callable[[Caller, dict[str, Any]], Awaitable[dict[str, Any]]]


class Actions:
    """Turns what clients ask into appends; each returns after its event is on the topic."""

    def __init__(self, broker: Broker, *, prices: Mapping[str, Price] | None = None) -> None:
        """Make the methods over a broker; later ones are added to `methods`.

        Args:
            broker: The store.
            prices: What models cost, which everybody is told who asks; None for none.

        """
        self._prices = dict(prices or {})
        self.broker: Broker = broker
        self._store = ActionStore(broker)
        self._erasure = Erasure(broker)
        fates = Fates(self._store)
        messages = WaitingMessages(self._store, fates)
        self.methods: dict[str, Method] = {
            "cancel": Cancellations(self._store, messages, fates).cancel,
            "decide": Decisions(self._store, fates).decide,
            "delete": self._delete,
            "edit": messages.edit,
            "prices": self._told_prices,
            "send": messages.send,
            "topics": self._topics,
            "withdraw": messages.withdraw,
        }

    async def rpc(self, caller: Caller, method: str, data: msgspec.Raw) -> dict[str, Any]:
        """Run a method.

        Raises:
            CommandError: 104 no such method, 107 its data has another form, 102 no topic name, 103 the caller may not
                do that there, or what the method says.
            BrokerUnavailableError: The broker is away.

        """
        function = self.methods.get(method)
        if function is None:
            raise CommandError(ErrorCode.METHOD_NOT_FOUND, f"no method {method[:64]!r}")
        asked = decoded(data) if bytes(data) not in {b"", b"null"} else {}
        if method not in _OF_NO_TOPIC:
            caller.identity.require(method, topic_field(asked))
        return await function(caller, asked)

    async def publish(self, caller: Caller, channel: str, data: msgspec.Raw, *, count: int) -> Position:
        """Put a client's own event on a topic.

        Args:
            caller: Who publishes.
            channel: The topic's name.
            data: The event's JSON as it came.
            count: Which publication of this client it is: a try after a lost answer carries the same one.

        Raises:
            CommandError: 102 no topic name, 103 the caller may not publish there, or a type that only the gateway
                and runs write, 107 no valid event, 106 the topic is full.
            BrokerUnavailableError: The broker is away.

        """
        topic = topic_of(channel)
        caller.identity.require("publish", topic)
        event = decoded(data)
        check_publishable(event)
        kind = event.get("type")
        entry = Entry(kind="h", type=kind if isinstance(kind, str) else "", data=encoded(event))
        request = AppendRequest(writer=f"p/{caller.client}", seq=str(count), entries=(entry,))
        answer = await self._store.append(topic, request)
        if not isinstance(answer, Appended):
            raise CommandError(ErrorCode.INTERNAL, f"the store answered {type(answer).__name__}")
        return answer.position

    async def _delete(self, caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
        topic = topic_field(data)
        deletion = await self._erasure.erase(topic)
        return {"topic": topic, "deleted": bool(deletion.epoch), "epoch": deletion.epoch}

    async def _told_prices(self, caller: Caller, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"prices": msgspec.to_builtins(self._prices)}

    async def _topics(self, caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
        may = caller.identity.may
        newest = await self.broker.topics(limit=MAX_TOPICS)
        mine = [topic for topic in newest if may("topics", topic[0])]
        if len(mine) < len(newest) == MAX_TOPICS:
            searched = await self.broker.topics(limit=MAX_SEARCHED)
            mine = [topic for topic in searched if may("topics", topic[0])][:MAX_TOPICS]
        return {"topics": [{"topic": topic, "at": at} for topic, at in mine]}


def decoded(data: msgspec.Raw) -> dict[str, Any]:
    """Decode what a client sent as data; 107 where it is no object or not what JSON allows."""
    try:
        return decode_event(bytes(data))
    except EventRefusedError as error:
        raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error
