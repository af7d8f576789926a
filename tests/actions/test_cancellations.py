"""Stop, from anywhere, and only what was meant."""

import asyncio
from functools import partial
from typing import Any

import pytest

from gateway.broker.redis import RedisBroker
from gateway.errors import CommandError
from gateway.types import Topic
from tests.acting import Actor, Interleaved, Person
from tests.publishing import events, mirror

TOPIC = Topic("chat:1")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"run": "r1", "message": "m"},
        {"run": ""},
        {"run": 5},
        {"message": []},
        {"run": "r1", "mode": "later"},
        {"run": "r1", "id": None},
    ],
)
async def test_cancel_of_another_form_is_refused(broker: RedisBroker, data: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="107"):
        await Person(broker, TOPIC).do("cancel", **data)


async def test_request_is_on_the_topic_with_who_and_how(broker: RedisBroker, other: RedisBroker) -> None:
    """Report 58: the page learns of it like every other reader, and only the run's end says stopped."""
    await Actor(broker, TOPIC).start()
    answer = await Person(other, TOPIC, user="bob").do("cancel", run="r1", mode="after_step")
    run = (await mirror(broker, TOPIC))["runs"][0]
    assert (run["status"], run["cancel"]) == ("cancelling", {"by": "bob", "mode": "after_step"})
    assert answer["offset"] == len(await events(broker, TOPIC))


async def test_stop_can_become_more_urgent(broker: RedisBroker) -> None:
    await Actor(broker, TOPIC).start()
    person = Person(broker, TOPIC)
    await person.do("cancel", run="r1", mode="after_step", id="1")
    await person.do("cancel", run="r1", mode="now", id="2")
    assert (await mirror(broker, TOPIC))["runs"][0]["cancel"]["mode"] == "now"


@pytest.mark.parametrize("by", ["run", "message"])
async def test_late_stop_never_hits_the_next_run(broker: RedisBroker, other: RedisBroker, by: str) -> None:
    """Report 1: a stop names what it means, whenever it arrives."""
    person = Person(other, TOPIC)
    message = (await person.do("send", content="hi", id="m"))["message"]
    run = Actor(broker, TOPIC)
    await run.start(taken={"id": message, "content": "hi"})
    await run.end()
    await Actor(broker, TOPIC, run="next").start()
    answer = await person.do("cancel", **{by: "r1" if by == "run" else message})
    assert (answer["status"], answer["run"], answer["as"]) == ("ended", "r1", "completed")
    assert [entry["status"] for entry in (await mirror(broker, TOPIC))["runs"]] == ["completed", "running"]


@pytest.mark.parametrize("by", ["run", "message"])
async def test_stop_and_end_meet_in_one_truth(broker: RedisBroker, other: RedisBroker, by: str) -> None:
    """Report 62: either the request stands before the end, or nothing of it is written."""
    statuses: list[str] = []
    ended: Any = None
    while ended is not None or not statuses:
        topic = f"race:{len(statuses)}"
        run, person = Actor(broker, topic), Person(other, topic)
        message = (await person.do("send", content="hi", id="m"))["message"]
        await run.start(taken={"id": message, "content": "hi"})
        data = {by: "r1" if by == "run" else message}
        meeting = Interleaved(other, run.end, before=len(statuses))
        answer = await Person(meeting, topic).do("cancel", **data)
        ended = meeting.answer
        statuses.append(answer["status"])
        asked = ["cancel_requested"] if answer["status"] == "requested" else []
        if ended is None:
            await run.end()
        written = [event["type"] for event in await events(broker, topic)]
        assert written[3:] == [*asked, "agent_complete"]
        assert await person.do("cancel", **data) == answer
        again = await person.do("cancel", **data, id="other")
        assert (again["status"], again["as"]) == ("ended", "completed")
    assert statuses == ["ended"] * (len(statuses) - 1) + ["requested"]
    assert len(statuses) == (3 if by == "run" else 5)


@pytest.mark.parametrize("others", ["edit", "withdraw", "cancel"])
async def test_stop_of_a_message_that_somebody_else_changes(
    broker: RedisBroker, other: RedisBroker, others: str
) -> None:
    for before in range(4):
        topic = f"race:{before}"
        bob = Person(broker, topic, user="bob")
        message = (await bob.do("send", content="hi", id="m"))["message"]
        step = partial(bob.do, others, message=message, content="new" if others == "edit" else None)
        meeting = Interleaved(other, step, before=before)
        answer = await Person(meeting, topic).do("cancel", message=message)
        assert answer["status"] == "withdrawn"
        gone = [event for event in await events(broker, topic) if event["type"] == "message_withdrawn"]
        assert [event["by"] for event in gone] == [answer["by"]]
        if others != "edit" and meeting.answer is not None:
            assert meeting.answer["by"] == answer["by"] == "bob"


async def test_repeated_stop_by_message_finds_what_it_did(broker: RedisBroker, other: RedisBroker) -> None:
    person = Person(other, TOPIC)
    message = (await person.do("send", content="hi", id="m"))["message"]
    run = Actor(broker, TOPIC)
    await run.start(taken={"id": message, "content": "hi"})
    first = await person.do("cancel", message=message)
    assert (first["status"], first["run"], first["message"]) == ("requested", "r1", message)
    await run.end("agent_cancelled")
    assert await person.do("cancel", message=message) == first
    with pytest.raises(CommandError, match="409"):
        await person.do("cancel", message=message, mode="after_step")


async def test_parallel_repetitions_of_one_stop_are_one_request(broker: RedisBroker, other: RedisBroker) -> None:
    person = Person(other, TOPIC)
    message = (await person.do("send", content="hi", id="m"))["message"]
    await Actor(broker, TOPIC).start(taken={"id": message, "content": "hi"})
    people = [Person(broker if number % 2 else other, TOPIC) for number in range(20)]
    answers = await asyncio.gather(*(one.do("cancel", message=message) for one in people))
    assert all(answer == answers[0] for answer in answers)
    assert [event["type"] for event in await events(broker, TOPIC)].count("cancel_requested") == 1
