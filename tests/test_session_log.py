"""The visible log: order, shadowing, bounds."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.session_log import MAX_BOOKKEEPING, LogEntry, SessionLog


def _add(log: SessionLog, kind: str, seq: int, **fields: Any) -> LogEntry | None:
    return log.add(kind, {"type": kind, "seq": seq, **fields}, fields.get("run"))


def _seqs(log: SessionLog) -> list[int]:
    return [entry["seq"] for entry in log.entries()]


# add


def test_add_gives_the_entry_or_nothing() -> None:
    log = SessionLog()
    assert _add(log, "user_message", 3, run="r", time="t", message="m", content="a", blobs={}) == {
        "seq": 3,
        "type": "user_message",
        "time": "t",
        "data": {"content": "a"},
        "run": "r",
        "message": "m",
        "blobs": {},
    }
    assert log.next_seq == 4
    assert _add(log, "user_message", 3) is None
    assert log.add("user_message", {"type": "user_message"}, None) is None


def test_carries_what_is_visible() -> None:
    log = SessionLog()
    _add(log, "user_message", 0, message="m")
    _add(log, "user_message", 1, message="m")
    _add(log, "tool_call", 2, message="n")
    assert log.carries("m")
    assert not log.carries("n")
    _add(log, "system_message", 3, surface_op=["replace", 1, 1])
    assert log.carries("m")
    _add(log, "system_message", 4, surface_op=["replace", 0, 0])
    assert not log.carries("m")


def test_bookkeeping_is_bounded() -> None:
    log = SessionLog()
    for seq in range(MAX_BOOKKEEPING + 5):
        _add(log, "step_end", seq)
    assert _seqs(log) == list(range(5, MAX_BOOKKEEPING + 5))


def test_drop_bookkeeping_of_runs() -> None:
    log = SessionLog()
    for seq, run in enumerate(["a", "b", "c", "a"]):
        _add(log, "step_start", seq, run=run)
    _add(log, "user_message", 4, run="a")
    log.drop_bookkeeping({"a", "c"})
    assert _seqs(log) == [1, 4]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user_message", "step_start", "turn_start", "turn_end", "cleared"]),
            st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted),
        ),
        max_size=12,
    )
)
def test_entries_are_those_of_the_definition(drawn: list[tuple[str, list[int] | None]]) -> None:
    """Against the definition by shadowing of every earlier event, in quadratic time."""
    log = SessionLog()
    events = [
        (seq, kind, None if span is None or kind.startswith(("step", "turn")) else span)
        for seq, (kind, span) in enumerate(drawn)
    ]
    for seq, kind, span in events:
        _add(log, kind, seq, **({} if span is None else {"surface_op": ["replace", *span]}))

    def position(event: tuple[int, str, list[int] | None]) -> int:
        return event[0] if event[2] is None else event[2][0]

    def hidden(event: tuple[int, str, list[int] | None]) -> bool:
        later = events[event[0] + 1 :]
        if event[1].startswith(("step", "turn")):
            return event[1] == "turn_end" or any(kind.startswith("turn") for _, kind, _ in later)
        return any(
            kind == "cleared" or (span is not None and span[0] <= position(event) <= span[1]) for _, kind, span in later
        )

    visible = sorted((position(event), event[0]) for event in events if not hidden(event))
    assert _seqs(log) == [seq for _, seq in visible]
    surface = [entry for entry in log.entries() if entry["type"] in {"user_message", "cleared"}]
    assert log.surface() == surface
    assert SessionLog(log.entries(), next_seq=log.next_seq).entries() == log.entries()
