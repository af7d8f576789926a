from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.port import Change, Condition, Entry, LogStep
from gateway.codec import encode_event
from gateway.outbox import (
    MAX_APPEND_BYTES,
    MAX_APPEND_ENTRIES,
    MAX_DELTA_CHARACTERS,
    Batch,
    Group,
    Outbox,
    Outgoing,
)


def box(*, interval: float = 0.02, max_bytes: int = 10**6) -> Outbox:
    return Outbox("r1", flush_interval=interval, max_bytes=max_bytes)


def other(text: str = "x", *, log: LogStep | None = None, conditions: tuple[Condition, ...] = ()) -> Group:
    event = {"type": "note", "text": text}
    entry = Entry(kind="h", type="note", data=encode_event(event))
    return Group(
        entries=[Outgoing(entry=entry, event=event)],
        log=log,
        conditions=conditions,
        changes=(Change(field=f"f{text}", value="1"),),
    )


def said(batch: Batch | None) -> list[tuple[str, Any]]:
    assert batch is not None
    return [(out.entry.type, out.event.get("text")) for out in batch.entries]


def taken(outbox: Outbox, now: float = 0.0) -> Batch:
    batch = outbox.take(now)
    assert batch is not None
    return batch


def test_take_gives_nothing_from_an_empty_outbox() -> None:
    outbox = box()
    assert outbox.take(1.0) is None
    assert outbox.due() is None


def test_first_delta_leaves_at_once() -> None:
    outbox = box()
    outbox.add_delta("agent_delta", "m", "Hi", at=1)
    assert said(outbox.take(100.0)) == [("agent_delta", "Hi")]


def test_deltas_wait_for_the_interval_and_merge() -> None:
    outbox = box()
    outbox.add_delta("agent_delta", "m", "a", at=1)
    taken(outbox, 100.0)
    outbox.add_delta("agent_delta", "m", "b", at=2)
    outbox.add_delta("agent_delta", "m", "c", at=3)
    assert outbox.take(100.01) is None
    assert outbox.due() == 100.02
    batch = taken(outbox, 100.02)
    assert said(batch) == [("agent_delta", "bc")]
    assert batch.entries[0].event["at"] == 3


def test_only_neighbours_of_one_part_merge() -> None:
    outbox = box()
    outbox.add_delta("agent_thinking", "m", "a", at=1)
    outbox.add_delta("agent_delta", "m", "b", at=1)
    outbox.add_delta("agent_delta", "n", "c", at=1)
    outbox.add_delta("agent_delta", "m", "d", at=1)
    batch = taken(outbox)
    assert said(batch) == [("agent_thinking", "a"), ("agent_delta", "b"), ("agent_delta", "c"), ("agent_delta", "d")]


def test_tool_call_deltas_merge_by_index_and_keep_names() -> None:
    outbox = box()
    outbox.add_delta("tool_call_delta", "m", "", at=1, index=0, names={"id": "c0", "name": "t"})
    outbox.add_delta("tool_call_delta", "m", '{"a', at=1, index=0)
    outbox.add_delta("tool_call_delta", "m", "{}", at=1, index=1, names={"id": "c1"})
    first, second = (out.event for out in taken(outbox).entries)
    assert (first["index"], first["id"], first["name"], first["text"]) == (0, "c0", "t", '{"a')
    assert (second["index"], second["id"], second["text"]) == (1, "c1", "{}")
    assert "name" not in second


def test_interval_of_zero_keeps_every_delta() -> None:
    outbox = box(interval=0)
    for text in "abc":
        outbox.add_delta("agent_delta", "m", text, at=1)
    assert [text for _, text in said(outbox.take(0.0))] == ["a", "b", "c"]


def test_long_delta_is_cut_at_code_points() -> None:
    outbox = box()
    text = "😀" * (MAX_DELTA_CHARACTERS + 1)
    outbox.add_delta("agent_delta", "m", text, at=1)
    pieces = [piece for _, piece in said(outbox.take(0.0))]
    assert [len(piece) for piece in pieces] == [MAX_DELTA_CHARACTERS, 1]
    assert "".join(pieces) == text


def test_worst_delta_fits_into_an_event() -> None:
    outbox = box()
    outbox.add_delta("agent_delta", "m", "\x01" * MAX_DELTA_CHARACTERS, at=1)
    taken(outbox)  # the encoder refuses what is larger than an event may be


def test_other_events_take_what_is_before_them_along_at_once() -> None:
    outbox = box()
    outbox.add_delta("agent_delta", "m", "a", at=1)
    taken(outbox, 100.0)
    outbox.add_delta("agent_delta", "m", "b", at=1)
    outbox.add(other())
    outbox.add_delta("agent_delta", "m", "c", at=1)
    assert said(outbox.take(100.0)) == [("agent_delta", "b"), ("note", "x"), ("agent_delta", "c")]


