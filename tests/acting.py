"""What the tests of people's actions share: a person, and a run whose every step the test takes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.actions import Actions, Caller
from gateway.approval_state import ApprovalState, approval_field
from gateway.broker.port import AppendRequest, Broker, Change, Condition, Entry
from gateway.codec import encode_event, encode_json
from gateway.grants import EVERYTHING
from gateway.topic_state import read_topic
from gateway.types import START, EntryKind, Position, Topic

__all__ = ["Actor", "Interleaved", "Person", "trim"]


class Person:
    """Somebody who acts on one topic."""

    def __init__(self, broker: Any, topic: str, *, user: str = "ann") -> None:
        self.actions = Actions(broker)
        self.topic = topic
        self.caller = Caller(client=f"client-of-{user}", identity=msgspec.structs.replace(EVERYTHING, user=user))

    async def do(self, method: str, *, id: str = "1", **data: Any) -> dict[str, Any]:
        """Call a method; None leaves a field out."""
        body = {"topic": self.topic, "id": id, **data}
        encoded = msgspec.json.encode({name: value for name, value in body.items() if value is not None})
        return await self.actions.rpc(self.caller, method, msgspec.Raw(encoded))


class Actor:
    """A run, step by step; it dies when the test takes no more of them."""

    def __init__(self, broker: Broker, topic: str, *, run: str = "r1") -> None:
        self._broker = broker
        self._topic = Topic(topic)
        self.run = run
        self._appends = 0

    async def start(self, *, lease: int = 60_000, taken: Mapping[str, Any] | None = None) -> Any:
        """Take the topic, and a message of the mirror's queue; gives the store's answer."""
        events: list[dict[str, Any]] = [{"type": "agent_start", "agent": "a"}]
        if taken is None:
            return await self.append(*events, lease=lease)
        field, stored = f"m:{taken['id']}", encode_json(taken["content"]).decode()
        return await self.append(
            *events,
            {"type": "message_taken", "id": taken["id"]},
            lease=lease,
            conditions=(Condition(field=field, op="=", value=stored),),
            changes=(Change(field=field, value=""),),
        )

    async def ask(self, call: str, *, deadline: int = 0) -> Any:
        """Ask whether a tool call may go on."""
        state = ApprovalState(deadline=deadline)
        return await self.append(
            {
                "type": "approval_required",
                "tool_call_id": call,
                "name": "rm",
                "arguments": "{}",
                "expires_at": deadline,
            },
            changes=(Change(field=approval_field(self.run, call), value=state.text),),
        )

    async def end(self, type: str = "agent_complete", **fields: Any) -> Any:
        """Write the run's one end."""
        return await self.append({"type": type, **fields}, kind="x")

    async def append(
        self,
        *events: dict[str, Any],
        kind: EntryKind = "h",
        lease: int | None = None,
        conditions: Sequence[Condition] = (),
        changes: Sequence[Change] = (),
    ) -> Any:
        self._appends += 1
        at = self._broker.now()
        request = AppendRequest(
            writer=self.run,
            seq=str(self._appends),
            run=self.run,
            token=f"token-{self.run}",
            lease=lease,
            entries=[
                Entry(kind=kind, type=event["type"], data=encode_event({**event, "run": self.run, "at": at}))
                for event in events
            ],
            conditions=conditions,
            changes=changes,
        )
        position = START
        if lease is not None:
            # Who takes a topic has read it up to the last run's end.
            history = await self._broker.read(self._topic, START, limit=0)
            position = Position(epoch=history.epoch, offset=history.top)
        return await self._broker.append(self._topic, request, position=position)


async def trim(broker: Broker, topic: str) -> None:
    """Raise the topic's floor to its top; what the state keeps for what ended is dropped by the next one."""
    name = Topic(topic)
    mirror = (await read_topic(broker, name)).mirror
    size = (await broker.read(name, START, limit=0)).size
    await broker.trim(name, encode_json(mirror.snapshot()), position=mirror.position, size=size)


class Interleaved:
    """The broker, with somebody else's step put before the n-th of its calls.

    Every call is one atomic script, so n = 0, 1, 2, … are all the ways in which the two can meet.
    """

    def __init__(self, broker: Broker, step: Callable[[], Awaitable[Any]], *, before: int) -> None:
        self._broker = broker
        self._step = step
        self._left = before
        self.answer: Any = None
        """What the step gave; None before it was made."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def append(self, *arguments: Any, **options: Any) -> Any:
        await self._count()
        return await self._broker.append(*arguments, **options)

    async def read(self, *arguments: Any, **options: Any) -> Any:
        await self._count()
        return await self._broker.read(*arguments, **options)

    async def _count(self) -> None:
        if self._left == 0:
            self.answer = await self._step()
        self._left -= 1
