"""The broker and its link on a real cluster: slots that move, masters that die, in mid-stream."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.broker.cluster_link import ClusterLink
from gateway.broker.keys import SHARDS, slot_of
from gateway.broker.nodes import nodes_of
from gateway.broker.port import Appended, Broker, Restore
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.patience import Patience
from gateway.types import START, Position, Topic
from tests.broker.author import Author, act, event, stored
from tests.broker.test_link import Ears, back, until
from tests.clusters import RedisCluster, do

TOPICS = [Topic(f"chat:{number}") for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def broker(cluster: RedisCluster, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(cluster.url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def link(broker: RedisBroker) -> AsyncIterator[tuple[ClusterLink, Ears]]:
    ears = Ears()
    link = broker.link(ears)
    assert isinstance(link, ClusterLink)
    yield link, ears
    await link.aclose()


async def insist(author: Author, text: str) -> Appended:
    """Append until it is answered, with one seq; a run's history that went back is none here."""
    author.seq += 1
    answer = await Patience().call(lambda: author.add(event(text, kind="d", message="m1"), seq=author.seq))
    while isinstance(answer, Restore):
        author.position = answer.position
        answer = await Patience().call(lambda: author.add(event(text, kind="d", message="m1"), seq=author.seq))
    return stored(answer)


async def texts(broker: Broker, topic: Topic) -> list[str]:
    history = await Patience().call(lambda: broker.read(topic, START))
    assert [found.offset for found in history.events] == list(range(1, history.top + 1))
    return [found.data.decode()[9:-2] for found in history.events]


# Who has what


@pytest.mark.parametrize(
    ("key", "slot"), [("123456789", 12739), ("a{123456789}b", 12739), ("{}x", slot_of("{}x")), ("a{b", slot_of("a{b"))]
)
def test_slot_is_that_of_the_hash_tag(key: str, slot: int) -> None:
    assert slot_of(key) == slot


async def test_slots_are_those_that_the_cluster_tells(cluster: RedisCluster) -> None:
    nodes = nodes_of(cluster.url, timeout=5)
    for key in ("a", "b", "c", "{0}:due", "{1}:due"):
        assert (await nodes.of(key)).port == cluster.master_of(key).port
        assert slot_of(key) == do(cluster.servers[0].port, "CLUSTER", "KEYSLOT", key)
    await nodes.aclose()


async def test_one_of_a_cluster_is_no_server_alone_and_one_alone_is_no_cluster(
    cluster: RedisCluster, redis_url: str
) -> None:
    alone = RedisBroker(f"redis://127.0.0.1:{cluster.servers[0].port}")
    with pytest.raises(BrokerError, match=r"redis\+cluster://"):
        await alone.read(TOPICS[0], START)
    await alone.aclose()
    wrong = RedisBroker(redis_url.replace("redis://", "redis+cluster://"))
    with pytest.raises(BrokerError, match="is no cluster"):
        await wrong.read(TOPICS[0], START)
    await wrong.aclose()


async def test_a_cluster_that_is_away_is_unavailable() -> None:
    broker = RedisBroker("redis+cluster://user:secret@127.0.0.1:1,127.0.0.1:2", timeout=0.5)
    with pytest.raises(BrokerUnavailableError) as caught:
        await broker.read(TOPICS[0], START)
    assert "secret" not in str(caught.value)
    await broker.aclose()


# Calls


async def test_every_call_on_topics_of_every_server(broker: RedisBroker, cluster: RedisCluster) -> None:
    assert len({cluster.master_of(broker.channel(topic)).port for topic in TOPICS}) == 3
    for topic in TOPICS:
        author = Author(broker, topic)
        await author.start()
        await author.delta("a")
        await author.delta("b")
        await author.end_message("ab")
        assert [found.offset for found in (await broker.read(topic, START)).events] == [1, 4]
        stored(await broker.renew(topic, run=author.run, token=author.token, lease=1000, position=author.position))
        await broker.set_due(topic, 1)
        await broker.wake(topic)
        assert await broker.attendance.add(topic, ["me"], ttl=10) == 1
        await broker.attendance.announce(topic, b"x")
        await broker.store_blobs(topic, {"h": b"x"}, run=author.run, position=author.position)
        assert await broker.blobs(topic, ["h"]) == {"h": b"x"}
        assert (await broker.weigh(topic)).events > 0
        assert (await broker.standing(topic)).holder == author.run
        await broker.trim(topic, b"{}", position=author.position, size=10)
        stored(await author.end())
    assert {topic for topic, _ in await broker.topics()} == set(TOPICS)
    assert set(await broker.due(until=2)) == set(TOPICS)
    for topic in TOPICS:
        history = await broker.read(topic, START, limit=0)
        assert await broker.delete(topic, epochs=history.epoch) is not None
    assert await broker.topics() == []
    await broker.notices.post(b"a notice")
    assert [notice for _, notice in await broker.notices.after("", limit=10)] == [b"a notice"]


async def test_publications_are_sharded_where_the_servers_can(
    broker: RedisBroker, cluster: RedisCluster, link: tuple[ClusterLink, Ears]
) -> None:
    ears = link[1]
    for topic in TOPICS:
        await link[0].subscribe(broker.channel(topic))
    await asyncio.gather(*(link[0].subscribe(channel) for channel in broker.wake_channels()))
    assert len(broker.wake_channels()) == SHARDS
    sharded = b"redis_version:6" not in do(cluster.servers[0].port, "INFO", "server")
    for topic in TOPICS:
        author = Author(broker, topic)
        await author.start()
        channel = broker.channel(topic)
        await until(lambda channel=channel: any(name == channel for name, _ in ears.heard))  # type: ignore[misc]
        port = cluster.master_of(channel).port
        assert do(port, "PUBSUB", "SHARDNUMSUB" if sharded else "NUMSUB", channel)[1] == 1
        await broker.wake(topic)
        await until(lambda topic=topic: ears.heard[-1][1] == topic.encode())  # type: ignore[misc]
    assert ears.turns() == []


