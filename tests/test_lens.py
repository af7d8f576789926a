"""Lenses as their readers meet them: real gateways, real sockets, the clients."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.client import Client, Subscription
from gateway.errors import CommandError
from gateway.lens import Lens, read_lens
from gateway.mirror import Mirror
from gateway.reader import Update
from gateway.types import Publication, Topic
from tests.serving import Gateway, append, eventually, serve


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


def start(run: str = "r") -> dict[str, Any]:
    return {"type": "agent_start", "run": run, "agent": "a", "at": 1}


def delta(text: str, message: str = "m") -> dict[str, Any]:
    return {"type": "agent_delta", "run": "r", "message": message, "text": text}


def end(seq: int, text: str, message: str = "m") -> dict[str, Any]:
    common = {"run": "r", "time": "2026-01-01T00:00:00.000000Z", "metadata": {}}
    return {"type": "assistant_message", "seq": seq, "message": message, "content": text, **common}


def log(number: int) -> dict[str, Any]:
    return {"type": "log", "run": "r", "level": "info", "message": f"line {number}"}


async def take(subscription: Subscription) -> Update:
    return await asyncio.wait_for(anext(subscription), 20)


async def until(subscription: Subscription, offset: int) -> list[Update]:
    updates = [await take(subscription)]
    while updates[-1].position.offset < offset:
        updates.append(await take(subscription))
    return updates


async def test_types_of_a_group_travel_and_offsets_stay_whole(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client:
        logs = client.subscribe("t", lens={"types": ["logs"]})
        await take(logs)
        await append(broker, "t", delta("a"), delta("b"), log(1), delta("c"), log(2))
        first, second = await take(logs), await take(logs)
        assert [(update.first, update.position.offset, update.data["message"]) for update in (first, second)] == [
            (2, 4, "line 1"),
            (5, 6, "line 2"),
        ]
        assert [line["message"] for line in second.mirror.log] == ["line 1", "line 2"]
        assert second.mirror.open == second.mirror.runs == []


async def test_hidden_tail_moves_the_position(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client:
        logs = client.subscribe("t", lens={"types": ["logs"]}, mirror=False)
        await logs.joined.wait()
        await append(broker, "t", delta("a"), delta("b"))
        marker = await take(logs)
        assert marker.hidden
        assert (marker.first, marker.position.offset) == (2, 3)
        await append(broker, "t", log(1))
        assert (await take(logs)).first == 4


async def test_finished_messages_come_without_their_deltas(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client:
        finished, whole = client.subscribe("t", lens={"finished": True}), None
        await take(finished)
        await append(broker, "t", delta("hel"), delta("lo"), end(0, "hello"))
        (update,) = await until(finished, 4)
        assert (update.first, update.data["content"]) == (2, "hello")
        async with Client(served.http) as other:
            whole = await take(other.subscribe("t"))
            assert whole.data["mirror"] == update.mirror.state()


async def test_recovery_under_a_lens_shows_what_the_lens_shows(served: Gateway, broker: RedisBroker) -> None:
    position = await append(broker, "t", start())
    await append(broker, "t", delta("a"), log(1), delta("b"), delta("c"))
    async with Client(served.http) as client:
        logs = client.subscribe("t", since=position, mirror=False, lens={"types": ["logs"]})
        shown = await until(logs, 5)
        assert [(update.first, update.position.offset, update.hidden) for update in shown] == [
            (2, 3, False),
            (4, 5, True),
        ]


async def test_recovery_from_the_store_under_a_lens_is_whole(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    position = await append(broker, "t", start())
    for batch in range(40):
        await append(broker, "t", *[delta("x" * 500), log(batch)] * 10)
    async with serve(redis_url, key_prefix, ring_bytes=20_000) as gateway, Client(gateway.http) as client:
        logs = client.subscribe("t", since=position, mirror=False, lens={"types": ["logs"]})
        shown = await until(logs, 801)
        firsts = [update.first for update in shown]
        assert firsts == [2, *(update.position.offset + 1 for update in shown[:-1])]
        assert [update.data["message"] for update in shown if not update.hidden] == [
            f"line {batch}" for batch in range(40) for _ in range(10)
        ]


async def test_rate_merges_what_came_between_two_flushes(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client, Client(served.http) as other:
        slow, plain = client.subscribe("t", lens={"rate": 1}), other.subscribe("t")
        await take(slow)
        await take(plain)
        for number in range(50):
            await append(broker, "t", delta(f"{number} "), kind="d")
        await until(plain, 51)
        shown = await until(slow, 51)
        # How many flushes there were depends on the machine; that deltas were merged does not.
        assert len(shown) < 50
        assert shown[-1].mirror.open[0]["text"] == "".join(f"{number} " for number in range(50))


async def test_readers_of_one_lens_share_one_strand(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client, Client(served.http) as other, Client(served.http) as third:
        one = client.subscribe("t", lens={"types": ["log"]})
        two = other.subscribe("t", types=["logs"])
        three = third.subscribe("t", lens={"types": ["log"], "rate": 5})
        for subscription in (one, two, three):
            await take(subscription)
        topic = served.hub._topics["t"]
        assert sorted(len(audience.members) for audience in topic.audiences.values()) == [1, 2]
        await append(broker, "t", log(1))
        assert [(await take(subscription)).data["message"] for subscription in (one, two, three)] == ["line 1"] * 3
        for subscription in (one, two, three):
            await subscription.aclose()
        await eventually(lambda: not topic.audiences)


async def test_change_of_the_rate_goes_on_from_the_position(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client:
        subscription = client.subscribe("t")
        await take(subscription)
        subscription.change_lens({"rate": 2})
        await append(broker, "t", delta("a"))
        update = await take(subscription)
        assert (update.snapshot, update.position.offset) == (False, 2)
        subscription.change_lens({"finished": True})
        again = await take(subscription)
        assert (again.snapshot, again.mirror.open) == (True, [])
        with pytest.raises(ValueError, match="expected a subscription of events"):
            subscription.change_lens("summary")


async def test_summaries_are_yielded_as_data(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client:
        summaries = client.subscribe("t", lens="summary")
        assert (await take(summaries)).data["state"] == "running"
        position = await append(broker, "t", {"type": "agent_complete", "run": "r", "at": 2})
        while (update := await take(summaries)).data["state"] != "completed":
            pass
        assert update.position == position


async def test_lens_that_is_none_ends_the_subscription(served: Gateway) -> None:
    async with Client(served.http) as client:
        with pytest.raises(CommandError, match="expected rate to be an integer"):
            await take(client.subscribe("t", lens={"rate": 0}))


def test_read_lens_without_one_hides_nothing() -> None:
    assert read_lens(None) == read_lens({"mirror": True}) == read_lens({"lens": None}) == Lens()
    assert read_lens({"lens": {"types": ["usage", "logs"], "rate": 4.0}}) == Lens(
        types=frozenset({"usage", "log"}), rate=4
    )


async def test_lens_over_a_cut_link_misses_nothing(served: Gateway, broker: RedisBroker, redis: Any) -> None:
    await append(broker, "t", start())
    async with Client(served.http) as client:
        logs = client.subscribe("t", lens={"types": ["logs", "runs"]})
        await take(logs)
        for number in range(120):
            await append(broker, "t", delta(f"{number} "), kind="d")
            await append(broker, "t", log(number))
            if number in {30, 80}:
                await redis.client_kill_filter(_type="pubsub")
        shown = await until(logs, 241)
        assert [update.data["message"] for update in shown if update.data["type"] == "log"] == [
            f"line {number}" for number in range(120)
        ]
        assert [line["message"] for line in shown[-1].mirror.log] == [f"line {number}" for number in range(120)]
        assert not any(update.snapshot for update in shown)


async def test_reader_with_a_lens_that_missed_much_gets_a_snapshot_of_what_it_shows(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "t", start())
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as plain:
        lens = {"types": ["note", "logs"]}
        reply = await plain.ask("subscribe", {"channel": "t", "data": {"mirror": True, "lens": lens}})
        mirror = Mirror.restore(reply["data"]["snapshot"])
        assert mirror.runs == []
        topic = gateway.hub._topics["t"]
        plain.socket.transport.pause_reading()
        while not topic.behind or topic.ring.bytes_since(next(iter(topic.behind)).cursor) < 2_000_000:
            await append(broker, "t", *[{"type": "note", "text": "x" * 2000}, log(1), delta("y")] * 15)
        top = topic.ring.end
        plain.socket.transport.resume_reading()
        snapshots = 0
        while mirror.offset < top:
            pub = await plain.pub()
            if "offset" not in pub:
                snapshots += 1
                mirror = Mirror.restore(pub["data"])
                continue
            first = int(pub["tags"]["from"]) if "tags" in pub else None
            assert mirror.apply(Publication(offset=pub["offset"], data=pub["data"], first=first)) == "applied"
        assert snapshots >= 1
        assert len(mirror.log) == 200
        assert mirror.runs == mirror.open == []


async def test_history_that_is_replaced_begins_anew_under_the_lens(
    served: Gateway, broker: RedisBroker, redis: Any
) -> None:
    await append(broker, "t", start(), log(1))
    async with Client(served.http) as client:
        logs = client.subscribe("t", lens={"types": ["logs"]})
        await take(logs)
        keys = [key async for key in redis.scan_iter(match=f"{broker.channel(Topic('t'))}*")]
        await redis.delete(*keys)
        await append(broker, "t", start("n"), log(2))
        while not (update := await take(logs)).mirror.log or update.mirror.log[-1]["message"] != "line 2":
            pass
        assert [line["message"] for line in update.mirror.log] == ["line 2"]
        assert update.mirror.runs == []
