"""A pub/sub of one process that records what passes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class MemoryPubSub:
    def __init__(self) -> None:
        self.published: list[tuple[str, Any]] = []
        self.listeners: dict[str, list[asyncio.Queue[Any]]] = {}

    async def publish(self, topic: Any, message: Any) -> None:
        self.published.append((topic, message))
        for queue in self.listeners.get(topic, []):
            queue.put_nowait(message)

    @asynccontextmanager
    async def subscribe(self, topic: Any) -> AsyncIterator[Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self.listeners.setdefault(topic, []).append(queue)
        try:
            yield self._messages(queue)
        finally:
            self.listeners[topic].remove(queue)

    async def _messages(self, queue: Any) -> AsyncIterator[Any]:
        while True:
            message = await queue.get()
            if message is None:
                return
            yield message

    def end(self, topic: Any) -> None:
        """End every subscription of a topic, as a lost link does."""
        for queue in self.listeners[topic]:
            queue.put_nowait(None)


class DownPubSub:
    async def publish(self, topic: Any, message: Any) -> None:
        raise ConnectionError("down")

    @asynccontextmanager
    async def subscribe(self, topic: Any) -> AsyncIterator[Any]:
        yield None
