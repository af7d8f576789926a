"""Runs that stream on many topics, and readers that must have exactly what was written, whatever happens meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.codec import decode_event
from gateway.context.messages import Message
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.types import START, Topic
from tests.e2e.processes import until
from tests.faults.comparison import check
from tests.faults.followers import Follower
from tests.faults.model import state_of
from tests.faults.tally import Tally
from tests.publishing import written_after_a_stop
from tests.serving import serve
from tests.vectors_reader import canonical

__all__ = ["PREFIX", "TOPICS", "Scene", "streaming"]

TOPICS = [f"run:{number}" for number in range(8)]
PREFIX = "scale"


class Talker:
    """One run on one topic that talks until it is stopped."""

    def __init__(self, publisher: Publisher, topic: str) -> None:
        self.topic = topic
        self.run = ""
        self.words = 0
        self._publisher = publisher
        self.task = asyncio.create_task(self._talk())

    async def _talk(self) -> None:
        async with self._publisher.run(self.topic, agent="talker") as run:
            self.run = run.id
            while True:
                said = ""
                for _ in range(20):
                    said += f"word {self.words} "
                    await run.delta(f"word {self.words} ")
                    self.words += 1
                    await asyncio.sleep(0.01)
                await run.add_message(Message.assistant(said))


class Scene:
    """Runs that stream, and their readers on two addresses of gateways."""

    def __init__(self, redis_url: str, addresses: tuple[str, str], publisher: Publisher) -> None:
        self.addresses = addresses
        self.broker = RedisBroker(redis_url, key_prefix=PREFIX)
        tally = Tally()
        self.followers = [
            Follower(address, topic, mirror=mirror, tally=tally)
            for topic in TOPICS
            for address in addresses
            for mirror in (True, False)
        ]
        for follower in self.followers:
            follower.start()
        self.talkers = [Talker(publisher, topic) for topic in TOPICS]

    async def heard_on(self) -> None:
        """Wait until every run has gone on, and every reader has heard of it."""
        said = [talker.words + 30 for talker in self.talkers]
        before = {follower: follower.position for follower in self.followers}

        async def on() -> bool:
            for follower in self.followers:
                assert follower.failure is None, follower.failure
            for talker in self.talkers:
                assert not talker.task.done() or talker.task.exception() is None, talker.task
            return all(talker.words >= least for talker, least in zip(self.talkers, said, strict=True)) and all(
                follower.position != before[follower] for follower in self.followers
            )

        await until(on, "runs to go on, and their readers to hear it")

    async def stop_and_compare(self) -> None:
        """Stop every run, asked by the one gateway or the other, and compare what there is with what readers have."""
        for number, talker in enumerate(self.talkers):
            async with Client(self.addresses[number % 2]) as client:
                assert (await client.cancel(talker.topic, run=talker.run))["status"] == "requested"
        async with asyncio.timeout(60):
            await asyncio.gather(*(talker.task for talker in self.talkers))
        for talker in self.talkers:
            own = [follower for follower in self.followers if follower.topic == talker.topic]
            await compare(self.broker, talker, own)


@contextlib.asynccontextmanager
async def streaming(redis_url: str, *addresses: str) -> AsyncIterator[Scene]:
    """Have runs stream, read over these two addresses; without any over two gateways of its own."""
    async with contextlib.AsyncExitStack() as stack:
        if not addresses:
            gateways = [await stack.enter_async_context(serve(redis_url, PREFIX, drain=0)) for _ in range(2)]
            addresses = tuple(gateway.http for gateway in gateways)
        publisher = await stack.enter_async_context(Publisher(redis_url, key_prefix=PREFIX, flush_interval=0.02))
        one, other = addresses
        scene = Scene(redis_url, (one, other), publisher)
        try:
            yield scene
        finally:
            for talker in scene.talkers:
                talker.task.cancel()
            await asyncio.wait([talker.task for talker in scene.talkers])
            for follower in scene.followers:
                await follower.leave()
            await scene.broker.aclose()


async def compare(broker: RedisBroker, talker: Talker, followers: list[Follower]) -> None:
    topic = talker.topic
    history = await Patience().call(lambda: broker.read(Topic(topic), START, limit=100_000))
    events = {stored.offset: decode_event(stored.data) for stored in history.events}
    assert history.floor == 0
    assert [event["type"] for event in events.values()].count("agent_cancelled") == 1
    assert not written_after_a_stop(events.values())

    async def there() -> bool:
        return all(follower.position.offset == history.top for follower in followers)

    await until(there, f"readers of {topic} at {history.top}")
    expected = canonical(state_of([*events.values()]))
    for follower in followers:
        assert follower.failure is None
        check(follower, events, expected)
    words = "".join(str(event.get("content", "")) for event in events.values() if event["type"] == "assistant_message")
    spoken = words.split("word ")[1:]
    assert [int(word) for word in spoken] == list(range(len(spoken)))
    assert talker.words <= len(spoken) <= talker.words + 1
