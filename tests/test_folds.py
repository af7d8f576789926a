"""Folded states: shared, bounded, and read from the store where nothing else has them."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway import folds
from gateway.broker.port import Trimmed
from gateway.broker.redis import RedisBroker
from gateway.codec import encode_json
from gateway.types import START, Position, Topic
from tests.serving import Gateway, append, serve


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


def log(number: int, size: int = 10) -> dict[str, Any]:
    return {"type": "log", "message": f"{number} " + "x" * size, "at": number}


async def test_joiners_share_one_encoding(
    served: Gateway, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(broker, "shared", *[log(n, 200) for n in range(50)])
    encoded = 0

    def counting(value: Any) -> bytes:
        nonlocal encoded
        encoded += 1
        return encode_json(value)

    monkeypatch.setattr(folds, "encode_json", counting)
    for number in range(20):
        async with served.plain() as plain:
            reply = await plain.ask("subscribe", {"channel": "shared", "data": {"mirror": True}})
            assert reply["data"]["snapshot"]["offset"] == reply["offset"]
            while reply["offset"] < 50 + number:  # what came since the shared snapshot follows
                reply["offset"] = (await plain.pub())["offset"]
        await append(broker, "shared", log(number))
    assert encoded == 1


async def test_nothing_is_folded_until_somebody_asks(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "lazy", log(1))
    async with served.plain() as plain:
        await plain.ask("subscribe", {"channel": "lazy"})
        await append(broker, "lazy", log(2))
        await plain.pub()
        topic = served.hub._topics["lazy"]
        assert topic.mirror is None
        assert (await served.hub.snapshot(Topic("lazy"))).offset == 2
        assert topic.mirror is not None


async def test_kept_states_are_bounded(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    names = [f"bound{n}" for n in range(6)]
    for name in names:
        await append(broker, name, *[log(n, 1000) for n in range(20)])
    async with serve(redis_url, key_prefix, mirror_bytes=50_000) as gateway:
        for name in names:
            await gateway.hub.snapshot(Topic(name))
        kept = [name for name in names if gateway.hub._topics[name].mirror is not None]
        assert kept == names[-len(kept) :]
        assert 1 <= len(kept) < 3
        again = await gateway.hub.snapshot(Topic(names[0]))
        assert len(msgspec.json.decode(again.text)["mirror"]["log"]) == 20


async def test_state_is_read_on_from_a_stored_snapshot(served: Gateway, broker: RedisBroker, redis_url: str) -> None:
    for start in range(0, 600, 100):
        position = await append(broker, "stored", *[log(n) for n in range(start, start + 100)])
    before = await served.hub.snapshot(Topic("stored"))
    size = (await broker.read(Topic("stored"), START, limit=0)).size
    at = Position(epoch=before.epoch, offset=before.offset)
    assert at == position
    assert isinstance(await broker.trim(Topic("stored"), before.text, position=at, size=size), Trimmed)
    for start in range(600, 1200, 100):
        await append(broker, "stored", *[log(n) for n in range(start, start + 100)])
    async with serve(redis_url, broker.channel(Topic("x")).partition(":")[0]) as other:
        snapshot = msgspec.json.decode((await other.hub.snapshot(Topic("stored"))).text)
    assert snapshot["offset"] == 1200
    assert snapshot["mirror"] == msgspec.json.decode((await served.hub.snapshot(Topic("stored"))).text)["mirror"]
    assert [entry["at"] for entry in snapshot["mirror"]["log"]] == list(range(1000, 1200))
