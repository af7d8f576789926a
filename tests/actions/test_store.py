"""One append, however often it is tried, and whatever became of its answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.actions import Actions, Caller
from gateway.actions.store import Action, ActionStore, Earlier
from gateway.broker.port import Appended, AppendRequest, Condition, Unmet
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError, CommandError
from gateway.grants import EVERYTHING
from gateway.types import Position, Topic
from tests.acting import Actor, Person
from tests.publishing import events
from tests.servers import RedisServer

TOPIC = Topic("chat:1")
ANN = Caller(client="c", identity=msgspec.structs.replace(EVERYTHING, user="ann"))


def action(*asked: Any) -> Action:
    return Action.of(ANN, "test", TOPIC, "1", *asked)


async def test_repeated_action_is_written_once(broker: RedisBroker) -> None:
    store = ActionStore(broker)
    first = await store.act(action("a"), {"type": "x"})
    again = await store.act(action("a"), {"type": "x"})
    assert isinstance(first, Appended)
    assert isinstance(again, Appended)
    assert (again.position, again.repeated) == (first.position, True)
    assert [(event["type"], event["by"]) for event in await events(broker, TOPIC)] == [("x", "ann")]


async def test_another_body_under_one_id_is_a_conflict(broker: RedisBroker) -> None:
    store = ActionStore(broker)
    await store.act(action("a"), {"type": "x"})
    with pytest.raises(CommandError, match="409"):
        await store.act(action("b"), {"type": "x"})


async def test_another_outcome_of_the_same_action_is_known(broker: RedisBroker) -> None:
    store = ActionStore(broker)
    first = await store.act(action("a"), {"type": "x"}, outcome="run/1")
    assert isinstance(first, Appended)
    assert await store.act(action("a"), {"type": "y"}) == Earlier(outcome="run/1", position=first.position)
    with pytest.raises(CommandError, match="409"):
        await store.act(action("b"), {"type": "x"}, outcome="run/1")


async def test_condition_that_does_not_hold_writes_nothing(broker: RedisBroker) -> None:
    store = ActionStore(broker)
    answer = await store.act(action("a"), {"type": "x"}, conditions=(Condition(field="m:1", op="=", value="-"),))
    assert isinstance(answer, Unmet)
    assert (answer.field, answer.value) == ("m:1", "")
    assert not await store.written(TOPIC)


async def test_action_on_a_topic_that_nobody_wrote_leaves_no_trace(broker: RedisBroker) -> None:
    person = Person(broker, TOPIC)
    assert (await person.do("cancel", run="r1"))["status"] == "unknown"
    assert (await person.do("cancel", message="m1"))["status"] == "unknown"
    for method, data in [
        ("edit", {"message": "m", "content": "x"}),
        ("withdraw", {"message": "m"}),
        ("decide", {"run": "r", "tool_call_id": "c", "decision": "approve"}),
    ]:
        with pytest.raises(CommandError, match="107"):
            await person.do(method, **data)
    assert await broker.topics() == []


@pytest.mark.parametrize("losses", [1, 2, 3])
async def test_answers_that_were_lost_change_nothing(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    append, left = broker.append, 0

    async def losing(topic: Topic, request: AppendRequest, *, position: Position) -> Any:
        nonlocal left
        answer = await append(topic, request, position=position)
        if left > 0:
            left -= 1
            raise BrokerUnavailableError("the answer was lost")
        return answer

    person, run = Person(broker, TOPIC), Actor(broker, TOPIC)
    await run.start()
    await run.ask("open")
    await run.ask("late", deadline=1)
    message = (await person.do("send", content="hi", id="m"))["message"]
    before = len(await events(broker, TOPIC))
    monkeypatch.setattr(broker, "append", losing)
    answers = []
    for number, (method, data) in enumerate(
        [
            ("edit", {"message": message, "content": "new"}),
            ("decide", {"run": "r1", "tool_call_id": "open", "decision": "edit", "arguments": "{}"}),
            ("decide", {"run": "r1", "tool_call_id": "late", "decision": "approve"}),
            ("cancel", {"message": message}),
            ("cancel", {"run": "r1"}),
        ]
    ):
        left = losses
        answers.append(await person.do(method, id=str(number), **data))
    assert [answer.get("status", answer.get("won")) for answer in answers] == [
        "edited",
        True,
        False,
        "withdrawn",
        "requested",
    ]
    assert [event["type"] for event in (await events(broker, TOPIC))[before:]] == [
        "message_edited",
        "approval_decided",
        "approval_decided",
        "message_withdrawn",
        "cancel_requested",
    ]


async def test_run_learns_of_an_action_with_its_next_append(broker: RedisBroker, other: RedisBroker) -> None:
    run, person = Actor(broker, TOPIC), Person(other, TOPIC)
    await run.start()
    cancel = await person.do("cancel", run="r1")
    assert (await run.append({"type": "log"})).people == cancel["offset"]


async def test_stop_waits_for_a_broker_that_is_away(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes", "appendfsync": "always"}) as server:
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        run, person = Actor(broker, TOPIC), Person(broker, TOPIC)
        await run.start()
        server.kill()
        server.start()
        assert (await person.do("cancel", run="r1"))["status"] == "requested"
        await broker.aclose()


async def test_full_topic_refuses_actions_with_its_size(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=400)
    run, person = Actor(broker, TOPIC), Person(broker, TOPIC)
    await run.start()
    await run.append({"type": "log", "message": "x" * 200})
    with pytest.raises(CommandError, match="106"):
        await person.do("send", content="x" * 200)
    assert (await person.do("cancel", run="r1"))["status"] == "requested"
    with pytest.raises(CommandError, match="106"):
        await Actions(broker).publish(ANN, TOPIC, msgspec.Raw(b'{"text":"%s"}' % (b"x" * 200)), count=1)
    await broker.aclose()