# Slots that move


async def test_a_slot_moves_in_mid_stream(
    broker: RedisBroker, cluster: RedisCluster, link: tuple[ClusterLink, Ears]
) -> None:
    topic, ears = TOPICS[0], link[1]
    channel = broker.channel(topic)
    await link[0].subscribe(channel)
    author = Author(broker, topic)
    await author.start()
    source = cluster.master_of(channel)
    target = cluster.other(source)
    first = (await broker.read(topic, START)).epoch
    writing, written = asyncio.Event(), 0

    async def write() -> None:
        nonlocal written
        while not writing.is_set() or written < 300:
            await insist(author, str(written))
            written += 1

    task = asyncio.create_task(write())
    await until(lambda: written > 20)

    def move() -> None:
        with cluster.moving(channel, target):
            pass

    await asyncio.to_thread(move)
    writing.set()
    await task
    assert cluster.master_of(channel) is target
    assert await texts(broker, topic) == ["start", *(str(number) for number in range(written))]
    # The new server says who it is; what was read before goes on there.
    history = await broker.read(topic, Position(epoch=first, offset=5))
    assert history.epoch != first
    assert history.complete
    await until(lambda: "missed" in ears.calls or "restored" in ears.calls)
    await broker.wake(topic)
    last = (await insist(author, "last")).position.offset
    await until(lambda: ears.heard[-1][1].split(b" ")[2:3] == [b"%d" % last])


async def test_asked_in_the_middle_of_a_move_the_other_server_answers(
    broker: RedisBroker, cluster: RedisCluster
) -> None:
    topic = Topic("moving")
    author = Author(broker, topic)
    await author.start()
    await author.delta("a")
    await author.delta("b")
    key = broker.channel(topic)
    target = cluster.other(cluster.master_of(key))
    with cluster.moving(key, target):
        stored(await author.delta("c"))
        cluster.move_keys(key, target)
        # The short way leads there at once; with the keys that are missing, the other scripts wait until it is over.
        answers = await asyncio.gather(author.delta("d"), return_exceptions=True)
        assert isinstance(answers[0], Appended | BrokerUnavailableError), answers
    author.seq -= 1
    await insist(author, "d")
    assert await texts(broker, topic) == ["start", "a", "b", "c", "d"]


# Masters that die


async def test_a_master_dies_in_mid_stream(tmp_path: Path, key_prefix: str) -> None:
    with RedisCluster(tmp_path) as cluster:
        broker = RedisBroker(cluster.url, key_prefix=key_prefix, timeout=1)
        ears = Ears()
        link = broker.link(ears)
        for topic in TOPICS:
            await link.subscribe(broker.channel(topic))
        authors = [Author(broker, topic) for topic in TOPICS]
        await asyncio.gather(*(author.start() for author in authors))
        dead = cluster.master_of(broker.channel(TOPICS[0]))
        well = next(author for author in authors if cluster.master_of(broker.channel(author.topic)) is not dead)
        await asyncio.gather(*(insist(author, "before") for author in authors))
        await until(lambda: do(dead.port, "WAIT", 1, 1000) >= 1)
        dead.kill()
        # The others go on meanwhile.
        async with asyncio.timeout(30):
            await insist(well, "meanwhile")
        await asyncio.gather(*(insist(author, "after") for author in authors))
        for author in authors:
            found = await texts(broker, author.topic)
            assert found == ["start", "before", *["meanwhile"] * (author is well), "after"]
        await back(ears)
        for author in authors:
            last = (await insist(author, "at last")).position
            payload = b"%s %d %d agent_delta" % (last.epoch.encode(), last.offset, last.offset)
            await until(lambda payload=payload: any(found.startswith(payload) for _, found in ears.heard))  # type: ignore[misc]
        await link.aclose()
        await broker.aclose()


# The link by itself


async def test_link_on_a_cluster_that_is_not_there_says_lost_and_lets_the_waiting_go() -> None:
    broker, ears = RedisBroker("redis+cluster://127.0.0.1:1", timeout=0.5), Ears()
    link = broker.link(ears)
    waiting = asyncio.create_task(link.subscribe("a"))
    await until(lambda: ears.turns() == ["lost"])
    assert not link.up
    await link.aclose()
    with pytest.raises(BrokerUnavailableError):
        await waiting
    with pytest.raises(BrokerUnavailableError):
        await link.subscribe("b")
    await broker.aclose()


async def test_unsubscribe_is_silence(broker: RedisBroker, link: tuple[ClusterLink, Ears]) -> None:
    channels = [broker.channel(topic) for topic in TOPICS]
    for channel in channels:
        await link[0].subscribe(channel)
        await link[0].unsubscribe(channel)
        await link[0].subscribe(channel)
        await link[0].unsubscribe(channel)
    await link[0].unsubscribe("never")
    await act(broker, TOPICS[0], "x")
    await link[0].subscribe(channels[1])
    await act(broker, TOPICS[1], "y")
    await until(lambda: link[1].heard)
    assert {name for name, _ in link[1].heard} == {channels[1]}
