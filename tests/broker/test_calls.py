"""What the scripts are given: nothing that would break the stored format."""

from typing import Any

import pytest

from gateway.broker.calls import advance_arguments, append_answer, append_arguments, check_append
from gateway.broker.port import AppendRequest, Change, Condition, Entry, LogStep
from gateway.errors import BrokerError

ENTRY = Entry(kind="h", type="log", data=b"{}")


def request(**fields: Any) -> AppendRequest:
    return AppendRequest(**{"writer": "run1", "seq": "1", "entries": [ENTRY], **fields})


def test_append_arguments_of_the_plainest() -> None:
    assert append_arguments(request(), max_bytes=9) == [
        *("run1", "1", "", "", "", "", "", 9, "", 0, 0),
        *("h", "log", "", b"{}"),
    ]


def test_append_arguments_of_everything() -> None:
    full = request(
        run="run1",
        token="t",
        log=LogStep(first=0, before="", next=2, after="h"),
        lease=5,
        conditions=[Condition(field="m:1", op="=", value="x")],
        changes=[Change(field="a:run1/é x", value="")],
        entries=[Entry(kind="d", type="agent_delta", message="é 1", data=b"{}"), Entry(kind="x", type="", data=b"[]")],
    )
    assert append_arguments(full, max_bytes=9) == [
        *("run1", "1", "run1", "t", 0, "", "2 h", 9, 5, 1, 1),
        *("m:1", "=", "x"),
        *("a:run1/é x", ""),
        *("d", "agent_delta", "%C3%A9%201", b"{}"),
        *("x", "", "", b"[]"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"writer": ""},
        {"writer": "a b"},
        {"writer": "é"},
        {"seq": ""},
        {"seq": "1\n"},
        {"run": "run1"},
        {"token": "t"},
        {"run": "run 1", "token": "t"},
        {"log": LogStep(first=0, before="", next=1, after="h")},
        {"lease": 5},
        {"run": "r", "token": "t", "lease": -1},
        {"run": "r", "token": "t", "lease": 31 * 24 * 3600 * 1000},
        {"run": "r", "token": "t", "log": LogStep(first=-1, before="", next=1, after="h")},
        {"run": "r", "token": "t", "log": LogStep(first=2, before="", next=1, after="h")},
        {"run": "r", "token": "t", "log": LogStep(first=0, before="", next=2**53, after="h")},
        {"run": "r", "token": "t", "log": LogStep(first=0, before="", next=1, after="h h")},
        {"changes": [Change(field="a:r/t", value=f"pending {10**14}")]},
        {"changes": [Change(field="a:r/t", value=f"pending {'9' * 5000}")]},
        {"entries": []},
        {"entries": [ENTRY] * 1001},
        {"entries": [Entry(kind="h", type="a,b", data=b"{}")]},
        {"entries": [Entry(kind="h", type="log", data=b"{\n}")]},
        {"entries": [Entry(kind="d", type="agent_delta", data=b"{}")]},
        {"entries": [Entry(kind="x", type="agent_complete", data=b"{}")]},
        {"entries": [Entry(kind="x", type="agent_complete", data=b"{}"), ENTRY], "run": "run1", "token": "t"},
        {"conditions": [Condition(field="m:1", op="~")]},
        {"conditions": [Condition(field="top", op="=", value="1")]},
        {"conditions": [Condition(field="m:1", op="!")] * 1001},
        {"changes": [Change(field="d", value="1")]},
        {"changes": [Change(field="m:", value="1")]},
        {"changes": [Change(field="m:1", value="1")] * 1001},
    ],
)
def test_appends_that_would_break_something(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|needs?|end"):
        check_append(request(**fields))


HOLDER = {"run": "run1", "token": "t"}
DELTA = Entry(kind="d", type="agent_delta", message="é 1", data=b"[]")


def test_advance_arguments_of_what_a_holder_writes_most() -> None:
    assert advance_arguments(request(entries=[DELTA, ENTRY], **HOLDER)) == [
        *(" %C3%A9%201 ", "agent_delta", b"[]"),
        *("", "log", b"{}"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"writer": "u/ann/1"},
        {"lease": 5},
        {"log": LogStep(first=0, before="", next=1, after="h")},
        {"conditions": [Condition(field="m:1", op="!")]},
        {"changes": [Change(field="m:1", value="1")]},
        {"entries": [DELTA, Entry(kind="e", type="assistant_message", message="é 1", data=b"{}")]},
        {"entries": [Entry(kind="x", type="agent_complete", data=b"{}")]},
    ],
)
def test_what_changes_more_than_the_numbers_does_not_go_the_short_way(fields: dict[str, Any]) -> None:
    assert advance_arguments(request(**{**HOLDER, **fields})) == []


def test_append_answer_of_somebody_else() -> None:
    with pytest.raises(BrokerError, match="none of its own"):
        append_answer([b"what?"])
