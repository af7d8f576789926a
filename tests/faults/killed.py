"""Processes of their own that are killed with signal 9 while others go on."""

import asyncio
import sys

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.errors import TopicBusyError
from gateway.publisher import Publisher
from tests.e2e.processes import ROOT, Gateway, Process
from tests.faults.store import Archive
from tests.started import remember

__all__ = ["Mortal", "hurried_gateway"]


def hurried_gateway(redis_url: str, key_prefix: str) -> Gateway:
    """Give `gateway serve` with short patiences, not started yet."""
    settings = {
        "key-prefix": key_prefix,
        "ping-interval": "0.4",
        "pong-timeout": "0.6",
        "audit-interval": "0.2",
        "linger": "0.3",
        "drain": "0",
    }
    return Gateway(redis_url, *(part for name, value in settings.items() for part in (f"--{name}", value)))


class Mortal:
    """An agent's process that writes until it is killed, and what it was told is stored.

    Args:
        redis_url: Of the store.
        key_prefix: Of the topics.
        topic: Its own.

    """

    def __init__(self, redis_url: str, key_prefix: str, topic: str) -> None:
        self.topic = topic
        self.written: list[str] = []
        self._arguments = (redis_url, key_prefix, topic)

    async def live(self, messages: int) -> None:
        """Start it, and kill it while it writes, as soon as it has told of so many messages."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.faults.mortal",
            *self._arguments,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        remember(process.pid)
        mortal = Process(process)
        while len(self.written) < messages:
            line = await mortal.line()
            assert line, await mortal.end()
            self.written.append(line.removesuffix("\n"))
        mortal.kill()
        _, rest, _ = await mortal.end()
        self.written += rest.splitlines()

    async def succeed(self, broker: RedisBroker) -> None:
        """Run on its topic as soon as the dead one has been declared lost."""
        async with Publisher(broker=broker, flush_interval=0) as publisher:
            while not await self._taken(publisher):
                await asyncio.sleep(0.05)

    async def _taken(self, publisher: Publisher) -> bool:
        try:
            async with publisher.run(self.topic, agent="heir") as run:
                await run.add_message(Message.assistant("the heir's words"))
        except TopicBusyError:
            return False
        return True

    async def verify(self, archive: Archive) -> None:
        """See that all that it was told is stored is there, in order, and that its run is lost.

        Raises:
            AssertionError: It is not.

        """
        _, state = await archive.state(self.topic)
        assert [run["status"] for run in state["runs"]] == ["lost", "completed"]
        contents = [event["data"]["content"] for event in state["context"]["events"]]
        # What was stored without the answer having come may be there, too.
        assert contents[: len(self.written)] == self.written
        assert contents[-1] == "the heir's words"
