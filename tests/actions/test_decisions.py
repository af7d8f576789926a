"""Approvals: one decision, and everybody knows whose."""

import asyncio
from functools import partial
from typing import Any

import pytest

from gateway.broker.port import Appended, Condition
from gateway.broker.redis import RedisBroker
from gateway.errors import CommandError
from gateway.types import Topic
from tests.acting import Actor, Interleaved, Person
from tests.publishing import events, mirror

TOPIC = Topic("chat:1")


async def asking(broker: RedisBroker, *, deadline: int = 0, topic: str = TOPIC) -> Actor:
    run = Actor(broker, topic)
    await run.start()
    await run.ask("c1", deadline=deadline)
    return run


async def approval(broker: RedisBroker) -> dict[str, Any]:
    return (await mirror(broker, TOPIC))["approvals"][0]  # type: ignore[no-any-return]  # JSON


@pytest.mark.parametrize(
    "data",
    [
        {"decision": "expired"},
        {"decision": None},
        {"decision": "edit"},
        {"decision": "edit", "arguments": {"a": 1}},
        {"decision": "edit", "arguments": '{"a":'},
        {"decision": "approve", "arguments": "{}"},
        {"decision": "approve", "reason": 5},
        {"decision": "approve", "run": None},
        {"decision": "approve", "tool_call_id": None},
        {"decision": "approve", "id": None},
    ],
)
async def test_decision_of_another_form_is_refused(broker: RedisBroker, data: dict[str, Any]) -> None:
    await asking(broker)
    with pytest.raises(CommandError, match="107"):
        await Person(broker, TOPIC).do("decide", **{"run": "r1", "tool_call_id": "c1", **data})
    assert (await approval(broker))["decision"] is None


async def test_parallel_decisions_have_one_winner_whom_all_are_told(broker: RedisBroker, other: RedisBroker) -> None:
    """Report 70."""
    await asking(broker, deadline=broker.now() + 60_000)
    people = [Person(broker if number % 2 else other, TOPIC, user=f"user{number}") for number in range(50)]
    choices = ["approve" if number % 3 else "reject" for number in range(50)]
    answers = await asyncio.gather(
        *(
            person.do("decide", run="r1", tool_call_id="c1", decision=decision)
            for person, decision in zip(people, choices, strict=True)
        )
    )
    winners = [number for number, answer in enumerate(answers) if answer["won"]]
    assert len(winners) == 1
    truth = {"decision": choices[winners[0]], "by": f"user{winners[0]}"}
    assert all({name: answer[name] for name in truth} == truth for answer in answers)
    shown = await approval(broker)
    assert {name: shown[name] for name in truth} == truth
    assert [event["type"] for event in await events(broker, TOPIC)].count("approval_decided") == 1


async def test_edit_and_reason_reach_the_run_as_they_were_given(broker: RedisBroker, other: RedisBroker) -> None:
    """Report 74: the call that was decided stays in the mirror, as asked and as edited."""
    await asking(broker)
    arguments = '{"path": "/tmp/ü", "n": 1.0}'
    answer = await Person(other, TOPIC).do(
        "decide", run="r1", tool_call_id="c1", decision="edit", arguments=arguments, reason="not there"
    )
    event = (await events(broker, TOPIC))[answer["offset"] - 1]
    assert (event["run"], event["tool_call_id"], event["arguments"]) == ("r1", "c1", arguments)
    shown = await approval(broker)
    assert (shown["arguments"], shown["edited"], shown["reason"], shown["by"]) == ("{}", arguments, "not there", "ann")


async def test_late_decision_writes_the_expiry_once(broker: RedisBroker, other: RedisBroker) -> None:
    """Reports 68 and 72: the approval is shown as expired, and every later attempt is told so."""
    await asking(broker, deadline=broker.now() - 1)
    people = [Person(broker if number % 2 else other, TOPIC, user=f"user{number}") for number in range(20)]
    answers = await asyncio.gather(
        *(person.do("decide", run="r1", tool_call_id="c1", decision="approve") for person in people)
    )
    assert answers == [{"won": False, "decision": "expired", "by": None}] * 20
    assert [event["type"] for event in await events(broker, TOPIC)].count("approval_decided") == 1
    shown = await approval(broker)
    assert (shown["decision"], shown["by"]) == ("expired", None)


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_decision_that_meets_its_deadline(broker: RedisBroker, other: RedisBroker, before: int) -> None:
    """It passes before one of the calls that a decision is made of."""
    deadline = broker.now() + 300
    await asking(broker, deadline=deadline)
    meeting = Interleaved(other, partial(passed, broker, deadline), before=before)
    answer = await Person(meeting, TOPIC).do("decide", run="r1", tool_call_id="c1", decision="approve")
    assert meeting.answer
    assert answer == {"won": False, "decision": "expired", "by": None}
    assert (await approval(broker))["decision"] == "expired"
    assert await Person(other, TOPIC).do("decide", run="r1", tool_call_id="c1", decision="approve") == answer


async def passed(broker: RedisBroker, deadline: int) -> bool:
    while broker.now() <= deadline + 5:
        await asyncio.sleep(0.01)
    return True


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
async def test_decision_and_end_meet_in_one_truth(broker: RedisBroker, other: RedisBroker, *, late: bool) -> None:
    """What a run leaves undecided is expired in every mirror; a decision after its end must not be told as one."""
    answers: list[dict[str, Any]] = []
    ended: Any = None
    while ended is not None or not answers:
        topic = f"race:{len(answers)}"
        run = await asking(broker, deadline=1 if late else 0, topic=topic)
        meeting = Interleaved(other, partial(run.end, "agent_error", error="no"), before=len(answers))
        answer = await Person(meeting, topic).do("decide", run="r1", tool_call_id="c1", decision="approve")
        ended = meeting.answer
        answers.append(answer)
        shown = (await mirror(broker, topic))["approvals"][0]
        assert (shown["decision"], shown["by"]) == (answer["decision"], answer["by"])
        written = [event["type"] for event in await events(broker, topic)]
        assert written.count("approval_decided") == (ended is None)
        assert answer.get("ended") == (None if ended is None else "failed")
    assert [answer["won"] for answer in answers] == [False] * (len(answers) - 1) + [not late]
    assert len(answers) == (5 if late else 4)


async def test_decision_leaves_the_deadline_in_the_state(broker: RedisBroker) -> None:
    deadline = broker.now() + 60_000
    run = await asking(broker, deadline=deadline)
    await Person(broker, TOPIC).do("decide", run="r1", tool_call_id="c1", decision="approve")
    held = Condition(field="a:r1/c1", op="=", value=f'approve {deadline} "ann"')
    assert isinstance(await run.append({"type": "log"}, conditions=(held,)), Appended)


async def test_approval_that_nobody_asked_is_named(broker: RedisBroker) -> None:
    await asking(broker)
    with pytest.raises(
        CommandError, match=r"107: no approval of the tool call 'c2' of the run 'r1' is known on chat:1"
    ):
        await Person(broker, TOPIC).do("decide", run="r1", tool_call_id="c2", decision="approve")
