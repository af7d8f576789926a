"""The list of a topic's readers, beside its history."""

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.types import START
from tests.broker.conftest import TOPIC
from tests.publishing import until


async def test_attendance_lists_who_attends(broker: RedisBroker) -> None:
    assert await broker.attendance.read(TOPIC, limit=10) == (0, [])
    assert await broker.attendance.add(TOPIC, ["c1 ann", "c2 "], ttl=60) == 2
    assert await broker.attendance.add(TOPIC, ["c1 ann", "c3 jürgen b"], ttl=60) == 3
    number, members = await broker.attendance.read(TOPIC, limit=10)
    assert (number, sorted(members)) == (3, ["c1 ann", "c2 ", "c3 jürgen b"])
    assert await broker.attendance.remove(TOPIC, ["c2 ", "c9 nobody"]) == 2
    number, members = await broker.attendance.read(TOPIC, limit=1)
    assert (number, len(members)) == (2, 1)


async def test_remove_of_many(broker: RedisBroker) -> None:
    members = [f"c{number} " for number in range(1200)]
    assert await broker.attendance.add(TOPIC, members, ttl=60) == 1200
    assert await broker.attendance.remove(TOPIC, members[1:]) == 1


async def test_who_is_not_renewed_is_gone(broker: RedisBroker, redis: Redis) -> None:
    await broker.attendance.add(TOPIC, ["dead "], ttl=0.05)

    async def gone() -> bool:
        return await broker.attendance.read(TOPIC, limit=10) == (0, [])

    await until(gone)
    assert await broker.attendance.add(TOPIC, ["c1 "], ttl=60) == 1
    assert 60_000 < await redis.pttl(broker.attendance.channel(TOPIC)) <= 120_000


async def test_attendance_is_no_part_of_the_history(broker: RedisBroker) -> None:
    await broker.attendance.add(TOPIC, ["c1 "], ttl=60)
    await broker.attendance.announce(TOPIC, b"x")
    history = await broker.read(TOPIC, START)
    assert (history.epoch, history.top) == ("", 0)
    assert await broker.topics() == []


async def test_announcement_is_heard(broker: RedisBroker) -> None:
    heard: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

    class Listener:
        def received(self, channel: str, payload: bytes) -> None:
            heard.put_nowait((channel, payload))

        def drained(self) -> None: ...

        def lost(self) -> None: ...

        def restored(self) -> None: ...

        def missed(self, channels: Sequence[str]) -> None: ...

    link = broker.link(Listener())
    await link.subscribe(broker.attendance.channel(TOPIC))
    await broker.attendance.announce(TOPIC, b"line 1\nline 2")
    async with asyncio.timeout(20):
        assert await heard.get() == (broker.attendance.channel(TOPIC), b"line 1\nline 2")
    await link.aclose()
