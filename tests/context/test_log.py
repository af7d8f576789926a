import hashlib
import json
import logging
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.errors import ContextDecodeError, InvalidEventError
from gateway.context.log import BOOKKEEPING_TYPES, SURFACE_TYPES, EventLog, chain_hash
from gateway.context.messages import Message

from .strategies import EVENTS, JSON, MESSAGES, TEXT, event_data

T0 = datetime(2024, 5, 1, 10, tzinfo=UTC)


def grown(events: Any, log: Any = None) -> Any:
    log = EventLog() if log is None else log
    for kind, op in events:
        log = log.append(kind, event_data(op, f"event {log.next_seq}"), T0)
    return log


def naive_fold(events: Any) -> Any:
    """Visible events by the definition, with no state carried along."""

    def position(event: Any) -> Any:
        return event.surface_op[0] if event.surface_op else event.seq

    def hides(later: Any, event: Any) -> Any:
        if later.seq <= event.seq:
            return False
        if later.type == "cleared":
            return True
        return later.surface_op is not None and later.surface_op[0] <= position(event) <= later.surface_op[1]

    visible = [e for e in events if e.type in SURFACE_TYPES and not any(hides(later, e) for later in events)]
    return sorted(visible, key=lambda e: (position(e), e.seq))


def contents(log: Any) -> Any:
    return [message.content for message in log.messages()]


# append


def test_append_counts_from_zero_without_holes() -> None:
    log = grown([("user_message", None), ("turn_start", None), ("assistant_message", None)])
    assert [event.seq for event in log.events()] == [0, 1, 2]
    assert log.next_seq == len(log) == 3


def test_append_copies_the_data() -> None:
    data: dict[str, Any] = {"content": "a", "metadata": {"list": [1]}}
    log = EventLog().append("user_message", data)
    data["metadata"]["list"].append(2)
    assert log.events()[0].data["metadata"] == {"list": [1]}


def test_append_takes_naive_times_for_utc_and_converts_others() -> None:
    log = EventLog().append("turn_start", {}, datetime(2024, 5, 1, 10))  # noqa: DTZ001 - what is tested
    log = log.append("turn_end", {}, datetime.fromisoformat("2024-05-01T12:00:00+02:00"))
    assert [event.to_dict()["time"] for event in log.events()] == ["2024-05-01T10:00:00.000000Z"] * 2


@pytest.mark.parametrize(
    ("kind", "data", "code"),
    [
        ("nope", {}, "unknown_event_type"),
        (["user_message"], {}, "unknown_event_type"),
        ("turn_start", {"surface_op": ["replace", 0, 0]}, "surface_op_on_bookkeeping"),
        ("user_message", {"surface_op": ["replace", 2, 1]}, "invalid_surface_op"),
        ("user_message", {"surface_op": ["replace", -1, 1]}, "invalid_surface_op"),
        ("user_message", {"surface_op": ["replace", True, 1]}, "invalid_surface_op"),
        ("user_message", {"surface_op": "remove"}, "invalid_surface_op"),
        ("user_message", {"content": object()}, "unserializable_data"),
        ("user_message", {"content": float("nan")}, "unserializable_data"),
        ("user_message", {"metadata": {1: "key"}}, "unserializable_data"),
        ("user_message", {"content": {1, 2}}, "unserializable_data"),
        ("user_message", "text", "invalid_event"),
    ],
)
def test_append_refuses(kind: Any, data: Any, code: Any) -> None:
    log = grown([("user_message", None)])
    with pytest.raises(InvalidEventError) as caught:
        log.append(kind, data)
    assert caught.value.code == code
    assert len(log) == 1


def test_append_refuses_what_holds_itself() -> None:
    data: dict[str, Any] = {}
    data["self"] = data
    with pytest.raises(InvalidEventError) as caught:
        EventLog().append("turn_start", data)
    assert caught.value.code == "unserializable_data"


@pytest.mark.parametrize("op", ["append", None])
def test_append_leaves_out_an_operation_that_only_appends(op: Any) -> None:
    assert EventLog().append("user_message", {"surface_op": op}).events()[0].data == {}


