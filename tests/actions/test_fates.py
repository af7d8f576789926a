"""Ends are found wherever they are still told of."""

from typing import Any

import pytest

from gateway.actions.fates import Fates
from gateway.actions.store import ActionStore
from gateway.broker.port import Change
from gateway.broker.redis import RedisBroker
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.acting import Actor, Person, trim
from tests.publishing import mirror
from tests.serving import append

TOPIC = Topic("chat:1")


async def answered(broker: RedisBroker) -> tuple[str, str]:
    """A message that a real run has taken and answered; gives both ids."""
    message = (await Person(broker, TOPIC).do("send", content="hi", id="m"))["message"]
    waiting = (await mirror(broker, TOPIC))["queue"][0]
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a", taken=waiting) as run:
        pass
    return message, run.id


@pytest.mark.parametrize("trimmed", [False, True])
async def test_taker_of_a_message(broker: RedisBroker, trimmed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    message, run = await answered(broker)
    if trimmed:
        await trim(broker, TOPIC)
    fate = await Fates(ActionStore(broker)).message(TOPIC, message)
    assert fate is not None
    assert (fate.status, fate.run) == ("taken", run)


async def test_message_is_found_behind_many_pages(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.actions.fates.PAGE", 3)
    for number in range(5):
        await append(broker, TOPIC, {"type": "log", "message": f"message_taken {number}"}, {"n": number})
    person = Person(broker, TOPIC)
    message = (await person.do("send", content="hi", id="m"))["message"]
    gone = await person.do("withdraw", message=message)
    await append(broker, TOPIC, *[{"n": number} for number in range(10)])
    fates = Fates(ActionStore(broker))
    fate = await fates.message(TOPIC, message)
    assert fate is not None
    assert fate.position is not None
    assert (fate.status, fate.by, fate.position.offset) == ("withdrawn", "ann", gone["offset"])
    assert await fates.message(TOPIC, "message_taken 1") is None


async def test_message_that_a_run_refused_is_told_with_the_reason(broker: RedisBroker) -> None:
    """No person withdrew it, so there is no `by`."""
    run, person = Actor(broker, TOPIC), Person(broker, TOPIC)
    await run.start()
    message = (await person.do("send", content="hi", id="m"))["message"]
    gone = (
        await run.append(
            {"type": "message_withdrawn", "id": message, "reason": "busy"},
            changes=(Change(field=f"m:{message}", value=""),),
        )
    ).position
    place = {"epoch": gone.epoch, "offset": gone.offset}
    told = {"status": "withdrawn", "message": message, "by": None, "reason": "busy", **place}
    assert await person.do("withdraw", message=message) == told
    assert await person.do("edit", message=message, content="x", id="2") == told
    assert await person.do("cancel", message=message, id="3") == told


async def test_event_that_only_speaks_of_a_message_is_none_of_its_own(broker: RedisBroker) -> None:
    await append(broker, TOPIC, {"type": "note", "id": "m1", "text": "message_taken"})
    assert await Fates(ActionStore(broker)).message(TOPIC, "m1") is None


@pytest.mark.parametrize(
    ("type", "status"),
    [
        ("agent_complete", "completed"),
        ("agent_error", "failed"),
        ("agent_cancelled", "cancelled"),
        ("agent_lost", "lost"),
    ],
)
@pytest.mark.parametrize("trims", [0, 1, 2])
async def test_end_of_a_run(broker: RedisBroker, type: str, status: str, trims: int) -> None:
    run, person = Actor(broker, TOPIC), Person(broker, TOPIC)
    await run.start()
    await run.end(type, error="no")
    for _ in range(trims):
        await append(broker, TOPIC, {"n": 1})
        await trim(broker, TOPIC)
    answer = await person.do("cancel", run="r1")
    assert answer == {"status": "ended", "run": "r1", "as": status}


async def test_end_that_no_mirror_holds_is_unknown(broker: RedisBroker) -> None:
    """A mirror holds the last 100 ended runs."""
    run = Actor(broker, TOPIC, run="r0")
    await run.start()
    fate: Any = (await run.end()).position
    for number in range(1, 102):
        run = Actor(broker, TOPIC, run=f"r{number}")
        await run.start()
        await run.end()
    await trim(broker, TOPIC)
    fates = Fates(ActionStore(broker))
    told = f"end {fate.epoch} {fate.offset} {fate.offset}"
    assert await fates.ended_run(TOPIC, "r0", told) == "unknown"
    assert await fates.ended_run(TOPIC, "r0", "") is None
    assert await fates.ended_run(TOPIC, "r101", "") == "completed"


async def test_decision_that_the_state_has_forgotten(broker: RedisBroker) -> None:
    run, person = Actor(broker, TOPIC), Person(broker, TOPIC)
    await run.start()
    await run.ask("c1")
    await person.do("decide", run="r1", tool_call_id="c1", decision="reject")
    await run.end()
    fates = Fates(ActionStore(broker))
    assert await fates.decision(TOPIC, "r1", "c1") is None
    for _ in range(2):
        await append(broker, TOPIC, {"n": 1})
        await trim(broker, TOPIC)
    assert await fates.decision(TOPIC, "r1", "c1") == ("reject", "ann")
    assert await fates.decision(TOPIC, "r1", "c2") is None
