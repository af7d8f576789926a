"""What clients put on a topic, through an outage too."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.actions import MAX_CONTENT, Actions, Caller
from gateway.broker.port import AppendRequest
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError, CommandError
from gateway.types import START, Position, Topic
from tests.servers import RedisServer

CALLER = Caller(client="c1")


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


async def events(broker: RedisBroker, topic: str) -> list[dict[str, Any]]:
    history = await broker.read(Topic(topic), START)
    return [msgspec.json.decode(event.data) for event in history.events]


async def test_append_whose_answer_was_lost_is_stored_once(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    append, lost = broker.append, 0

    async def losing(topic: Topic, request: AppendRequest, *, position: Position) -> Any:
        nonlocal lost
        answer = await append(topic, request, position=position)
        if lost < 2:
            lost += 1
            raise BrokerUnavailableError("the answer was lost")
        return answer

    monkeypatch.setattr(broker, "append", losing)
    actions = Actions(broker)
    position = await actions.publish(CALLER, "once", raw({"n": 1}), count=1)
    lost = 0
    sent = await actions.rpc(CALLER, "send", raw({"topic": "once", "content": "hi", "id": "a"}))
    assert position.offset == 1
    assert sent["offset"] == 2
    assert [event.get("content", event.get("n")) for event in await events(broker, "once")] == [1, "hi"]
    await broker.aclose()


async def test_append_waits_for_a_broker_that_is_away(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "always"}) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        actions = Actions(broker)
        await actions.publish(CALLER, "t", raw({"n": 1}), count=1)
        with server.away():
            publishing = asyncio.create_task(actions.publish(CALLER, "t", raw({"n": 2}), count=2))
            await asyncio.sleep(0.2)
            assert not publishing.done()
        assert (await publishing).offset == 2
        await broker.aclose()


async def test_send_by_another_user_under_the_same_id_is_another_message(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    actions = Actions(broker)
    body = raw({"topic": "u", "content": "hi", "id": "a"})
    first = await actions.rpc(Caller(client="c1", user="ann/1"), "send", body)
    again = await actions.rpc(Caller(client="c2", user="ann/1"), "send", body)
    other = await actions.rpc(Caller(client="c3", user="bob"), "send", body)
    assert first == again
    assert other["message"] != first["message"]
    assert [event["by"] for event in await events(broker, "u")] == ["ann/1", "bob"]
    await broker.aclose()


async def test_content_is_bounded(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    actions = Actions(broker)
    body = {"topic": "u", "content": "x" * MAX_CONTENT, "id": "a"}
    assert (await actions.rpc(CALLER, "send", raw(body)))["offset"] == 1
    with pytest.raises(CommandError, match="107"):
        await actions.rpc(CALLER, "send", raw({**body, "content": "x" * (MAX_CONTENT + 1), "id": "b"}))
    await broker.aclose()


async def test_methods_plug_in(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    actions = Actions(broker)

    async def echo(caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
        return {"by": caller.name, **data}

    actions.methods["echo"] = echo
    assert await actions.rpc(CALLER, "echo", raw({"x": 1})) == {"by": "anonymous", "x": 1}
    await broker.aclose()


async def test_full_topic_is_said(redis_url: str, key_prefix: str) -> None:
    # No snapshot is so small, so nothing is to be gained by folding.
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=600)
    actions = Actions(broker)
    count = 0

    async def fill() -> None:
        nonlocal count
        while count < 20:
            await actions.publish(CALLER, "full", raw({"text": "x" * 200}), count=count)
            count += 1

    with pytest.raises(CommandError, match="106"):
        await fill()
    assert count > 0
    assert (await broker.read(Topic("full"), START)).top == count
    await broker.aclose()