def test_try_append_warns_and_gives_the_same_log(caplog: Any) -> None:
    log = EventLog()
    assert log.try_append("nope", {}) is log
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@given(st.lists(st.tuples(st.integers(0, 30), EVENTS, st.booleans()), max_size=30))
def test_every_log_keeps_its_value_however_others_branch_from_it(steps: Any) -> None:
    logs, models = [EventLog()], [()]
    for parent, (kind, op), read in steps:
        origin = parent % len(logs)
        log = logs[origin].append(kind, event_data(op, f"branch {len(logs)}"), T0)
        if read:
            log.messages()
        logs.append(log)
        models.append((*models[origin], log.events()[-1]))
    for log, model in zip(logs, models, strict=True):
        assert log.events() == model
        assert log.next_seq == len(model)
        assert [line for line, _ in log.fold().lines()] == [e for e in naive_fold(model) if e.type != "cleared"]


def test_appending_shares_the_list_and_an_outgrown_log_copies_it() -> None:
    base = grown([("user_message", None)] * 3)
    child = base.append("user_message", {})
    other = base.append("turn_start", {})
    assert child._events is base._events
    assert other._events is not base._events
    assert child.append("user_message", {})._events is child._events
    assert [len(log) for log in (base, child, other)] == [3, 4, 4]


def test_reading_shares_the_list_and_an_outgrown_fold_copies_it() -> None:
    base = grown([("user_message", None)] * 3)
    fold = base.fold()
    child = base.append("user_message", {})
    assert child.fold()._lines is fold._lines
    other = base.append("user_message", {})
    assert other.fold()._lines is not fold._lines
    grandchild = child.append("user_message", {})
    assert grandchild.fold()._lines is fold._lines


class OvertakenList(list[Any]):
    """A shared list to which another thread appends first, every time."""

    def append(self, item: Any) -> None:
        super().append("of another thread")
        super().append(item)


def test_append_that_another_thread_overtakes_keeps_its_own_event() -> None:
    base = grown([("user_message", None)])
    base._events = OvertakenList(base._events)
    log = base.append("user_message", {"content": "mine"})
    assert contents(log) == ["event 0", "mine"]
    assert contents(base) == ["event 0"]


def test_read_that_another_thread_overtakes_keeps_its_own_message() -> None:
    base = grown([("user_message", None)])
    fold = base.fold()
    fold._lines = OvertakenList(fold._lines)
    log = grown([("user_message", None)] * 2, base)
    assert contents(log) == ["event 0", "event 1", "event 2"]
    assert contents(base) == ["event 0"]


def test_threads_that_append_to_one_log_each_get_their_own() -> None:
    base = grown([("user_message", None)])
    start = threading.Barrier(4)
    results = []

    def work(name: Any) -> None:
        start.wait()
        log = base
        for number in range(300):
            log = log.append("user_message", {"content": f"{name} {number}"})
            assert len(log.messages()) == number + 2
        results.append((name, contents(log)[1:]))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(name, [f"{name} {n}" for n in range(300)]) for name in range(4)]


# append_message, seed


@given(st.lists(MESSAGES, max_size=5))
def test_seed_gives_back_the_messages(messages: Any) -> None:
    assert EventLog.seed(messages).messages() == messages


def test_append_message_stamps_a_message_without_time() -> None:
    message = EventLog().append_message(Message(role="user", content="a")).messages()[0]
    assert message.created_at is not None


def test_append_message_drops_metadata_that_is_not_json(caplog: Any) -> None:
    log = EventLog().append_message(Message.user("a", metadata={"f": print}))
    assert log.messages()[0].metadata == {}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_append_message_refuses_a_message_that_cannot_be_logged() -> None:
    message = Message.assistant("a", tool_calls=[{"id": "1", "arguments": {"f": print}}], metadata={"f": print})
    with pytest.raises(InvalidEventError):
        EventLog().append_message(message)


def test_append_message_takes_messages_only() -> None:
    with pytest.raises(TypeError):
        EventLog().append_message({"role": "user", "content": "a"})  # type: ignore[arg-type]


# since


@given(st.integers(-2, 12), st.integers(0, 8), st.integers(0, 3))
def test_since_gives_the_tail(seq: Any, count: Any, gap: Any) -> None:
    raw = [
        event.to_dict() | {"seq": event.seq * (gap + 1)} for event in grown([("user_message", None)] * count).events()
    ]
    log = EventLog.restore(raw)
    assert log.since(seq) == tuple(event for event in log.events() if event.seq >= seq)


