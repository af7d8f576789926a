from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.context.errors import InvalidEventError
from gateway.context.event import BOOKKEEPING_TYPES, EVENT_TYPES, SURFACE_TYPES, Event, read_surface_op

T0 = datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_types_are_surface_or_bookkeeping() -> None:
    assert EVENT_TYPES == SURFACE_TYPES | BOOKKEEPING_TYPES
    assert not SURFACE_TYPES & BOOKKEEPING_TYPES


def test_position_is_the_start_of_what_is_replaced() -> None:
    event = Event(seq=9, type="user_message", time=T0, data={"surface_op": ["replace", 2, 4]})
    assert (event.position, event.surface_op, event.is_surface) == (2, (2, 4), True)


def test_position_is_the_seq_of_what_only_appends() -> None:
    event = Event(seq=9, type="turn_start", time=T0, data={})
    assert (event.position, event.surface_op, event.is_surface) == (9, None, False)


def test_to_dict_is_the_callers_own() -> None:
    event = Event(seq=0, type="user_message", time=T0, data={"metadata": {"a": [1]}})
    event.to_dict()["data"]["metadata"]["a"].append(2)
    assert event.data == {"metadata": {"a": [1]}}


def test_from_dict_reads_what_to_dict_wrote() -> None:
    event = Event(seq=3, type="user_message", time=T0, data={"surface_op": ["replace", 0, 1], "content": "a"})
    assert Event.from_dict(event.to_dict()) == event


@pytest.mark.parametrize(
    "change", [{"seq": -1}, {"seq": True}, {"time": None}, {"time": "soon"}, {"type": "nope"}, {"data": None}]
)
def test_from_dict_refuses(change: Any) -> None:
    raw = Event(seq=3, type="user_message", time=T0, data={}).to_dict()
    with pytest.raises(InvalidEventError):
        Event.from_dict(raw | change)


@pytest.mark.parametrize(
    ("raw", "op"), [(None, None), ("append", None), (["replace", 1, 2], (1, 2)), (("replace", 0, 0), (0, 0))]
)
def test_read_surface_op(raw: Any, op: Any) -> None:
    assert read_surface_op(raw) == op
