"""The hub under faults: real gateways, real Valkey, real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.port import History, Trimmed
from gateway.broker.redis import RedisBroker
from gateway.connection import Connection
from gateway.errors import BrokerError
from gateway.hub import Hub
from gateway.mirror import Mirror
from gateway.types import Position, Publication, Topic
from tests.servers import RedisServer
from tests.serving import Gateway, Plain, append, eventually, serve


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


class Following:
    """A mirror reader that checks every offset."""

    def __init__(self, plain: Plain, topic: str) -> None:
        self.plain = plain
        self.topic = topic
        self.mirror = Mirror(topic)
        self.snapshots = 0
        self.merged = 0
        self.told: list[bool] = []
        self._parts: list[str] = []

    async def start(self, **asked: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self.plain.ask(
            "subscribe", {"channel": self.topic, "data": {"mirror": True}, **asked}
        )
        if "parts" not in (snapshot := reply["data"].get("snapshot", {"parts": 0})):
            self.mirror = Mirror.restore(snapshot)
        for pub in reply.get("publications", []):
            self._apply(pub)
        return reply

    async def until(self, offset: int) -> None:
        while self.mirror.offset < offset:
            await self.step()

    async def step(self) -> None:
        push = await self.plain.push()
        if "message" in push:
            self.told.append(push["message"]["data"]["sure"])
            return
        data = push["pub"]["data"]
        if "offset" in push["pub"]:
            self._apply(push["pub"])
            return
        assert data["type"] == "snapshot"
        if "part" in data:
            self._parts.append(data["text"])
            if data["part"] < data["parts"]:
                return
            data = json.loads("".join(self._parts))
            self._parts = []
        self.snapshots += 1
        self.mirror = Mirror.restore({key: data[key] for key in ("topic", "epoch", "offset", "mirror")})

    def _apply(self, pub: dict[str, Any]) -> None:
        first = int(pub["tags"]["from"]) if "tags" in pub else None
        self.merged += first is not None
        assert self.mirror.apply(Publication(offset=pub["offset"], data=pub["data"], first=first)) == "applied", pub


async def expected(broker: RedisBroker, topic: str) -> dict[str, Any]:
    """Fold a topic from the store."""
    history = await broker.read(Topic(topic), Position(), limit=100_000)
    mirror = Mirror(topic, history.epoch, 0)
    assert history.complete
    offset = 0
    for event in history.events:
        data = json.loads(event.data)
        mirror.apply(Publication(offset=event.offset, data=data, first=offset + 1))
        offset = event.offset
    return mirror.state()


def delta(number: int, text: str = "x", message: str = "m") -> dict[str, Any]:
    return {"type": "agent_delta", "run": "r", "message": message, "text": f"{text}{number} ", "at": number}


async def start_run(broker: RedisBroker, topic: str) -> None:
    await append(broker, topic, {"type": "agent_start", "run": "r", "agent": "a", "at": 1})


# Joining


async def test_join_while_events_come_loses_none(served: Gateway, broker: RedisBroker) -> None:
    await start_run(broker, "busy")
    stop = False

    async def write() -> int:
        number = 1
        while not stop or number < 300:
            number += 1
            await append(broker, "busy", delta(number), kind="d")
        return number

    writing = asyncio.create_task(write())
    async with contextlib.AsyncExitStack() as stack:
        followers = []
        for _ in range(12):
            follower = Following(await stack.enter_async_context(served.plain()), "busy")
            await follower.start()
            followers.append(follower)
        stop = True
        last = await writing
        for follower in followers:
            await follower.until(last)
            assert follower.mirror.state() == await expected(broker, "busy")


async def test_herd_at_many_positions_reads_the_store_a_few_times(
    served: Gateway, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 400, 50):
        position = await append(broker, "herd", *[{"n": n} for n in range(start, start + 50)])
    reads = 0
    plain_read = served.hub.broker.read

    async def read(*args: Any, **kwargs: Any) -> History:
        nonlocal reads
        reads += 1
        return await plain_read(*args, **kwargs)

    monkeypatch.setattr(served.hub.broker, "read", read)

    async def come_back(offset: int) -> list[int]:
        async with served.plain() as plain:
            asked = {"channel": "herd", "recover": True, "epoch": position.epoch, "offset": offset}
            reply = await plain.ask("subscribe", asked)
            assert reply["recovered"] is True
            return [pub["offset"] for pub in reply["publications"]]

    answers = await asyncio.gather(*[come_back(offset) for offset in range(250, 400)])
    assert answers == [list(range(offset + 1, 401)) for offset in range(250, 400)]
    assert reads <= 4


# Faults


async def test_link_cut_while_events_come_loses_none_and_says_so(
    served: Gateway, broker: RedisBroker, redis: "Redis"
) -> None:
    await start_run(broker, "cut")
    async with served.plain() as plain, served.plain() as other:
        follower = Following(plain, "cut")
        await follower.start()
        stock = await other.ask("subscribe", {"channel": "cut"})
        assert stock["offset"] == 1
        for number in range(2, 400):
            await append(broker, "cut", delta(number), kind="d")
            if number in {100, 250}:
                await redis.client_kill_filter(_type="pubsub")
        await follower.until(399)
        while not follower.told or not follower.told[-1]:
            await follower.step()
        assert follower.told[0] is False
        assert follower.snapshots == 0
        assert follower.mirror.state() == await expected(broker, "cut")
        offsets = [1]
        while offsets[-1] < 399:
            push = await other.push()
            if "pub" in push:
                assert int(push["pub"].get("tags", {}).get("from", push["pub"]["offset"])) == offsets[-1] + 1
                offsets.append(push["pub"]["offset"])


@contextlib.contextmanager
def deaf(hub: Hub) -> Iterator[None]:
    """Lose publications without a sign, as an overrun output buffer on the way would."""
    received = hub.received
    hub.received = lambda _channel, _payload: None  # type: ignore[method-assign,assignment,unused-ignore]
    try:
        yield
    finally:
        hub.received = received  # type: ignore[method-assign,assignment,unused-ignore]


async def test_lost_publications_are_read_when_the_next_one_comes(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "hole", {"n": 1})
    async with served.plain() as plain, served.plain() as watch:
        follower = Following(plain, "hole")
        await follower.start()
        await watch.ask("subscribe", {"channel": "hole"})
        with deaf(served.hub):
            for number in range(2, 30):
                await append(broker, "hole", {"n": number})
        await append(broker, "hole", {"n": 30})
        await follower.until(30)
        assert [(await watch.pub())["offset"] for _ in range(29)] == list(range(2, 31))


async def test_silent_loss_is_found_by_the_audit(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    await append(broker, "silent", {"n": 1})
    async with serve(redis_url, key_prefix, audit_interval=0.1) as gateway, gateway.plain() as plain:
        follower = Following(plain, "silent")
        await follower.start()
        with deaf(gateway.hub):
            await append(broker, "silent", {"n": 2})
        await follower.until(2)


async def test_topic_that_cannot_be_read_takes_the_audit_from_no_other(
    redis_url: str, key_prefix: str, broker: RedisBroker, redis: "Redis"
) -> None:
    async with serve(redis_url, key_prefix, audit_interval=0.1) as gateway, gateway.plain() as plain:
        follower = Following(plain, "whole")
        for topic in ("spoiled", "whole"):
            await append(broker, topic, {"n": 1})
            await (plain.ask("subscribe", {"channel": topic}) if topic == "spoiled" else follower.start())
        key = broker.channel(Topic("spoiled"))
        await redis.delete(key)
        await redis.set(key, "somebody else's")
        asked = gateway.hub.broker.read
        refused: list[Topic] = []

        async def noted(topic: Topic, *args: Any, **named: Any) -> History:
            try:
                return await asked(topic, *args, **named)
            except BrokerError:
                refused.append(topic)
                raise

        gateway.hub.broker.read = noted  # type: ignore[method-assign]
        await eventually(lambda: len(refused) > 1)
        with deaf(gateway.hub):
            await append(broker, "whole", {"n": 2})
        await follower.until(2)
        assert {*refused} == {"spoiled"}


async def test_right_that_is_taken_away_for_a_while_costs_no_event(tmp_path: Path, key_prefix: str) -> None:
    """Reads are refused, not unanswered: what is held back meanwhile is let go once they are allowed again."""
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        async with (
            Redis(port=server.port) as redis,
            serve(server.url, key_prefix, audit_interval=0.1) as gateway,
            gateway.plain() as plain,
            gateway.plain() as other,
        ):
            await append(broker, "barred", {"n": 1})
            follower = Following(plain, "barred")
            await follower.start()
            await redis.acl_setuser("default", enabled=True, nopass=True, keys=["*"], commands=["-evalsha", "-eval"])
            gaps = gateway.hub.measures.gaps["live"]
            gateway.hub.received(broker.channel(Topic("barred")), b"other 3 3 log\n{}")
            topic = gateway.hub._topics["barred"]
            assert gateway.hub.measures.gaps["live"] > gaps
            await eventually(lambda: topic.syncing is not None and topic.syncing.done())
            # Without the word that it may pass, stock clients would unsubscribe for good.
            for method, request in (("subscribe", {"channel": "new"}), ("publish", {"channel": "new", "data": {}})):
                error = await other.ask(method, request)
                assert (error["code"], error["temporary"]) == (100, True)
            await redis.acl_setuser("default", enabled=True, nopass=True, commands=["+evalsha", "+eval"])
            # Nothing came meanwhile that would show that it is held back.
            await eventually(lambda: not topic.held)
            await append(broker, "barred", {"n": 2})
            await follower.until(2)
            assert (await other.ask("subscribe", {"channel": "new"}))["epoch"] == ""
        await broker.aclose()


async def test_hole_over_compacted_deltas_is_tagged(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "compact", {"n": 1})
    async with served.plain() as plain, served.plain() as late:
        await plain.ask("subscribe", {"channel": "compact"})
        with deaf(served.hub):
            for number in (2, 3, 4):
                await append(broker, "compact", delta(number), kind="d")
            await append(broker, "compact", {"type": "message_discarded", "run": "r", "message": "m"}, kind="e")
        position = await append(broker, "compact", {"n": 6})
        assert (await plain.pub())["tags"] == {"from": "2"}
        assert await plain.pub() == {"offset": 6, "data": {"n": 6}}
        # A reader that stands inside what was compacted gets a tag of its own.
        asked = {"channel": "compact", "recover": True, "epoch": position.epoch, "offset": 3}
        reply = await late.ask("subscribe", asked)
        assert [(pub["offset"], pub.get("tags")) for pub in reply["publications"]] == [(5, {"from": "4"}), (6, None)]
        await late.ask("unsubscribe", {"channel": "compact"})
        reply = await late.ask("subscribe", {**asked, "offset": 4})
        assert [(pub["offset"], pub.get("tags")) for pub in reply["publications"]] == [(5, None), (6, None)]


async def test_restarted_server_goes_on_for_everybody(tmp_path: Path, key_prefix: str) -> None:
    server = RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "always"})
    with server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        async with serve(server.url, key_prefix) as gateway, gateway.plain() as plain, gateway.plain() as stock:
            await start_run(broker, "again")
            position = await append(broker, "again", delta(2), kind="d")
            follower = Following(plain, "again")
            await follower.start()
            await stock.ask("subscribe", {"channel": "again"})
            with server.away():
                while not follower.told:
                    await follower.step()
                async with gateway.plain() as new:
                    error = await new.ask("subscribe", {"channel": "again"})
                    assert (error["code"], error["temporary"]) == (100, True)
            await eventually(lambda: gateway.hub.sure)
            assert (await append(broker, "again", delta(3), kind="d")).offset == 3
            await follower.until(3)
            assert follower.mirror.epoch != position.epoch
            assert follower.mirror.state()["open"][0]["text"] == "x2 x3 "
            while "unsubscribe" not in (push := await stock.push()):
                assert "message" in push
            assert push["unsubscribe"]["code"] == 2500
            asked = {"channel": "again", "recover": True, "epoch": position.epoch, "offset": 2}
            reply = await stock.ask("subscribe", asked)
            assert reply["recovered"] is True
            assert reply["publications"][0]["offset"] == 3
            assert reply["epoch"] == follower.mirror.epoch
        await broker.aclose()


async def test_lost_history_is_told_to_everybody(served: Gateway, broker: RedisBroker, redis: "Redis") -> None:
    await start_run(broker, "wiped")
    position = await append(broker, "wiped", delta(2), kind="d")
    async with served.plain() as plain, served.plain() as stock:
        follower = Following(plain, "wiped")
        await follower.start()
        await stock.ask("subscribe", {"channel": "wiped"})
        keys = [key async for key in redis.scan_iter(match=f"{broker.channel(Topic('wiped'))}*")]
        assert keys
        await redis.delete(*keys)
        await append(broker, "wiped", {"n": "new"})
        while follower.mirror.epoch == position.epoch:
            await follower.step()
        assert follower.mirror.offset == 1
        assert follower.mirror.state()["open"] == []
        assert (await stock.push())["unsubscribe"]["code"] == 2500
        asked = {"channel": "wiped", "recover": True, "epoch": position.epoch, "offset": 2}
        assert (await stock.ask("subscribe", asked))["recovered"] is False


# Lagging


@pytest.mark.parametrize("ws", ["gateway.transport:GatewayProtocol", "websockets-sansio"])
async def test_mirror_reader_that_missed_much_gets_the_smaller_snapshot(
    redis_url: str, key_prefix: str, broker: RedisBroker, ws: str
) -> None:
    await start_run(broker, "short")
    async with serve(redis_url, key_prefix, ws=ws) as gateway, gateway.plain() as plain:
        follower = Following(plain, "short")
        await follower.start()
        (subscriber,) = gateway.hub._topics["short"].live
        plain.socket.transport.pause_reading()
        number = 1
        while subscriber.live or gateway.hub._topics["short"].ring.bytes_since(subscriber.cursor) < 2_000_000:
            await append(broker, "short", *[{"type": "note", "text": "x" * 2000} for _ in range(50)])
            number += 50
        plain.socket.transport.resume_reading()
        await follower.until(number)
        assert follower.snapshots >= 1
        assert follower.mirror.state() == await expected(broker, "short")
        await append(broker, "short", delta(number), kind="d")
        await follower.until(number + 1)


async def test_stock_reader_whose_events_were_trimmed_meanwhile_subscribes_again(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await start_run(broker, "trim")
    async with serve(redis_url, key_prefix, ring_bytes=10_000) as gateway, gateway.plain() as plain:
        await plain.ask("subscribe", {"channel": "trim"})
        topic = gateway.hub._topics["trim"]
        (subscriber,) = topic.live
        plain.socket.transport.pause_reading()
        connection = subscriber.reader
        assert isinstance(connection, Connection)
        while not connection._paused or topic.ring.reaches(subscriber.cursor):
            await append(broker, "trim", *[{"type": "note", "text": "x" * 2000} for _ in range(20)])
        snapshot = await gateway.hub.snapshot(Topic("trim"))
        position = Position(epoch=snapshot.epoch, offset=snapshot.offset)
        size = (await broker.read(Topic("trim"), position, limit=0)).size
        assert isinstance(await broker.trim(Topic("trim"), snapshot.text, position=position, size=size), Trimmed)
        plain.socket.transport.resume_reading()
        offset = 1
        while "unsubscribe" not in (push := await plain.push()):
            assert push["pub"]["offset"] == offset + 1
            offset += 1
        assert push["unsubscribe"]["code"] == 2500
        asked = {"channel": "trim", "recover": True, "epoch": snapshot.epoch, "offset": offset}
        assert (await plain.ask("subscribe", asked))["recovered"] is False


async def test_reader_that_stops_reading_is_brought_up_with_merged_deltas(served: Gateway, broker: RedisBroker) -> None:
    await start_run(broker, "lag")
    async with served.plain() as plain, served.plain() as quick:
        follower, other = Following(plain, "lag"), Following(quick, "lag")
        await follower.start()
        await other.start()
        plain.socket.transport.pause_reading()
        number = 1
        while number < 6000:
            batch = [delta(n, "some words ") for n in range(number + 1, number + 101)]
            await append(broker, "lag", *batch, kind="d")
            number += 100
        await other.until(number)
        plain.socket.transport.resume_reading()
        await follower.until(number)
        assert follower.merged or follower.snapshots
        assert follower.mirror.state() == other.mirror.state() == await expected(broker, "lag")
        await append(broker, "lag", {"n": 1})
        await follower.until(number + 1)


async def test_reader_behind_the_ring_is_brought_up_from_the_store(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await start_run(broker, "deep")
    async with contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(serve(redis_url, key_prefix, ring_bytes=20_000))
        plain = await stack.enter_async_context(gateway.plain())
        quick = await stack.enter_async_context(gateway.plain())
        stock = await plain.ask("subscribe", {"channel": "deep"})
        other = Following(quick, "deep")
        await other.start()
        plain.socket.transport.pause_reading()
        number = 1
        while number < 3000:
            await append(broker, "deep", *[delta(n, "y" * 200) for n in range(number + 1, number + 51)], kind="d")
            number += 50
        await other.until(number)
        plain.socket.transport.resume_reading()
        offset = stock["offset"]
        while offset < number:
            pub = await plain.pub()
            assert int(pub.get("tags", {}).get("from", pub["offset"])) == offset + 1
            offset = pub["offset"]
        assert other.mirror.state() == await expected(broker, "deep")


async def test_reader_that_never_reads_is_closed_as_slow_and_stops_nobody(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "slow", {"n": 0})
    async with contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(serve(redis_url, key_prefix, slow_timeout=0.4))
        plain = await stack.enter_async_context(gateway.plain())
        quick = await stack.enter_async_context(gateway.plain())
        await plain.ask("subscribe", {"channel": "slow"})
        other = Following(quick, "slow")
        await other.start()
        plain.socket.transport.pause_reading()
        number, largest = 1, 0
        while len(gateway.hub.clients(Topic("slow"))) == 2:
            await append(broker, "slow", {"text": "z" * 50_000})
            number += 1
            await other.until(number)
            largest = max(
                largest, *(getattr(reader, "buffered", 0) for reader in gateway.hub.clients(Topic("slow"))), 0
            )
        assert 0 < largest < 512 * 1024
        plain.socket.transport.resume_reading()
        code, _ = await plain.closed()
        assert code in {3008, None}  # the close frame may be cut with the rest of the buffer


# Topics come and go


async def test_topic_without_readers_is_forgotten(redis_url: str, key_prefix: str, redis: "Redis") -> None:
    async with serve(redis_url, key_prefix, linger=0.0) as gateway:
        for _ in range(3):
            async with gateway.plain() as plain:
                await plain.ask("subscribe", {"channel": "short"})
                channel = gateway.hub.broker.channel(Topic("short"))
                assert dict(await redis.pubsub_numsub(channel))[channel.encode()] == 1
            async with asyncio.timeout(20):
                while dict(await redis.pubsub_numsub(channel))[channel.encode()]:
                    await asyncio.sleep(0.01)
        assert not gateway.hub._topics
        assert gateway.hub.rings.used == 0


async def test_topic_survives_between_two_readers(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "kept", {"n": 1})
    async with served.plain() as plain:
        await plain.ask("subscribe", {"channel": "kept"})
    topic = served.hub._topics["kept"]
    async with served.plain() as plain:
        await plain.ask("subscribe", {"channel": "kept"})
        assert served.hub._topics["kept"] is topic


async def test_many_topics_of_one_connection_share_a_write(served: Gateway, broker: RedisBroker) -> None:
    names = [f"multi{n}" for n in range(20)]
    for name in names:
        await append(broker, name, {"n": 1})
    async with served.plain() as plain:
        for name in names:
            await plain.ask("subscribe", {"channel": name})
        await asyncio.gather(*[append(broker, name, {"n": 2}) for name in names])
        got = {(push["channel"], push["pub"]["offset"]) for push in [await plain.push() for _ in names]}
        assert got == {(name, 2) for name in names}


async def test_loss_while_the_last_one_is_made_good_keeps_the_hub_unsure(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "twice", {"n": 1})
    async with served.plain() as plain:
        await plain.ask("subscribe", {"channel": "twice"})
        hub = served.hub
        assert hub.sure
        # What a link does that breaks again before the topics are read.
        hub.lost()
        hub.restored()
        hub.lost()
        for topic in hub._topics.values():
            assert topic.syncing is not None
            await topic.syncing
        for _ in range(20):
            await asyncio.sleep(0)
        assert not hub.sure
        hub.restored()
        await eventually(lambda: hub.sure)
