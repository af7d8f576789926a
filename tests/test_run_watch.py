"""What a process finds out about runs by looking at its rings."""

from typing import Any

import pytest

from gateway import run_watch
from gateway.codec import encode_event
from gateway.frames import publication_line
from gateway.ring import RingBudget
from gateway.run_watch import RunWatch
from gateway.topic import HubTopic
from gateway.types import Topic


class Heard(HubTopic):
    """A topic whose ring is filled by hand."""

    def __init__(self, *, limit: int = 1_000_000) -> None:
        super().__init__(Topic("t"), "gw:t", RingBudget(limit))
        self.restart("aaaaaaaa", 0)

    def say(self, *events: dict[str, Any]) -> None:
        for event in events:
            offset = self.ring.end + 1
            self.ring.append(offset, publication_line(self.prefix, offset, encode_event({"run": "r", **event})))


START = {"type": "agent_start", "at": 1000, "agent": "a"}


def test_times_are_those_of_the_events() -> None:
    topic, watch = Heard(), RunWatch()
    topic.say(START, {"type": "agent_thinking", "at": 1400, "text": "hm"}, {"type": "agent_delta", "at": 9000})
    topic.say({"type": "cancel_requested", "at": 9000}, {"type": "agent_cancelled", "at": 9500})
    watch.look([topic])
    assert watch.first_output.total == pytest.approx(0.4)
    assert watch.stops.total == pytest.approx(0.5)
    assert (watch.started, watch.ends) == (1, {"cancelled": 1})


def test_an_event_is_counted_once_however_often_it_is_looked_at() -> None:
    topic, watch = Heard(), RunWatch()
    topic.say(START)
    for _ in range(3):
        watch.look([topic])
    topic.say({"type": "agent_complete", "at": 2000})
    for _ in range(3):
        watch.look([topic])
    assert (watch.started, watch.ends) == (1, {"completed": 1})


def test_a_step_has_a_bound_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_watch, "LINES_A_STEP", 2)
    topic, watch = Heard(), RunWatch()
    topic.say(*[{"type": "note"}] * 3, START)
    watch.look([topic])
    assert watch.started == 0
    watch.look([topic])
    assert watch.started == 1


def test_what_the_ring_has_lost_is_passed_over() -> None:
    topic, watch = Heard(limit=1), RunWatch()
    topic.say(START)
    watch.look([topic])
    topic.say({"type": "agent_error", "at": 2000, "error": "x"})
    watch.look([topic])
    assert (watch.started, watch.ends) == (0, {})


def test_text_that_looks_like_an_event_is_none() -> None:
    topic, watch = Heard(), RunWatch()
    topic.say({"type": "note", "at": 1, "data": START}, {"type": "note", "at": 1, "data": {"type": "agent_delta"}})
    watch.look([topic])
    assert (watch.started, sum(watch.states().values())) == (0, 0)


def test_a_history_that_was_replaced_begins_anew() -> None:
    topic, watch = Heard(), RunWatch()
    topic.say(START)
    watch.look([topic])
    assert watch.states()["running"] == 1
    topic.restart("bbbbbbbb", 5)
    watch.look([topic])
    assert watch.states()["running"] == 0
    watch.look([])
    topic.say(START)
    watch.look([topic])
    assert watch.started == 2


def test_questions_wait_until_they_are_answered_or_the_run_ends() -> None:
    topic, watch = Heard(), RunWatch()
    asked = [{"type": "approval_required", "at": 2000 + n, "tool_call_id": f"c{n}"} for n in range(3)]
    topic.say(START, *asked)
    watch.look([topic])
    assert watch.waiting(now=5000) == (3, 3.0)
    assert watch.states()["waiting"] == 1
    topic.say({"type": "approval_decided", "at": 4000, "tool_call_id": "c0"})
    watch.look([topic])
    assert watch.waiting(now=5001) == (2, 3.0)
    assert watch.decisions.total == pytest.approx(2.0)
    topic.say({"type": "agent_complete", "at": 5000})
    watch.look([topic])
    assert watch.waiting(now=6000) == (0, 0.0)