# the fold


@given(st.lists(EVENTS, max_size=25))
def test_fold_is_what_the_definition_says(events: Any) -> None:
    log = grown(events)
    expected = naive_fold(log.events())
    assert list(log.surface()) == expected
    shown = [event for event in expected if event.type != "cleared"]
    assert [seq for seq, _ in log.indexed()] == [event.seq for event in shown]
    assert contents(log) == [event.data["content"] for event in shown]
    assert [message.created_at for message in log.messages()] == [event.time for event in shown]


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=25))
def test_fold_does_not_depend_on_when_it_was_read(steps: Any) -> None:
    eager, lazy = EventLog(), EventLog()
    for event, read in steps:
        eager, lazy = grown([event], eager), grown([event], lazy)
        assert len(eager.messages()) == len(eager.fold())
        if read:
            lazy.messages()
    fresh = EventLog.restore([event.to_dict() for event in lazy.events()])
    assert eager.messages() == lazy.messages() == fresh.messages() == fresh.messages()
    assert eager.surface() == lazy.surface() == fresh.surface()


def test_replacement_disappears_with_its_start_and_what_it_hid_stays_hidden() -> None:
    log = grown([("user_message", None)] * 6)
    log = log.append("system_message", {"content": "first", "surface_op": ("replace", 2, 4)})
    log = log.append("system_message", {"content": "second", "surface_op": ("replace", 1, 2)})
    assert contents(log) == ["event 0", "second", "event 5"]


def test_replacement_over_the_tail_of_an_earlier_one_leaves_it() -> None:
    log = grown([("user_message", None)] * 6)
    log = log.append("system_message", {"content": "first", "surface_op": ("replace", 1, 3)})
    log = log.append("system_message", {"content": "second", "surface_op": ("replace", 3, 4)})
    assert contents(log) == ["event 0", "first", "second", "event 5"]


@given(st.sampled_from(sorted(SURFACE_TYPES)), st.dictionaries(TEXT, JSON, max_size=3), JSON, JSON, JSON)
def test_fold_of_any_data_is_defined(kind: Any, data: Any, content: Any, calls: Any, role: Any) -> None:
    log = EventLog().append(kind, {**data, "content": content, "tool_calls": calls, "role": role, "metadata": calls})
    for message in log.messages():
        assert isinstance(message.text, str)
        assert message.created_at == log.events()[0].time


# restore


@given(st.lists(EVENTS, max_size=20))
def test_restore_gives_the_log_back(events: Any) -> None:
    log = grown(events)
    raw = json.loads(json.dumps([event.to_dict() for event in log.events()], allow_nan=False))
    back = EventLog.restore(raw)
    assert back == log
    assert back.next_seq == log.next_seq


@given(st.lists(EVENTS, max_size=20), st.lists(EVENTS, max_size=8))
def test_restore_of_what_a_mirror_shows_goes_on_like_the_whole_log(events: Any, more: Any) -> None:
    log = grown(events)
    book = [event for event in log.events() if event.type in BOOKKEEPING_TYPES][-3:]
    shown = sorted([*log.surface(), *book], key=lambda event: (event.position, event.seq))
    raw = [event.to_dict() | {"run": "r1", "message": None} for event in shown]
    mirror = EventLog.restore(raw, next_seq=log.next_seq)
    assert mirror.messages() == log.messages()
    assert grown(more, mirror).messages() == grown(more, log).messages()


def test_restore_keeps_holes_and_a_later_next_seq() -> None:
    raw = [{"seq": 3, "type": "user_message", "time": "2024-05-01T10:00:00Z", "data": {"content": "a"}}]
    log = EventLog.restore(raw, next_seq=9)
    log = log.append("user_message", {"content": "b"})
    assert [event.seq for event in log.events()] == [3, 9]
    assert EventLog.restore(raw).next_seq == 4


@pytest.mark.parametrize("next_seq", [3, -1, "4", True])
def test_restore_refuses_a_next_seq_that_is_taken(next_seq: Any) -> None:
    with pytest.raises(ContextDecodeError) as caught:
        EventLog.restore([{"seq": 3, "type": "turn_start", "data": {}}], next_seq=next_seq)
    assert caught.value.code == "malformed"


