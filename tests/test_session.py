"""One connection's state machine, without a connection."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import CommandError, DisconnectError
from gateway.limits import Allowance
from gateway.session import Session, topic_of

UNLIMITED = Allowance(rate=0, burst=1)


def session(*, allowance: Allowance = UNLIMITED, **limits: int) -> Session:
    return Session(**{"max_frame": 1000, "max_topics": 2, **limits}, allowance=allowance)


def connected() -> Session:
    made = session()
    made.receive(b'{"id":1,"connect":{}}', text=True, now=0.0)
    return made


def test_receive_gives_commands_in_order() -> None:
    commands = session().receive(
        b'{"id":1,"connect":{}}\n{"id":2,"ping":{}}\n{}\n\n{"send":{"data":1}}', text=True, now=0.0
    )
    assert [(command.id, command.method) for command in commands] == [(1, "connect"), (2, "ping"), (0, "send")]


def test_receive_of_pongs_gives_nothing() -> None:
    assert connected().receive(b"{}", text=True, now=0.0) == []
    assert connected().receive(b"{}\n{}", text=True, now=0.0) == []


@pytest.mark.parametrize(
    ("data", "text", "code"),
    [
        (b'{"id":1,"connect":{}}', False, 3501),
        (b" " * 1001, True, 1009),
        (b"\xff", True, 1007),
        (b'{"id":1,"ping":{}}', True, 3501),
        (b'{"id":1,"connect":5}', True, 3501),
        (b'{"id":1,"connect":{"token":5}}', True, 3501),
        (b'{"id":1,"connect":{}}\n{"id":2,"connect":{}}', True, 3501),
        (b"nonsense", True, 3501),
    ],
)
def test_receive_refuses_for_good(data: bytes, text: bool, code: int) -> None:  # noqa: FBT001  # a table's column
    refused = session()
    with pytest.raises(DisconnectError) as info:
        refused.receive(data, text=text, now=0.0)
    assert info.value.code == code
    assert len(info.value.reason.encode()) <= 123
    assert refused.state == "closed"
    assert refused.receive(b'{"id":1,"connect":{}}', text=True, now=0.0) == []


def test_subscribe_reserves_until_released() -> None:
    made = connected()
    topic = made.subscribe("a")
    with pytest.raises(CommandError, match="105"):
        made.subscribe("a")
    made.subscribe("b")
    with pytest.raises(CommandError, match="106"):
        made.subscribe("c")
    made.release(topic)
    made.subscribe("c")


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 201, "a\n", "a*"])
def test_topic_of_refuses_what_is_no_topic(name: str) -> None:
    with pytest.raises(CommandError, match="102"):
        topic_of(name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["connect", "subscribe", "publish", "history", "rpc", "send", "ping", "presence", "x", ""])
COMMANDS = st.fixed_dictionaries({}, optional={"id": JSON}).flatmap(
    lambda head: st.dictionaries(METHODS, JSON, max_size=2).map(lambda body: {**head, **body})
)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(COMMANDS | JSON, max_size=3), st.binary(max_size=20))
def test_receive_of_anything_gives_commands_or_a_documented_close(values: list[Any], junk: bytes) -> None:
    codes: list[int] = []
    for data in (b"\n".join(msgspec.json.encode(value) for value in values), junk):
        made = connected()
        try:
            commands = made.receive(data, text=True, now=0.0)
        except DisconnectError as error:
            codes.append(error.code)
            continue
        for command in commands:
            assert command.id > 0 or command.method == "send"
            assert (command.request is None) != (command.refusal is None)
    assert set(codes) <= {3501, 1009, 1007}


def test_too_many_commands_are_refused_one_by_one() -> None:
    made = session(allowance=Allowance(rate=1, burst=2))
    pings = b"\n".join(b'{"id":%d,"ping":{}}' % number for number in range(2, 5))
    commands = made.receive(b'{"id":1,"connect":{}}\n' + pings, text=True, now=10.0)
    refusals = [command.refusal for command in commands]
    assert refusals[:2] == [None, None]
    assert [(refusal.code, refusal.temporary) for refusal in refusals[2:] if refusal] == [(111, True)] * 2
    assert [command.refusal for command in made.receive(pings, text=True, now=13.0)][:2] == [None, None]


def test_too_many_empty_frames_close() -> None:
    made = session(allowance=Allowance(rate=1, burst=3))
    made.receive(b'{"id":1,"connect":{}}', text=True, now=10.0)
    made.receive(b"{}", text=True, now=10.0)
    made.receive(b"{}\n{}\n{}", text=True, now=10.0)
    with pytest.raises(DisconnectError, match="too many frames"):
        made.receive(b"{}", text=True, now=10.0)
    assert made.state == "closed"


def test_another_connect_may_follow_one_that_was_refused() -> None:
    made = connected()
    made.refused()
    assert made.state == "new"
    assert len(made.receive(b'{"id":2,"connect":{}}', text=True, now=0.0)) == 1
    made.close()
    made.refused()
    assert made.receive(b'{"id":3,"connect":{}}', text=True, now=0.0) == []
