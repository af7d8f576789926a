import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.log import EventLog
from gateway.context.messages import Message


def messages(count: Any) -> Any:
    return [Message.user(str(number)) for number in range(count)]


@given(st.integers(0, 5), st.sampled_from([None, True, False]), st.slices(7), st.integers(-8, 8))
def test_view_reads_like_a_tuple(count: Any, replaces: Any, cut: Any, index: Any) -> None:
    plain = messages(count)
    view = EventLog.seed(plain).messages()
    if replaces is not None and (plain or not replaces):
        head = Message.system("head")
        view = view.headed(head, replaces=replaces)
        plain = [head, *(plain[1:] if replaces else plain)]
    expected = tuple(plain)
    assert view == expected
    assert view == list(expected)
    assert len(view) == len(expected)
    assert tuple(view) == expected
    assert tuple(reversed(view)) == expected[::-1]
    assert view[cut] == expected[cut]
    assert view + expected == expected * 2
    assert repr(view) == repr(expected)
    if -len(expected) <= index < len(expected):
        assert view[index] == expected[index]
    else:
        with pytest.raises(IndexError):
            view[index]


def test_view_stays_when_the_log_grows() -> None:
    log = EventLog.seed(messages(2))
    view = log.messages()
    log.append_message(Message.user("more")).messages()
    assert [m.content for m in view] == ["0", "1"]


def test_view_differs_from_other_messages_and_other_things() -> None:
    view = EventLog.seed(messages(2)).messages()
    assert view != messages(2)[:1]
    assert view != "01"


def test_view_is_pickled_as_a_tuple() -> None:
    view = EventLog.seed(messages(2)).messages()
    assert pickle.loads(pickle.dumps(view)) == view  # noqa: S301 - our own bytes