@pytest.mark.parametrize(
    ("seqs", "kept", "warnings"),
    [
        ([0, 1, 2], [0, 1, 2], 0),
        ([0, 2, 1], [0, 2, 3], 1),
        ([0, None, 5], [0, 1, 5], 1),
        ([4, 4, -1], [4, 5, 6], 2),
        ([0, True, 2.0], [0, 1, 2], 2),
    ],
)
def test_restore_gives_a_seq_where_the_stored_one_will_not_do(seqs: Any, kept: Any, warnings: Any, caplog: Any) -> None:
    log = EventLog.restore([{"seq": seq, "type": "turn_start", "data": {}} for seq in seqs])
    assert [event.seq for event in log.events()] == kept
    assert len(caplog.records) == warnings


def test_restore_drops_unknown_types_and_never_gives_their_seq_again(caplog: Any) -> None:
    log = EventLog.restore([{"seq": 0, "type": "user_message", "data": {}}, {"seq": 1, "type": "hologram", "data": {}}])
    assert [event.type for event in log.events()] == ["user_message"]
    assert log.next_seq == 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("raw", "warnings"),
    [
        ({"time": "yesterday"}, 1),
        ({"time": 5}, 1),
        ({"time": None}, 0),
        ({"data": [1]}, 0),
        ({"data": {"surface_op": ["replace", 2, 1]}}, 1),
    ],
)
def test_restore_mends_an_event(raw: Any, warnings: Any, caplog: Any) -> None:
    event = {"seq": 0, "type": "user_message", "time": "2024-05-01T10:00:00Z", "data": {}} | raw
    (back,) = EventLog.restore([event]).events()
    assert back.data == {}
    assert back.surface_op is None
    assert len(caplog.records) == warnings


@pytest.mark.parametrize("event", ["text", None, {"seq": 0, "type": "turn_start", "data": {"a": float("inf")}}])
def test_restore_refuses_what_is_no_event(event: Any) -> None:
    with pytest.raises(ContextDecodeError):
        EventLog.restore([event])


# equality


def test_continues_tells_growth_from_another_history() -> None:
    one = EventLog.seed([Message.user("a"), Message.user("b")])
    grown, branch = one.append("turn_start", {}), one.append("turn_end", {})
    for log in (one, grown, branch):
        assert log.continues(one)
        assert log.continues(EventLog())
    again = EventLog.restore([event.to_dict() for event in one.events()])
    holed = EventLog.restore([], next_seq=7)
    assert holed.append("turn_start", {}).continues(holed)
    for log, earlier in (
        (one, grown),
        (grown, branch),
        (branch, grown),
        (again, one),
        (holed, EventLog()),
        (one, holed),
        (EventLog(), one),
    ):
        assert not log.continues(earlier)


def test_logs_are_equal_by_their_events() -> None:
    events = [("user_message", None), ("turn_start", None)]
    one, two = grown(events), grown(events)
    one.messages()
    assert one == two
    assert one != grown(events[:1])
    assert one != list(one.events())
    with pytest.raises(TypeError):
        hash(one)


# chain_hash


def test_chain_hash_is_sha256_of_the_hash_before_and_compact_json() -> None:
    data = {"b": [1, 2.5, None], "a": "ü\u2028<>"}
    line = '[7,"user_message","2024-05-01T10:00:00.000000Z",{"a":"ü\u2028<>","b":[1,2.5,null]}]'
    expected = hashlib.sha256(("ab" + line).encode()).hexdigest()
    assert chain_hash("ab", 7, "user_message", "2024-05-01T10:00:00.000000Z", data) == expected


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ud83d\ud83d"])
def test_chain_hash_reads_half_a_surrogate_pair_as_the_wire_has_it(text: Any) -> None:
    def of(content: Any) -> Any:
        return chain_hash("", 0, "user_message", "", {"content": content})

    assert of(text) == of("".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text))
    assert of("\ud83d\ude00") == of("\U0001f600")


@given(st.lists(EVENTS, max_size=8))
def test_chain_hash_survives_a_round_trip(events: Any) -> None:
    def of(log: Any) -> Any:
        value = ""
        for event in log.events():
            raw = event.to_dict()
            value = chain_hash(value, raw["seq"], raw["type"], raw["time"], raw["data"])
        return value

    log = grown(events)
    assert of(EventLog.restore(json.loads(json.dumps([event.to_dict() for event in log.events()])))) == of(log)
