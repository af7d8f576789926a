"""An actor's way to the broker: calls that wait until the world lets them go."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Broker,
    Busy,
    Deletion,
    Ended,
    Fenced,
    History,
    Link,
    Listener,
    Restore,
    Stale,
    Trimmed,
)
from gateway.types import START, Position, Topic
from tests.checker.actor import Actor

if TYPE_CHECKING:
    from tests.checker.world import World

__all__ = ["Call", "Road"]


@dataclass
class Call:
    """A call that waits until the world lets it go, and then until its answer is delivered."""

    actor: Actor
    topic: Topic
    name: str
    send: Callable[[], Awaitable[Any]]
    request: AppendRequest | None
    position: Position
    answer: asyncio.Future[Any]

    def told(self) -> str:
        """Give it in a line, for the world's story."""
        request = self.request
        if request is None:
            return f"{self.actor.name} {self.name} {self.position}"
        parts = [f"{self.actor.name} {self.name} {self.position} {request.writer[-20:]}#{request.seq[:8]}"]
        if request.lease is not None:
            parts.append("LEASE")
        if request.log is not None:
            parts.append(f"log {request.log.first}-{request.log.next}")
        parts.extend(f"{entry.kind}:{entry.type}" for entry in request.entries)
        return " ".join(parts)


class Road:
    """One actor's way to the broker, on which every call waits for the world."""

    def __init__(self, world: "World", actor: Actor, broker: Broker) -> None:
        self._world = world
        self._actor = actor
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def append(self, topic: Topic, request: AppendRequest, *, position: Position) -> AppendAnswer:
        answer: AppendAnswer = await self._ask(
            "append", topic, position, lambda: self._broker.append(topic, request, position=position), request
        )
        return answer

    async def read(self, topic: Topic, position: Position, *, limit: int = 1000, seen: bool = False) -> History:
        answer: History = await self._ask(
            "read", topic, position, lambda: self._broker.read(topic, position, limit=limit, seen=seen)
        )
        return answer

    async def trim(self, topic: Topic, snapshot: bytes, *, position: Position, size: int) -> Trimmed | Stale:
        answer: Trimmed | Stale = await self._ask(
            "trim", topic, position, lambda: self._broker.trim(topic, snapshot, position=position, size=size)
        )
        return answer

    async def renew(
        self, topic: Topic, *, run: str, token: str, lease: int, position: Position
    ) -> Appended | Restore | Ended | Fenced:
        answer: Appended | Restore | Ended | Fenced = await self._ask(
            "renew",
            topic,
            position,
            lambda: self._broker.renew(topic, run=run, token=token, lease=lease, position=position),
        )
        return answer

    async def declare_lost(self, topic: Topic, *, run: str, data: bytes, position: Position) -> Appended | Busy | None:
        async def send() -> Appended | Busy | None:
            answer = await self._broker.declare_lost(topic, run=run, data=data, position=position)
            if isinstance(answer, Appended):
                self._world.lost(topic, run, data, answer)
            return answer

        answer: Appended | Busy | None = await self._ask("declare_lost", topic, position, send)
        return answer

    async def delete(self, topic: Topic, *, epochs: str) -> Deletion | None:
        async def send() -> Deletion | None:
            # Known before anybody looks how the topic stands.
            self._world.judges[topic].deletions += 1
            return await self._broker.delete(topic, epochs=epochs)

        answer: Deletion | None = await self._ask("delete", topic, START, send)
        return answer

    async def set_due(self, topic: Topic, at: int | None) -> None:
        """Lose a hint, which may always happen (STORE.md 6); nobody sweeps here but when the world says so."""

    async def wake(self, topic: Topic) -> None:
        """Lose a hint."""

    def link(self, listener: Listener) -> Link:
        """Lose every wake-up: that costs a renewal at most (STORE.md 7)."""
        return _Silence()

    async def _ask(
        self,
        name: str,
        topic: Topic,
        position: Position,
        send: Callable[[], Awaitable[Any]],
        request: AppendRequest | None = None,
    ) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._world.waiting.append(Call(self._actor, topic, name, send, request, position, answer))
        return await answer


class _Silence:
    """A link that carries nothing."""

    up = True

    async def subscribe(self, channel: str) -> None:
        pass

    async def unsubscribe(self, channel: str) -> None:
        pass

    async def aclose(self) -> None:
        pass
