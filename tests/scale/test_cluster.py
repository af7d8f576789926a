"""Gateways on a real cluster whose slots move and whose masters die while runs stream.

``GATEWAY_SCALE_ROUNDS`` is how often that happens (`make test-scale`).
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.codec import decode_event
from gateway.context.messages import Message
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.types import START, Topic
from tests.clusters import RedisCluster, do
from tests.e2e.processes import until
from tests.faults.comparison import check
from tests.faults.followers import Follower
from tests.faults.model import state_of
from tests.faults.tally import Tally
from tests.publishing import written_after_a_stop
from tests.servers import RedisServer
from tests.serving import Gateway, serve
from tests.vectors_reader import canonical

ROUNDS = int(os.environ.get("GATEWAY_SCALE_ROUNDS", "1"))
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
    """Runs that stream over a cluster, and their readers on two gateways."""

    def __init__(self, cluster: RedisCluster, gateways: tuple[Gateway, Gateway], publisher: Publisher) -> None:
        self.cluster = cluster
        self.gateways = gateways
        self.broker = RedisBroker(cluster.url, key_prefix=PREFIX)
        tally = Tally()
        self.followers = [
            Follower(gateway.http, topic, mirror=mirror, tally=tally)
            for topic in TOPICS
            for gateway in gateways
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
            async with Client(self.gateways[number % 2].http) as client:
                assert (await client.cancel(talker.topic, run=talker.run))["status"] == "requested"
        async with asyncio.timeout(60):
            await asyncio.gather(*(talker.task for talker in self.talkers))
        for talker in self.talkers:
            own = [follower for follower in self.followers if follower.topic == talker.topic]
            await compare(self.broker, talker, own)


@contextlib.asynccontextmanager
async def streaming(cluster: RedisCluster) -> AsyncIterator[Scene]:
    async with (
        serve(cluster.url, PREFIX, drain=0) as one,
        serve(cluster.url, PREFIX, drain=0) as other,
        Publisher(cluster.url, key_prefix=PREFIX, flush_interval=0.02) as publisher,
    ):
        scene = Scene(cluster, (one, other), publisher)
        try:
            yield scene
        finally:
            for talker in scene.talkers:
                talker.task.cancel()
            await asyncio.wait([talker.task for talker in scene.talkers])
            for follower in scene.followers:
                await follower.leave()
            await scene.broker.aclose()


async def test_94_and_57_readers_are_exact_after_a_slot_moved_and_a_master_died(tmp_path: Path) -> None:
    """Reports 94 (subscriptions survive a moved slot and a lost shard) and 57 (stop reaches the run's own node)."""
    with RedisCluster(tmp_path) as cluster:
        async with streaming(cluster) as scene:
            for number in range(ROUNDS):
                await scene.heard_on()
                key = scene.broker.channel(Topic(TOPICS[number % len(TOPICS)]))
                target = cluster.other(cluster.master_of(key))
                await asyncio.to_thread(move, cluster, key, target.port)
                await scene.heard_on()
                dead = cluster.master_of(key)
                dead.kill()
                await asyncio.to_thread(cluster.failed_over, key, dead)
                await scene.heard_on()
                await asyncio.to_thread(dead.start)
                await asyncio.to_thread(cluster.settle)
            await scene.stop_and_compare()


async def test_readers_are_exact_after_a_replica_took_over_that_lacked_acknowledged_events(tmp_path: Path) -> None:
    with RedisCluster(tmp_path) as cluster:
        async with streaming(cluster) as scene:
            for number in range(ROUNDS):
                await scene.heard_on()
                topic = Topic(TOPICS[number % len(TOPICS)])
                key = scene.broker.channel(topic)
                dead = cluster.master_of(key)
                await asyncio.to_thread(cut_off, cluster, dead)
                await scene.heard_on()
                lost = await Patience().call(partial(scene.broker.read, topic, START, limit=0))
                dead.kill()
                await asyncio.to_thread(cluster.failed_over, key, dead)
                await scene.heard_on()
                lineage = do(cluster.master_of(key).port, "HGET", key, "lineage").decode()
                shared = dict(epoch.split(":") for epoch in lineage.split(","))
                assert int(shared[lost.epoch]) < lost.top
                await asyncio.to_thread(dead.start)
                await asyncio.to_thread(cluster.settle)
            await scene.stop_and_compare()


def cut_off(cluster: RedisCluster, master: RedisServer) -> None:
    """Let a master's replica hear no more of it, and take its place all the same when it dies."""
    for server in cluster.servers:
        do(server.port, "CONFIG", "SET", "cluster-replica-validity-factor", 0)
    do(master.port, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    do(master.port, "CLIENT", "KILL", "TYPE", "replica")


def move(cluster: RedisCluster, key: str, port: int) -> None:
    with cluster.moving(key, next(server for server in cluster.servers if server.port == port)):
        pass


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
