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
from gateway.grants import EVERYTHING, Grant, Identity
from gateway.types import START, Position, Topic
from tests.servers import RedisServer, attempts
from tests.serving import eventually

CALLER = Caller(client="c1", identity=EVERYTHING)


def _by(user: str, *, client: str) -> Caller:
    return Caller(client=client, identity=msgspec.structs.replace(EVERYTHING, user=user))


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
            with attempts() as made:
                await eventually(lambda: len(made) >= 2)
            assert not publishing.done()
        assert (await publishing).offset == 2
        await broker.aclose()


async def test_send_by_another_user_under_the_same_id_is_another_message(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    actions = Actions(broker)
    body = raw({"topic": "u", "content": "hi", "id": "a"})
    first = await actions.rpc(_by("ann/1", client="c1"), "send", body)
    again = await actions.rpc(_by("ann/1", client="c2"), "send", body)
    other = await actions.rpc(_by("bob", client="c3"), "send", body)
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

    actions.methods["export"] = echo
    assert await actions.rpc(CALLER, "export", raw({"topic": "t"})) == {"by": "anonymous", "topic": "t"}
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


@pytest.mark.parametrize("method", ["cancel", "decide", "edit", "send", "withdraw"])
async def test_method_needs_its_own_verb_on_the_topic(redis_url: str, key_prefix: str, method: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    actions = Actions(broker)
    others = tuple(verb for verb in EVERYTHING.verbs(Topic("t")) if verb != method)
    may_others = Caller(client="c", identity=Identity(user="ann", grants=(Grant(pattern="*", verbs=others),)))
    elsewhere = Caller(client="c", identity=Identity(user="ann", grants=(Grant(pattern="u", verbs=(method,)),)))
    for caller in (may_others, elsewhere):
        with pytest.raises(CommandError, match="103: permission denied"):
            await actions.rpc(caller, method, raw({"topic": "t", "id": "1"}))
    assert await broker.topics() == []
    with pytest.raises(CommandError, match="104"):
        await actions.rpc(may_others, "no-such-method", raw({"topic": "t"}))
    await broker.aclose()


async def test_publish_needs_the_grant(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    caller = Caller(client="c", identity=Identity(grants=(Grant(pattern="mine", verbs=("publish",)),)))
    await Actions(broker).publish(caller, "mine", raw({"x": 1}), count=1)
    with pytest.raises(CommandError, match="103: permission denied"):
        await Actions(broker).publish(caller, "yours", raw({"x": 1}), count=2)
    assert [topic for topic, _ in await broker.topics()] == ["mine"]
    await broker.aclose()


async def test_topics_lists_those_that_may_be_read_also_among_many_others(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.actions.actions.MAX_TOPICS", 3)
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    actions = Actions(broker)
    for name in ("chat:ann", "chat:bob:1", "chat:bob:2", "chat:bob:3"):
        await actions.publish(CALLER, name, raw({"x": 1}), count=1)
    ann = Caller(client="c", identity=Identity(user="ann", grants=(Grant(pattern="chat:ann*", verbs=("topics",)),)))
    listed = (await actions.rpc(ann, "topics", raw({})))["topics"]
    assert [topic["topic"] for topic in listed] == ["chat:ann"]
    assert len((await actions.rpc(CALLER, "topics", raw({})))["topics"]) == 3
    await broker.aclose()
