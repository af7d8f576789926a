"""The one road of people's actions into the store: one conditional append each, repeated until it is answered."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gateway.actions.caller import Caller
from gateway.broker.port import (
    Appended,
    AppendRequest,
    Bound,
    Broker,
    Change,
    Condition,
    Entry,
    History,
    Restore,
    Unmet,
)
from gateway.codec import encode_event, encode_json
from gateway.errors import BrokerUnavailableError, CommandError, ErrorCode, EventRefusedError
from gateway.types import START, Position, Topic

__all__ = ["Action", "ActionStore", "Earlier", "encoded", "placed"]

RETRY = 0.1
"""Seconds between two tries while the broker is away; the command's timeout ends them."""

_Answer = TypeVar("_Answer")


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person does, by which a repetition of it is known.

    An action that can come to one of several ends has a mark for each: the body's, a slash and the outcome. So a
    repetition finds which of them its first try came to.

    Attributes:
        topic: Where.
        by: Who, as events name the user.
        id: The client's own id of it.
        writer: Its writer (STORE.md 1).
        body: SHA-256 of what it asks; another body under one id is a conflict.

    """

    topic: Topic
    by: str
    id: str
    writer: str
    body: str

    @classmethod
    def of(cls, caller: Caller, method: str, topic: Topic, client_id: str, *asked: object) -> "Action":
        """Make one of what was asked, in a fixed order."""
        body = hashlib.sha256(encode_json([method, *asked])).hexdigest()
        return cls(topic=topic, by=caller.name, id=client_id, writer=caller.writer(client_id), body=body)

    def mark(self, outcome: str) -> str:
        """Give the append seq of one of its outcomes."""
        return f"{self.body}/{outcome}" if outcome else self.body


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier try of the same action came to another outcome, with its event at this position."""

    outcome: str
    position: Position


class ActionStore:
    """Appends for people; while the broker is away it tries again, which the command's timeout ends."""

    def __init__(self, broker: Broker) -> None:
        """Make it over a broker, which stays the caller's to close."""
        self.broker: Broker = broker

    async def act(
        self,
        action: Action,
        event: Mapping[str, Any],
        *,
        outcome: str = "",
        conditions: Sequence[Condition] = (),
        changes: Sequence[Change] = (),
    ) -> Appended | Unmet | Earlier:
        """Write an action's event, once however often it is tried.

        Args:
            action: The action.
            event: Its event, without ``at`` and ``by``.
            outcome: Which of the action's outcomes this is; "" where it has one.
            conditions: On what the action is about.
            changes: Made with the event.

        Raises:
            CommandError: 409, the id was used for something else; 106, the topic is full.

        """
        data = encoded({**event, "at": self.broker.now()} | ({} if "by" in event else {"by": action.by}))
        own = f"w:{action.writer}"
        answer = await self.append(
            action.topic,
            AppendRequest(
                writer=action.writer,
                seq=action.mark(outcome),
                entries=(Entry(kind="h", type=event["type"], data=data),),
                conditions=(Condition(field=own, op="!"), *conditions),
                changes=changes,
            ),
        )
        if isinstance(answer, Appended) or answer.field != own:
            return answer
        mark, epoch, _first, last = answer.value.split(" ")
        body, _, earlier = mark.partition("/")
        if body != action.body:
            raise CommandError(ErrorCode.CONFLICT, f"id {action.id!r} was used for another action on {action.topic}")
        return Earlier(outcome=earlier, position=Position(epoch=epoch, offset=int(last)))

    async def append(self, topic: Topic, request: AppendRequest) -> Appended | Unmet:
        """Append outside any run: the same append is stored once.

        Raises:
            CommandError: 106, the topic is full.

        """
        while True:
            answer = await self._insist(lambda: self.broker.append(topic, request, position=START))
            match answer:
                case Appended() | Unmet():
                    return answer
                case Restore():
                    continue  # nothing was stored, and a new epoch is open now
                case Bound():
                    raise CommandError(ErrorCode.LIMIT_EXCEEDED, f"the topic is full: it holds {answer.size} bytes")
                case _:
                    raise CommandError(ErrorCode.INTERNAL, f"the store answered {type(answer).__name__}")

    async def read(self, topic: Topic, position: Position, *, limit: int) -> History:
        """Read what lies above a position."""
        return await self._insist(lambda: self.broker.read(topic, position, limit=limit))

    async def written(self, topic: Topic) -> bool:
        """Say whether anybody ever wrote a topic: an append that is refused would leave it among the topics."""
        return bool((await self.read(topic, START, limit=0)).epoch)

    async def _insist(self, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        while True:
            try:
                return await call()
            except BrokerUnavailableError:
                await asyncio.sleep(RETRY)


def encoded(event: Mapping[str, Any]) -> bytes:
    """Encode an event by the entry rules; 107 where it breaks them."""
    try:
        return encode_event(event)
    except EventRefusedError as error:
        raise CommandError(ErrorCode.BAD_REQUEST, str(error)) from error


def placed(position: Position | None) -> dict[str, Any]:
    """Give where an action's event stands, as answers have it."""
    return {} if position is None else {"epoch": position.epoch, "offset": position.offset}
