"""What the tests of runs and workers share: reading a topic, sending a message as a gateway does, waiting."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from gateway.broker.port import Appended, AppendRequest, Broker, Change, Condition, Entry
from gateway.codec import decode_event, encode_event, encode_json
from gateway.patience import Patience
from gateway.topic_state import read_topic
from gateway.types import START, Topic

__all__ = ["PATIENCE", "SlowBroker", "events", "mirror", "send", "until", "written_after_a_stop"]

PATIENCE = 20.0


async def events(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """Give what is stored of a topic, in order."""
    history = await broker.read(Topic(topic), START, limit=10_000)
    return [decode_event(stored.data) for stored in history.events]


async def mirror(broker: Broker, topic: str) -> dict[str, Any]:
    """Give the state of a topic's mirror, waiting for a broker that is away."""
    return (await Patience().call(lambda: read_topic(broker, Topic(topic)))).mirror.state()


async def send(broker: Broker, topic: str, message: str, content: Any, *, by: str = "ann", wake: bool = True) -> None:
    """Queue a person's message, as a gateway does (STORE.md 7)."""
    event = {"type": "message_queued", "at": broker.now(), "id": message, "content": content, "by": by}
    request = AppendRequest(
        writer=f"u/{by}/{message}",
        seq="1",
        entries=(Entry(kind="h", type="message_queued", data=encode_event(event)),),
        conditions=(Condition(field=f"m:{message}", op="!"),),
        changes=(Change(field=f"m:{message}", value=encode_json(content).decode()),),
    )
    await broker.set_due(Topic(topic), broker.now())
    assert isinstance(await broker.append(Topic(topic), request, position=START), Appended)
    if wake:
        await broker.wake(Topic(topic))


def written_after_a_stop(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give what runs have written after their own `agent_cancelled`, which is nothing."""
    cancelled: set[str] = set()
    late = []
    for event in history:
        if event.get("run") in cancelled:
            late.append(event)
        elif event["type"] == "agent_cancelled":
            cancelled.add(event["run"])
    return late


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for a condition; gives what it gave."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.02)


class SlowBroker:
    """The broker with a fault: its appends wait while they are held. It records them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._open = asyncio.Event()
        self._open.set()
        self.appends: list[AppendRequest] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def append(self, topic: Topic, request: AppendRequest, **position: Any) -> Any:
        self.appends.append(request)
        await self._open.wait()
        return await self._broker.append(topic, request, **position)
