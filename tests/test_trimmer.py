"""Histories within their bound: folded by whoever appends, exact for every reader, nothing destroyed."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.keys import Keys
from gateway.broker.port import AppendRequest, Bound, Entry, Trimmed
from gateway.broker.redis import RedisBroker
from gateway.codec import decode_event, encode_json
from gateway.context.messages import Message
from gateway.errors import ContextTooLargeError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.recovery import judge, publication
from gateway.session_log import entry_of
from gateway.topic_state import read_topic
from gateway.trimmer import MAX_FIELDS
from gateway.types import START, Position, Topic, new_id
from tests.publishing import until
from tests.serving import append

TOPIC = Topic("chat:1")


def bounded(url: str, prefix: str, **bounds: Any) -> RedisBroker:
    return RedisBroker(url, key_prefix=prefix, **{"max_history_bytes": 20_000, "max_history_events": 200, **bounds})


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = bounded(redis_url, key_prefix)
    yield broker
    await broker.aclose()


async def floor(broker: RedisBroker, topic: Topic = TOPIC) -> int:
    return (await broker.read(topic, START, limit=0)).floor


async def settled(broker: RedisBroker) -> None:
    """Wait until nobody looks any more."""
    await until(lambda: asyncio.sleep(0, not broker._trimmer._looking))


def line(number: int, size: int = 10) -> dict[str, Any]:
    return {"type": "log", "message": f"{number} " + "x" * size, "at": number}


# Which topics are folded


async def test_topic_that_nobody_reads_is_kept_within_its_bound(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in range(150):
            await run.delta(f"{number} " * 20)
            await run.add_message(Message.assistant(f"{number} " * 20))
            await run.log("info", "x" * 2000)
            await run.flush()
        await settled(broker)
        weight = await broker.weigh(TOPIC)
        # 300 kB of lines were written; 200 of them are the state's own bound.
        assert weight.recent < 20_000 + 2 * weight.snapshot
        assert await floor(broker) > 100
        state = await read_topic(broker, TOPIC)
        assert [message.text for message in state.context().entries] == [f"{n} " * 20 for n in range(150)]
        assert (state.seq, state.hash) == run._writer.recorder.mark()


async def test_many_small_events_are_folded_by_their_number(broker: RedisBroker) -> None:
    for number in range(300):
        await append(broker, TOPIC, {"type": "progress", "n": number})
    await settled(broker)
    assert await floor(broker) > 200
    assert (await broker.weigh(TOPIC)).events <= 200


async def test_many_writers_of_little_are_noticed_together(redis_url: str, key_prefix: str) -> None:
    """None of them writes enough to look by itself; the first look of each finds what the others wrote."""
    for number in range(40):
        broker = bounded(redis_url, key_prefix)
        await append(broker, TOPIC, line(number, 1500))
        await settled(broker)
        await broker.aclose()
    reader = bounded(redis_url, key_prefix)
    assert (await reader.weigh(TOPIC)).recent < 45_000
    assert await floor(reader) > 0
    await reader.aclose()


async def test_fields_of_long_past_actions_are_dropped(redis: Redis, key_prefix: str, broker: RedisBroker) -> None:
    key = Keys(key_prefix).of(TOPIC)[0]
    for number in range(3 * MAX_FIELDS):
        await append(broker, TOPIC, {"type": "progress", "n": number})
        if number % 100 == 0:
            await settled(broker)
    await settled(broker)
    assert await redis.hlen(key) < 2 * MAX_FIELDS


async def test_small_topic_is_left_alone(broker: RedisBroker) -> None:
    for number in range(50):
        await append(broker, TOPIC, line(number))
    await settled(broker)
    assert await floor(broker) == 0


async def test_large_snapshot_is_not_written_again_for_every_bound_of_events(broker: RedisBroker) -> None:
    """What is folded has at least the size of the snapshot that it makes anew."""
    trims: list[int] = []
    trim = broker.trim

    async def counted(topic: Topic, snapshot: bytes, **place: Any) -> Any:
        trims.append(len(snapshot))
        return await trim(topic, snapshot, **place)

    broker.trim = counted  # type: ignore[method-assign]
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        written = 0
        for number in range(150):
            await run.add_message(Message.user(f"{number}" * 1000))
            await run.flush()
            await settled(broker)
            written += 1000 * len(str(number))
    assert 2 < len(trims) < 10
    assert sum(trims) < 4 * written


# The hard bound


async def test_full_topic_makes_room_by_itself(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=200_000)
    for number in range(300):
        await append(broker, TOPIC, {"type": "progress", "text": "x" * 2000, "n": number})
    assert (await broker.read(TOPIC, START, limit=0)).top == 300
    assert (await broker.weigh(TOPIC)).size <= 200_000
    await broker.aclose()


async def test_topic_full_of_its_own_state_is_full(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=100_000)
    async with Publisher(broker=broker) as publisher:

        async def agent() -> None:
            async with publisher.run(TOPIC, agent="a") as run:
                for number in range(100):
                    await run.add_message(Message.user(f"{number} " * 1000))
                    await run.flush()

        with pytest.raises(ContextTooLargeError):
            await agent()
        before = await read_topic(broker, TOPIC)
        assert before.mirror.runs[0]["status"] == "failed"
        with pytest.raises(ContextTooLargeError):
            await publisher.publish(TOPIC, {"text": "x" * 3000})
        after = await read_topic(broker, TOPIC)
    assert (after.position, after.mirror.state()) == (before.position, before.mirror.state())
    await broker.aclose()


async def test_archive_counts_for_the_bound(redis_url: str, key_prefix: str) -> None:
    """What is shadowed is not destroyed, so a topic can be full of it."""
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=100_000, max_history_bytes=10_000)
    async with Publisher(broker=broker) as publisher:

        async def agent() -> None:
            async with publisher.run(TOPIC, agent="a") as run:
                for number in range(100):
                    await run.add_message(Message.user(f"{number} " * 1000))
                    await run.change_context(lambda context: context.clear())
                    await run.flush()

        with pytest.raises(ContextTooLargeError):
            await agent()
        weight = await broker.weigh(TOPIC)
        assert weight.archive > 50_000
        assert weight.size <= 105_000  # a run's end is always taken
    await broker.aclose()


@pytest.mark.parametrize("kind", ["log", "progress"])
async def test_refused_appends_fold_a_full_topic_once(redis_url: str, key_prefix: str, kind: str) -> None:
    """Whether that frees anything, as for what no mirror keeps, or not, as for what is in the state itself."""
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=50_000)
    for number in range(30):
        await append(broker, TOPIC, {"type": kind, "message": "x" * 1000, "n": number})
    big = {"type": "note", "text": "x" * 60_000}
    assert isinstance(await _try(broker, big), Bound)
    assert await floor(broker) == (30 if kind == "progress" else 0)
    reads = 0
    read = broker.read

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(*arguments, **options)

    broker.read = counted  # type: ignore[method-assign]
    for _ in range(10):
        assert isinstance(await _try(broker, big), Bound)
    assert reads == 0
    await broker.aclose()


async def _try(broker: RedisBroker, event: dict[str, Any]) -> Any:
    entry = Entry(kind="h", type=event["type"], data=encode_json(event))
    return await broker.append(TOPIC, AppendRequest(writer=new_id(), seq="1", entries=[entry]), position=START)


# What was shadowed


async def test_shadowed_events_are_archived_before_they_are_trimmed(broker: RedisBroker) -> None:
    logged: dict[int, dict[str, Any]] = {}
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in range(120):
            await run.log_event("turn_start", {"turn": number})
            await run.add_message(Message.user(f"question {number} " * 30))
            if number % 10 == 9:
                await run.change_context(lambda context: context.clear())
            await run.log_event("turn_end")
            await run.flush()
            await settled(broker)
        count = run.context.log.next_seq
        whole = {event.seq: event.to_dict() for event in run.context.log.events()}
    history = await broker.read(TOPIC, START)
    assert history.floor > 100
    assert history.snapshot is not None
    for entry in Mirror.restore(decode_event(history.snapshot)).context["events"]:
        logged[entry["seq"]] = entry
    for stored in history.events:
        entry = entry_of(decode_event(stored.data))
        if entry is not None:
            logged[entry["seq"]] = entry
    for data in (await broker.archived(TOPIC, range(count))).values():
        archived = entry_of(decode_event(data))
        assert archived is not None
        logged[archived["seq"]] = archived
    assert sorted(logged) == list(range(count))
    for seq, entry in logged.items():
        assert {name: entry[name] for name in ("seq", "type", "time", "data")} == whole[seq]


async def test_archive_of_another_history_is_refused(broker: RedisBroker) -> None:
    position = await append(broker, TOPIC, line(1))
    stale = await broker.archive(TOPIC, {0: b"{}"}, position=Position(epoch="another0", offset=1))
    assert not isinstance(stale, int)
    assert await broker.archived(TOPIC, [0]) == {}
    assert await broker.archive(TOPIC, {0: b'{"a":1}', 1: b"{}"}, position=position) == 9
    assert await broker.archive(TOPIC, {0: b'{"another":1}', 2: b"{}"}, position=position) == 11
    assert await broker.archived(TOPIC, [0, 2, 5]) == {0: b'{"a":1}', 2: b"{}"}


async def test_archive_of_nothing_creates_nothing(broker: RedisBroker, redis: Redis, key_prefix: str) -> None:
    assert not isinstance(await broker.archive(TOPIC, {0: b"{}"}, position=START), int)
    assert await redis.exists(*Keys(key_prefix).of(TOPIC)) == 0


async def test_archive_has_the_topics_deadline(redis_url: str, key_prefix: str, redis: Redis) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    position = await append(broker, TOPIC, line(1))
    await broker.archive(TOPIC, {0: b"{}"}, position=position)
    assert 0 < await redis.ttl(Keys(key_prefix).of(TOPIC)[4]) <= 1000
    await broker.aclose()


async def test_archive_of_a_lost_history_goes_with_it(broker: RedisBroker, redis: Redis, key_prefix: str) -> None:
    position = await append(broker, TOPIC, line(1))
    await broker.archive(TOPIC, {0: b"{}"}, position=position)
    await redis.delete(Keys(key_prefix).of(TOPIC)[1])
    await broker.read(TOPIC, START)
    assert await broker.archived(TOPIC, [0]) == {}


# Everybody at once


class Follower:
    """Reads on from where it is, now often, now seldom; from a snapshot where it was too slow."""

    def __init__(self, broker: RedisBroker, random_: random.Random) -> None:
        self._broker = broker
        self._random = random_
        self.mirror = Mirror(TOPIC)
        self.snapshots = 0

    async def read(self, *, limit: int) -> int:
        asked = self.mirror.position
        history = await self._broker.read(TOPIC, asked, limit=limit)
        missed = judge(asked, history)
        if missed is None:
            self.snapshots += 1
            self.mirror = (await read_topic(self._broker, TOPIC)).mirror
            return history.top
        if not self.mirror.epoch:
            self.mirror.resume(history.epoch)
        for event in missed:
            assert self.mirror.apply(publication(event, decode_event(event.data))) == "applied"
        return history.top

    async def follow(self, done: asyncio.Event) -> None:
        while not done.is_set():
            await self.read(limit=self._random.choice([1, 20, 300]))
            await asyncio.sleep(self._random.choice([0, 0, 0.01, 0.1]))
        while self.mirror.offset < await self.read(limit=300):
            pass


async def _force(broker: RedisBroker, random_: random.Random, trims: list[bool], done: asyncio.Event) -> None:
    """Fold whenever it likes, sometimes from a state that is old by the time it is stored; notes whether it could."""
    while not done.is_set():
        state = await read_topic(broker, TOPIC)
        await asyncio.sleep(random_.choice([0, 0.005, 0.05]))
        snapshot = encode_json(state.mirror.snapshot())
        answer = await broker.trim(TOPIC, snapshot, position=state.position, size=state.size)
        trims.append(isinstance(answer, Trimmed))


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_readers_stay_exact_while_folders_race(redis_url: str, key_prefix: str, seed: int) -> None:
    random_ = random.Random(seed)
    broker = bounded(redis_url, key_prefix, max_history_events=60)
    others = [bounded(redis_url, key_prefix) for _ in range(3)]
    done = asyncio.Event()
    followers = [Follower(other, random.Random(seed * 10 + n)) for n, other in enumerate(others)]
    following = [asyncio.create_task(follower.follow(done)) for follower in followers]
    trims: list[bool] = []
    forcing = [
        asyncio.create_task(_force(other, random.Random(seed + n), trims, done)) for n, other in enumerate(others)
    ]
    expected = Follower(broker, random_)
    async with Publisher(broker=broker, flush_interval=0.001) as publisher:
        for count in range(3):
            async with publisher.run(TOPIC, agent="a") as run:
                number = 0
                while number < 60 or sum(trims) < 5 * count:
                    number += 1
                    for _ in range(random_.randrange(6)):
                        await run.delta(f"{number} ")
                    if random_.random() < 0.4:
                        await run.add_message(Message.assistant(f"answer {number}"))
                    if random_.random() < 0.05:
                        await run.change_context(lambda context: context.clear())
                    await append(broker, TOPIC, {"type": "message_queued", "id": f"q{count}/{number}"})
                    if random_.random() < 0.3:
                        await run.flush()
    done.set()
    await asyncio.gather(*following)
    await asyncio.gather(*forcing)
    await expected.read(limit=0)
    for follower in followers:
        assert follower.mirror.offset == expected.mirror.offset
        assert follower.mirror.state() == expected.mirror.state()
    assert await floor(broker) > 0
    assert sum(follower.snapshots for follower in followers) > 0
    runs = expected.mirror.runs
    assert [run["status"] for run in runs] == ["completed"] * 3
    for each in (broker, *others):
        await each.aclose()
