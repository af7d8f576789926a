"""The link on real servers whose connections break in every way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker import link as module
from gateway.broker.link import RedisLink
from gateway.broker.port import Link, Listener
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.types import START, Position
from tests.broker.author import act
from tests.broker.conftest import TOPIC
from tests.servers import RedisServer, attempts, free_port


class Ears:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.calls: list[str] = []

    def received(self, channel: str, payload: bytes) -> None:
        self.heard.append((channel, payload))
        self.calls.append("received")

    def drained(self) -> None:
        self.calls.append("drained")

    def lost(self) -> None:
        self.calls.append("lost")

    def restored(self) -> None:
        self.calls.append("restored")

    def missed(self, channels: Sequence[str]) -> None:
        self.calls.append("missed")

    def turns(self) -> list[str]:
        return [call for call in self.calls if call in {"lost", "restored"}]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


async def heard(ears: Ears, channel: str, payload: bytes) -> None:
    await until(lambda: ears.heard[-1:] == [(channel, payload)])


async def turned(ears: Ears, turns: list[str]) -> None:
    await until(lambda: ears.turns() == turns)


async def back(ears: Ears) -> None:
    """Wait until what was lost is heard again; a server in transition, or a starved one, may be lost more than once."""
    await until(lambda: ears.turns()[-1:] == ["restored"])
    turns = ears.turns()
    assert turns == ["lost", "restored"] * (len(turns) // 2)


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest_asyncio.fixture
async def link(redis_url: str, ears: Ears) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url, ears)
    yield link
    await link.aclose()


@pytest.fixture
def channel(key_prefix: str) -> str:
    return f"{key_prefix}:{{chat:1}}"


def test_link_implements_the_port() -> None:
    link: type[Link] = RedisLink
    listener: type[Listener] = Ears
    assert link
    assert listener


# subscribe, unsubscribe


async def test_subscribe_returns_when_the_server_has_said_so(
    link: RedisLink, ears: Ears, redis: Redis, channel: str
) -> None:
    await link.subscribe(channel)
    assert link.up
    assert await redis.publish(channel, b"a\x00\xff\r\nb") == 1
    await until(lambda: ears.heard)
    assert ears.heard == [(channel, b"a\x00\xff\r\nb")]
    assert ears.turns() == []


async def test_subscribe_of_many_at_once(link: RedisLink, ears: Ears, redis: Redis, channel: str) -> None:
    names = [f"{channel}:{number}" for number in range(1200)]
    await asyncio.gather(*(link.subscribe(name) for name in names))
    for name in names:
        await redis.publish(name, name)
    await until(lambda: len(ears.heard) == len(names))
    assert ears.heard == [(name, name.encode()) for name in names]


async def test_subscribe_twice_is_once(link: RedisLink, ears: Ears, redis: Redis, channel: str) -> None:
    await asyncio.gather(link.subscribe(channel), link.subscribe(channel))
    await link.subscribe(channel)
    assert await redis.publish(channel, "a") == 1
    await until(lambda: ears.heard)
    assert len(ears.heard) == 1


async def test_unsubscribe_is_silence_at_once(link: RedisLink, ears: Ears, redis: Redis, channel: str) -> None:
    other = f"{channel}:other"
    await link.subscribe(channel)
    await link.subscribe(other)
    await redis.publish(channel, "a")
    await link.unsubscribe(channel)
    await redis.publish(channel, "b")
    await redis.publish(other, "c")
    await until(lambda: (other, b"c") in ears.heard)
    assert (channel, b"b") not in ears.heard
    await link.unsubscribe("never subscribed")
    await link.unsubscribe(channel)


async def test_subscribe_again_right_after_unsubscribe_waits_for_its_own_acknowledgement(
    link: RedisLink, ears: Ears, redis: Redis, channel: str
) -> None:
    await until(lambda: link.up)
    for number in range(50):
        first = asyncio.create_task(link.subscribe(channel))
        await asyncio.sleep(0)
        await link.unsubscribe(channel)
        await link.subscribe(channel)
        assert await redis.publish(channel, str(number)) == 1
        await heard(ears, channel, b"%d" % number)
        await first
        await link.unsubscribe(channel)
    assert len(ears.heard) == 50


# drained


async def test_drained_comes_once_for_what_came_together(
    link: RedisLink, ears: Ears, redis: Redis, channel: str
) -> None:
    await link.subscribe(channel)
    async with redis.pipeline(transaction=True) as pipeline:
        for number in range(500):
            pipeline.publish(channel, str(number))
        await pipeline.execute()
    await until(lambda: len(ears.heard) == 500 and ears.calls[-1] == "drained")
    assert [payload for _, payload in ears.heard] == [b"%d" % number for number in range(500)]
    assert ears.calls.count("drained") < 50


# lost, restored


async def test_lost_then_restored_when_the_server_kills_the_link(
    link: RedisLink, ears: Ears, redis: Redis, channel: str
) -> None:
    await link.subscribe(channel)
    for turn in range(1, 4):
        await redis.client_kill_filter(_type="pubsub")
        await turned(ears, ["lost", "restored"] * turn)
        assert link.up
        assert await redis.publish(channel, str(turn)) == 1
        await heard(ears, channel, b"%d" % turn)


async def test_nothing_is_missed_by_one_who_reads_again_when_restored(broker: RedisBroker, redis: Redis) -> None:
    """The hub's part in small: what comes over the link goes by its header, a jump or a `restored` is read up."""

    class Reader(Ears):
        def __init__(self) -> None:
            super().__init__()
            self.offset = 0
            self.sure = asyncio.Event()

        def received(self, channel: str, payload: bytes) -> None:
            _, first, last, _ = payload.split(b"\n", 1)[0].split(b" ")
            if int(first) == self.offset + 1:
                self.offset = int(last)
            elif int(last) > self.offset:
                self.sure.set()

        def restored(self) -> None:
            super().restored()
            self.sure.set()

    reader = Reader()
    link = broker.link(reader)
    await link.subscribe(broker.channel(TOPIC))

    async def write() -> None:
        for number in range(300):
            await act(broker, TOPIC, str(number))
            if number % 60 == 30:
                await redis.client_kill_filter(_type="pubsub")

    async def heal() -> None:
        while True:
            await reader.sure.wait()
            reader.sure.clear()
            start, epoch = reader.offset, (await broker.read(TOPIC, START, limit=0)).epoch
            page = await broker.read(TOPIC, Position(epoch=epoch, offset=start))
            assert [stored.offset for stored in page.events] == list(range(start + 1, page.upto + 1))
            reader.offset = max(reader.offset, page.upto)

    healing = asyncio.create_task(heal())
    await write()
    await until(lambda: reader.offset == 300 or healing.done())
    assert not healing.done(), healing.result()
    assert len(reader.turns()) >= 2
    healing.cancel()
    await asyncio.wait([healing])
    await link.aclose()