def test_flush_does_not_wait() -> None:
    outbox = box()
    outbox.add_delta("agent_delta", "m", "a", at=1)
    taken(outbox, 100.0)
    outbox.add_delta("agent_delta", "m", "b", at=1)
    outbox.flush()
    assert said(outbox.take(100.0)) == [("agent_delta", "b")]
    outbox.add_delta("agent_delta", "m", "c", at=1)
    assert outbox.take(100.0) is None


def test_group_with_conditions_travels_alone() -> None:
    outbox = box()
    condition = Condition(field="m:1", op="=", value="v")
    outbox.add(other("before"))
    outbox.add(other("take", conditions=(condition,)))
    outbox.add(other("after"))
    first, second, third = taken(outbox), taken(outbox), taken(outbox)
    assert [said(batch) for batch in (first, second, third)] == [
        [("note", "before")],
        [("note", "take")],
        [("note", "after")],
    ]
    assert (first.conditions, second.conditions, third.conditions) == ((), (condition,), ())


def test_groups_join_their_steps_and_changes() -> None:
    outbox = box()
    outbox.add(other("1", log=LogStep(first=3, before="a", next=4, after="b")))
    outbox.add(other("2"))
    outbox.add(other("3", log=LogStep(first=4, before="b", next=6, after="c")))
    batch = taken(outbox)
    assert batch.log == LogStep(first=3, before="a", next=6, after="c")
    assert [change.field for change in batch.changes] == ["f1", "f2", "f3"]


def test_append_is_bounded_in_events() -> None:
    outbox = box(interval=0)
    for _ in range(MAX_APPEND_ENTRIES + 1):
        outbox.add_delta("agent_delta", "m", "a", at=1)
    assert len(taken(outbox).entries) == MAX_APPEND_ENTRIES
    assert len(taken(outbox).entries) == 1


def test_append_is_bounded_in_bytes() -> None:
    outbox = box()
    for _ in range(4):
        outbox.add(other("x" * 100_000))
    sizes = []
    while (batch := outbox.take(0.0)) is not None:
        sizes.append(sum(len(out.entry.data) for out in batch.entries))
    assert sum(sizes) > 400_000
    assert max(sizes) <= MAX_APPEND_BYTES


def test_group_larger_than_an_append_is_kept_whole() -> None:
    outbox = box(max_bytes=10**7)
    entries = [out for _ in range(5) for out in other("x" * 100_000).entries]
    outbox.add(other("before"))
    outbox.add(Group(entries=entries))
    assert said(outbox.take(0.0)) == [("note", "before")]
    assert len(taken(outbox).entries) == 5


def test_outbox_is_full_until_its_appends_are_acknowledged() -> None:
    outbox = box(max_bytes=1000)
    outbox.add_delta("agent_delta", "m", "x" * 2000, at=1)
    assert outbox.full
    batch = taken(outbox)
    assert outbox.full
    outbox.acknowledge(batch)
    assert not outbox.full
    assert outbox.unsent == 0


def test_tickets_and_seqs_grow() -> None:
    outbox = box()
    outbox.add(other())
    first = taken(outbox)
    outbox.add_delta("agent_delta", "m", "a", at=1)
    ticket = outbox.ticket
    second = taken(outbox, 1.0)
    assert (first.seq, second.seq) == (1, 2)
    assert first.ticket < second.ticket == ticket


def test_clear_forgets_everything() -> None:
    outbox = box(max_bytes=10)
    outbox.add(other())
    outbox.clear()
    assert outbox.take(0.0) is None
    assert not outbox.full


@given(
    st.lists(st.tuples(st.sampled_from(["agent_delta", "agent_thinking"]), st.text(min_size=1, max_size=5))),
    st.sampled_from([0.0, 0.02]),
)
def test_no_text_is_lost_doubled_or_moved(deltas: list[tuple[str, str]], interval: float) -> None:
    outbox = box(interval=interval)
    now, sent = 0.0, []
    for number, (kind, text) in enumerate(deltas):
        outbox.add_delta(kind, "m", text, at=1)
        if number % 3 == 0:
            now += 0.01
            batch = outbox.take(now)
            sent += [] if batch is None else said(batch)
    while (batch := outbox.take(now + 1000)) is not None:
        sent += said(batch)
    by_character = [(kind, character) for kind, text in deltas for character in text]
    assert [(kind, character) for kind, text in sent for character in text] == by_character
