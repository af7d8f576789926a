"""Waiting messages, and the races with the run that takes them."""

import asyncio
from functools import partial
from typing import Any

import pytest

from gateway.broker.port import Appended, Unmet
from gateway.broker.redis import RedisBroker
from gateway.errors import CommandError
from gateway.types import Topic
from tests.acting import Actor, Interleaved, Person
from tests.publishing import events, mirror

TOPIC = Topic("chat:1")


async def queue(broker: RedisBroker) -> list[dict[str, Any]]:
    return (await mirror(broker, TOPIC))["queue"]  # type: ignore[no-any-return]  # JSON


async def test_parallel_sends_with_one_id_are_one_message(broker: RedisBroker, other: RedisBroker) -> None:
    """Report 80."""
    people = [Person(broker if number % 2 else other, TOPIC) for number in range(20)]
    answers = await asyncio.gather(*(person.do("send", content="hi") for person in people))
    assert all(answer == answers[0] for answer in answers)
    assert [entry["id"] for entry in await queue(broker)] == [answers[0]["message"]]
    assert len(await events(broker, TOPIC)) == 1


async def test_send_again_after_a_lost_answer_is_the_first_message(broker: RedisBroker, other: RedisBroker) -> None:
    """Report 81: also when it was taken meanwhile."""
    first = await Person(broker, TOPIC).do("send", content="hi")
    assert await Person(other, TOPIC).do("send", content="hi") == first
    await Actor(broker, TOPIC).start(taken=(await queue(broker))[0])
    assert await Person(other, TOPIC).do("send", content="hi") == first
    with pytest.raises(CommandError, match="409"):
        await Person(other, TOPIC).do("send", content="another")
    assert await queue(broker) == []


async def test_edit_changes_what_every_mirror_shows_and_what_is_taken(broker: RedisBroker, other: RedisBroker) -> None:
    """Report 78."""
    sent = await Person(broker, TOPIC).do("send", content="first", id="m")
    stale = (await queue(broker))[0]
    content = [{"type": "text", "text": "second"}]
    edited = await Person(other, TOPIC, user="bob").do("edit", message=sent["message"], content=content)
    assert edited["offset"] == sent["offset"] + 1
    waiting = (await queue(broker))[0]
    assert (waiting["content"], waiting["by"]) == (content, "ann")
    assert isinstance(await Actor(broker, TOPIC, run="early").start(taken=stale), Unmet)
    assert isinstance(await Actor(broker, TOPIC).start(taken=waiting), Appended)


async def test_parallel_edits_all_count_and_the_last_one_stays(broker: RedisBroker, other: RedisBroker) -> None:
    message = (await Person(broker, TOPIC).do("send", content="first", id="m"))["message"]
    people = [Person(broker if number % 2 else other, TOPIC) for number in range(20)]
    answers = await asyncio.gather(
        *(
            person.do("edit", message=message, content=f"by {number}", id=f"e{number}")
            for number, person in enumerate(people)
        )
    )
    assert sorted(answer["offset"] for answer in answers) == list(range(2, 22))
    last = (await events(broker, TOPIC))[-1]["content"]
    assert [entry["content"] for entry in await queue(broker)] == [last]
    assert isinstance(await Actor(broker, TOPIC).start(taken={"id": message, "content": last}), Appended)


@pytest.mark.parametrize("method", ["edit", "withdraw", "cancel"])
async def test_message_is_either_changed_or_taken(broker: RedisBroker, other: RedisBroker, method: str) -> None:
    """Whenever the run takes it: whoever is later is told so, and nothing happens twice."""
    statuses: list[str] = []
    taken: Any = None
    while taken is not None or not statuses:
        topic = f"race:{len(statuses)}"
        run = Actor(broker, topic)
        message = (await Person(other, topic).do("send", content="first", id="m"))["message"]
        step = partial(run.start, taken=(await mirror(broker, topic))["queue"][0])
        meeting = Interleaved(other, step, before=len(statuses))
        data = {"message": message, "content": "second" if method == "edit" else None}
        answer = await Person(meeting, topic).do(method, **data)
        taken = meeting.answer
        statuses.append(answer["status"])
        state = await mirror(broker, topic)
        if answer["status"] in {"edited", "withdrawn"}:
            assert taken is None or isinstance(taken, Unmet)
            contents = ["second"] if answer["status"] == "edited" else []
            assert [entry["content"] for entry in state["queue"]] == contents
            assert state["runs"] == []
        else:
            assert answer["run"] == "r1"
            assert isinstance(taken, Appended)
            assert state["queue"] == []
            assert state["runs"][0]["status"] == ("cancelling" if method == "cancel" else "running")
        assert await Person(other, topic).do(method, **data) == answer
    late, early = ("requested" if method == "cancel" else "taken"), ("edited" if method == "edit" else "withdrawn")
    assert statuses == [late, late, late, early]


async def test_withdrawn_twice_is_withdrawn_once(broker: RedisBroker, other: RedisBroker) -> None:
    message = (await Person(broker, TOPIC).do("send", content="first", id="m"))["message"]
    people = [Person(broker if number % 2 else other, TOPIC, user=f"user{number}") for number in range(20)]
    answers = await asyncio.gather(*(person.do("withdraw", message=message) for person in people))
    assert all(answer == answers[0] for answer in answers)
    assert [event["type"] for event in await events(broker, TOPIC)] == ["message_queued", "message_withdrawn"]
    assert answers[0]["by"] == (await events(broker, TOPIC))[-1]["by"]