async def test_lost_and_restored_over_a_restart(tmp_path: Path, ears: Ears) -> None:
    with RedisServer(tmp_path, {"requirepass": "pa:ss"}) as server:
        link = RedisLink(server.url.replace("pa:ss", "pa%3Ass"), ears)
        await link.subscribe("a")
        with server.away():
            await turned(ears, ["lost"])
            assert not link.up
            waiting = [asyncio.create_task(link.subscribe(name)) for name in ("a", "b")]
            with attempts() as made:
                await until(lambda: len(made) >= 2)
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting)
        await back(ears)
        assert link.up
        async with Redis.from_url(server.url.replace("pa:ss", "pa%3Ass")) as redis:
            assert [await redis.publish(name, name) for name in "ab"] == [1, 1]
        await until(lambda: len(ears.heard) == 2)
        await link.aclose()


async def test_lost_when_a_silent_server_owes_an_answer(tmp_path: Path, ears: Ears) -> None:
    with RedisServer(tmp_path) as server:
        link = RedisLink(server.url, ears, timeout=0.2, ping_after=0.05)
        await link.subscribe("a")
        with server.silent():
            await until(lambda: ears.turns()[-1:] == ["lost"])
            assert not link.up
        await back(ears)
        await link.aclose()


async def test_silence_alone_is_no_loss(redis_url: str, ears: Ears, redis: Redis) -> None:
    link = RedisLink(redis_url, ears, timeout=5, ping_after=0.01)
    await link.subscribe("a")
    before = await pings(redis)
    async with asyncio.timeout(30):
        while await pings(redis) < before + 2:
            await asyncio.sleep(0.01)
    assert ears.turns() == []
    await link.aclose()


async def pings(redis: Redis) -> int:
    return int((await redis.info("commandstats")).get("cmdstat_ping", {"calls": 0})["calls"])


async def test_lost_first_where_nobody_answers(ears: Ears, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    server = RedisServer(tmp_path)
    link = RedisLink(server.url, ears)
    waiting = asyncio.create_task(link.subscribe("a"))
    await turned(ears, ["lost"])
    assert not link.up
    assert not waiting.done()
    with server:
        await waiting
        await back(ears)
        await link.aclose()


async def test_lost_where_something_else_answers(ears: Ears) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(greet, "127.0.0.1", port):
        link = RedisLink(f"redis://127.0.0.1:{port}", ears)
        await turned(ears, ["lost"])
        await link.aclose()


async def test_lost_with_a_wrong_password(tmp_path: Path, ears: Ears, caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer(tmp_path, {"requirepass": "right"}) as server:
        link = RedisLink(server.url.replace("right", "wrong"), ears)
        await turned(ears, ["lost"])
        assert "WRONGPASS" in caplog.text
        assert "wrong@" not in caplog.text
        await link.aclose()


async def test_a_failing_listener_is_heard_of_and_the_link_goes_on(
    redis_url: str, redis: Redis, channel: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Ears):
        def restored(self) -> None:
            super().restored()
            if self.turns().count("restored") == 1:
                raise LookupError

    ears = Failing()
    link = RedisLink(redis_url, ears)
    await link.subscribe(channel)
    await redis.client_kill_filter(_type="pubsub")
    await turned(ears, ["lost", "restored", "lost", "restored"])
    assert "LookupError" in caplog.text
    await link.aclose()


# aclose


async def test_aclose_ends_it(redis_url: str, redis: Redis, channel: str, ears: Ears) -> None:
    link = RedisLink(redis_url, ears)
    await link.subscribe(channel)
    await redis.publish(channel, "a")
    await link.aclose()
    calls = len(ears.calls)
    async with asyncio.timeout(30):
        while await redis.publish(channel, "b"):
            await asyncio.sleep(0.001)
    assert len(ears.calls) == calls
    assert not link.up
    with pytest.raises(BrokerUnavailableError):
        await link.subscribe(channel)
    await link.aclose()


async def test_aclose_lets_the_waiting_go(ears: Ears) -> None:
    link = RedisLink(f"redis://127.0.0.1:{free_port()}", ears)
    waiting = asyncio.create_task(link.subscribe("a"))
    await turned(ears, ["lost"])
    await link.aclose()
    with pytest.raises(BrokerUnavailableError):
        await waiting
