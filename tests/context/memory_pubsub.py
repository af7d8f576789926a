"""A pub/sub of one process that records what passes."""

import asyncio
from contextlib import asynccontextmanager


class MemoryPubSub:
    def __init__(self):
        self.published = []
        self.listeners = {}

    async def publish(self, topic, message):
        self.published.append((topic, message))
        for queue in self.listeners.get(topic, []):
            queue.put_nowait(message)

    @asynccontextmanager
    async def subscribe(self, topic):
        queue = asyncio.Queue()
        self.listeners.setdefault(topic, []).append(queue)
        try:
            yield self._messages(queue)
        finally:
            self.listeners[topic].remove(queue)

    async def _messages(self, queue):
        while True:
            message = await queue.get()
            if message is None:
                return
            yield message

    def end(self, topic):
        """End every subscription of a topic, as a lost link does."""
        for queue in self.listeners[topic]:
            queue.put_nowait(None)


class DownPubSub:
    async def publish(self, topic, message):
        raise ConnectionError("down")

    @asynccontextmanager
    async def subscribe(self, topic):
        yield None
