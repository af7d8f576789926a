from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.port import Entry, History
from gateway.broker.redis import RedisBroker
from gateway.codec import encode_event, encode_json
from gateway.context.messages import Message
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.topic_state import read_topic
from gateway.types import EntryKind, Position, Topic
from tests.broker.author import Author
from tests.servers import RedisServer

TOPIC = Topic("chat:1")


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def trim(broker: RedisBroker) -> None:
    state = await read_topic(broker, TOPIC)
    size = (await broker.read(TOPIC, Position(), limit=0)).size
    await broker.trim(TOPIC, encode_json(state.mirror.snapshot()), position=state.position, size=size)


async def test_unwritten_topic_is_empty(broker: RedisBroker) -> None:
    state = await read_topic(broker, TOPIC)
    assert (state.position, state.seq, state.hash) == (Position(), 0, "")
    assert list(state.context().entries) == []


async def test_topic_is_read_to_its_top(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in range(1500):
            await run.delta(f"{number} ")
            await run.add_message(Message.assistant(str(number)))
        await run.delta("open")
        position = await run.flush()
        state = await read_topic(broker, TOPIC)
        assert state.position == position
        assert state.seq == run.context.log.next_seq == 1500
        assert state.hash == run._writer.recorder.mark()[1]
        assert state.mirror.state()["open"][0]["text"] == "open"


async def test_read_begins_with_the_snapshot(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("one"))
        await run.delta("ope")
        await run.flush()
        await trim(broker)
        await run.delta("n")
        await run.add_message(Message.user("two"))
        position = await run.flush()
        state = await read_topic(broker, TOPIC)
        assert state.position == position
        assert [message.text for message in state.context().entries] == ["one", "two"]
        assert state.mirror.state()["open"][0]["text"] == "open"
        assert state.seq == state.context().log.next_seq == 2


def told(type: str, *, kind: EntryKind = "h", **fields: Any) -> Entry:
    event = {"type": type, "at": 1, "run": "run1", **fields}
    return Entry(kind=kind, type=type, message=fields.get("message", ""), data=encode_event(event))


class RollingBack:
    """The broker with a fault: the server goes back to what it saved after the first page of a reading."""

    def __init__(self, broker: RedisBroker, server: RedisServer) -> None:
        self._broker = broker
        self._server = server
        self.pages = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def read(self, topic: Topic, position: Position, **options: Any) -> History:
        self.pages += 1
        if self.pages == 2:
            self._server.kill()
            self._server.start()
        return await Patience().call(lambda: self._broker.read(topic, position, **options))


async def test_topic_rolled_back_between_two_pages_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page passed over deltas whose message has no end any more, where its position may go on."""
    monkeypatch.setattr("gateway.topic_state._PAGE", 2)
    with RedisServer(tmp_path) as server:
        broker = RedisBroker(server.url)
        author = Author(broker, TOPIC)
        await author.start()
        await author.add(*(told("agent_delta", kind="d", message="m", text=text) for text in ("o", "pen")), told("own"))
        async with Redis.from_url(server.url) as redis:
            await redis.save()
        await author.add(told("message_discarded", kind="e", message="m"))
        fault = RollingBack(broker, server)
        state = await read_topic(fault, TOPIC)
        await broker.aclose()
    assert state.position.offset == 4
    assert [opened["text"] for opened in state.mirror.open] == ["open"]
    assert fault.pages > 2
