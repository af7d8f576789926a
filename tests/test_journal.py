import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.port import AppendRequest, Restore
from gateway.codec import decode_event, encode_event
from gateway.context.context import Context
from gateway.context.log import chain_hash
from gateway.context.messages import Message
from gateway.errors import HistoryConflictError
from gateway.journal import MAX_KEPT_LINES, EarlierLog, Journal
from gateway.mirror import Mirror
from gateway.outbox import Batch, Group, Outbox
from gateway.recorder import Recorder, outgoing
from gateway.types import Position

TOKEN = secrets.token_hex(4)
TIME = "2026-01-01T00:00:00.000000Z"


class Author:
    """Writes the appends of one run as `Run` does, and keeps what a store would have after each."""

    def __init__(self, *, seq: int = 0, chain: str = "", earlier: EarlierLog | None = None) -> None:
        self.journal = Journal(run="r", token=TOKEN, seq=seq, hash=chain, earlier=earlier or EarlierLog())
        context = Context.deserialize({"version": 2, "id": "c", "events": [], "next_seq": seq})
        self.recorder = Recorder(run="r", context=context, published={}, hash=chain)
        self.outbox = Outbox("r", flush_interval=0.02, max_bytes=10**7)
        self.batches: list[Batch] = []
        self.put({"type": "agent_start", "agent": "a"})
        self.done()

    def put(self, event: dict[str, Any], kind: Any = "h") -> None:
        self.outbox.add(Group(entries=[outgoing({"at": 1, "run": "r", **event}, kind=kind)]))

    def delta(self, message: str, text: str) -> None:
        self.outbox.add_delta("agent_delta", message, text, at=1)

    def record(self, after: Context, message: str | None = None) -> None:
        entries, log = self.recorder.record(after, at=1, message=message)
        self.outbox.add(Group(entries=entries, log=log))

    def end(self, message: str) -> None:
        self.record(self.recorder.context.add_message(Message.assistant(f"all of {message}")), message)

    def done(self) -> None:
        """Let what was written leave and be acknowledged."""
        batch = self.outbox.take(float("inf"))
        if batch is not None:
            self.batches.append(batch)
            self.journal.add(batch)

    def store(self, appends: int) -> tuple[Mirror, Restore]:
        """Give the mirror of a store that has the first appends only, and what it would answer."""
        mirror, log = Mirror("t", "e", 0), (0, "")
        for batch in self.batches[:appends]:
            for out in batch.entries:
                mirror.fold(decode_event(out.entry.data))
            log = log if batch.log is None else (batch.log.next, batch.log.after)
        mark = str(self.batches[appends - 1].seq) if appends else ""
        return mirror, restore(log=log, mark=mark, holder="r" if appends else "")


def restore(*, log: tuple[int, str] = (0, ""), mark: str = "", holder: str = "") -> Restore:
    return Restore(
        position=Position(epoch="e" * 8, offset=0), seq=log[0], hash=log[1], append_seq=mark, holder=holder, open=()
    )


def types(requests: list[AppendRequest]) -> list[str]:
    return [entry.type for request in requests for entry in request.entries]


def test_everything_is_written_again_when_everything_is_lost() -> None:
    author = Author()
    author.end("m1")
    author.done()
    requests = author.journal.requests(restore(), lease=5000)
    assert types(requests) == ["agent_start", "assistant_message", "context"]
    assert [request.seq for request in requests] == ["1", "2"]
    assert [request.lease for request in requests] == [5000, None]
    assert [request.log for request in requests] == [batch.log for batch in author.batches]
    assert {(request.writer, request.run, request.token) for request in requests} == {("r", "r", TOKEN)}


def test_only_what_the_store_does_not_know_is_written_again() -> None:
    author = Author()
    for message in ("m1", "m2"):
        author.end(message)
        author.done()
    _, answer = author.store(2)
    requests = author.journal.requests(answer, lease=5000)
    assert [(request.seq, request.lease) for request in requests] == [("3", None)]


def test_deltas_of_an_ended_message_fall_out() -> None:
    author = Author()
    author.delta("m1", "a")
    author.done()
    assert len(author.journal) == 2
    author.end("m1")
    author.done()
    assert "agent_delta" not in types(author.journal.requests(restore(), lease=1))


def test_deltas_of_a_discarded_message_and_its_usage_fall_out() -> None:
    author = Author()
    author.delta("m1", "a")
    author.put({"type": "usage", "call": "c", "input_tokens": 1})
    author.done()
    author.put({"type": "message_discarded", "message": "m1", "call": "c"}, kind="e")
    author.done()
    assert types(author.journal.requests(restore(), lease=1)) == ["agent_start", "message_discarded"]


def test_superseded_usage_falls_out_call_by_call() -> None:
    author = Author()
    for call, tokens in (("a", 1), ("b", 1), ("a", 2)):
        author.put({"type": "usage", "call": call, "input_tokens": tokens})
        author.done()
    kept = [
        decode_event(entry.data)
        for request in author.journal.requests(restore(), lease=1)
        for entry in request.entries
        if entry.type == "usage"
    ]
    assert [(event["call"], event["input_tokens"]) for event in kept] == [("b", 1), ("a", 2)]


def test_superseded_context_fields_fall_out_and_tool_calls_stay() -> None:
    author = Author()
    for number in range(3):
        context = author.recorder.context
        author.record(msgspec.structs.replace(context, iteration=number + 1).add_tool_call({"id": str(number)}))
        author.done()
    kept = [
        {key: value for key, value in decode_event(entry.data).items() if key not in {"type", "at", "run"}}
        for request in author.journal.requests(restore(), lease=1)
        for entry in request.entries
        if entry.type == "context"
    ]
    assert [event["tool_calls"]["from"] for event in kept] == [0, 1, 2]
    assert [event.get("iteration") for event in kept] == [None, None, 3]


@pytest.mark.parametrize("kind", ["log", "progress", "my_own"])
def test_lines_and_events_that_nobody_folds_are_bounded(kind: str) -> None:
    author = Author()
    for number in range(MAX_KEPT_LINES + 5):
        author.put({"type": kind, "message": str(number)})
        author.done()
    kept = [name for name in types(author.journal.requests(restore(), lease=1)) if name == kind]
    assert len(kept) == MAX_KEPT_LINES


def test_another_log_is_a_conflict() -> None:
    author = Author()
    author.end("m1")
    author.done()
    with pytest.raises(HistoryConflictError):
        author.journal.requests(restore(log=(1, "another"), mark="2", holder="r"), lease=1)
    with pytest.raises(HistoryConflictError):
        author.journal.requests(restore(log=(7, "x"), mark="2", holder="r"), lease=1)


def earlier_log(count: int, *, first: int = 0) -> tuple[EarlierLog, list[str]]:
    """Make a log of user messages; also the chain hash before each and after the last."""
    log, chain = EarlierLog(), [""]
    for seq in range(count):
        data: dict[str, Any] = {"content": f"message {seq}", "name": None, "metadata": {}}
        event = {"type": "user_message", "at": 1, "run": "old", "seq": seq, "time": TIME, "message": "q", **data}
        chain.append(chain_hash(chain[-1], seq, "user_message", TIME, data))
        if seq >= first:
            log.add(event, encode_event(event))
    return log, chain


@pytest.mark.parametrize("known", [0, 1, 2, 3])
def test_earlier_runs_events_are_written_again_first(known: int) -> None:
    log, chain = earlier_log(3)
    author = Author(seq=3, chain=chain[3], earlier=log)
    author.end("m1")
    author.done()
    requests = author.journal.requests(restore(log=(known, chain[known])), lease=9)
    assert types(requests).count("user_message") == 3 - known
    assert [request.seq for request in requests] == ([f"0.{known}"] if known < 3 else []) + ["1", "2"]
    assert requests[0].lease == 9
    if known < 3:
        step = requests[0].log
        assert step is not None
        assert (step.first, step.before, step.next, step.after) == (known, chain[known], 3, chain[3])


def test_earlier_events_of_another_history_are_a_conflict() -> None:
    log, chain = earlier_log(3)
    author = Author(seq=3, chain=chain[3], earlier=log)
    with pytest.raises(HistoryConflictError):
        author.journal.requests(restore(log=(1, "of another history")), lease=9)


def test_earlier_events_that_are_not_at_hand_are_a_conflict() -> None:
    log, chain = earlier_log(3, first=2)
    author = Author(seq=3, chain=chain[3], earlier=log)
    assert author.journal.requests(restore(log=(2, chain[2])), lease=9)
    with pytest.raises(HistoryConflictError):
        author.journal.requests(restore(log=(1, chain[1])), lease=9)


def test_many_earlier_events_take_several_appends() -> None:
    log, chain = earlier_log(2500)
    author = Author(seq=2500, chain=chain[-1], earlier=log)
    requests = author.journal.requests(restore(), lease=9)
    assert [request.seq for request in requests] == ["0.0", "0.1000", "0.2000", "1"]
    assert max(len(request.entries) for request in requests) <= 1000


def test_what_is_left_of_earlier_events_is_not_taken_for_what_the_store_knows() -> None:
    log, chain = earlier_log(2500)
    author = Author(seq=2500, chain=chain[-1], earlier=log)
    first, *others = author.journal.requests(restore(), lease=9)
    # Half-way through, the store answers `restore` once more.
    again = author.journal.requests(restore(log=(1000, chain[1000]), mark=first.seq, holder="r"), lease=9)
    assert [request.seq for request in again] == [request.seq for request in others]
    assert again[0].seq != first.seq


def test_what_earlier_runs_told_of_the_context_is_written_again_before_the_own_events() -> None:
    log, chain = earlier_log(2)
    log.told = {"title": "Whales", "system_prompt": "Be brief.", "tool_calls": {"from": 0, "items": [{"id": "1"}]}}
    author = Author(seq=2, chain=chain[2], earlier=log)
    requests = author.journal.requests(restore(log=(1, chain[1])), lease=9)
    assert types(requests) == ["user_message", "context", "agent_start"]
    assert [request.lease for request in requests] == [9, None, None]
    told = decode_event(requests[1].entries[0].data)
    assert told == {"type": "context", "at": 1, "run": "r", **log.told}
    # Of many calls each event tells some.
    calls = [{"id": str(number), "arguments": "x" * 20_000} for number in range(9)]
    log.told = {"tool_calls": {"from": 0, "items": calls}}
    requests = author.journal.requests(restore(log=(2, chain[2])), lease=9)
    slices = [decode_event(request.entries[0].data)["tool_calls"] for request in requests[:-1]]
    assert [part["from"] for part in slices] == [0, 3, 6]
    assert [call for part in slices for call in part["items"]] == calls
    # Once the store has an event of the run, it has all that was before.
    assert types(author.journal.requests(restore(log=(2, chain[2]), mark="1", holder="r"), lease=9)) == []


OPERATIONS: list[Callable[[Author, int], None]] = [
    lambda author, n: author.delta(f"m{n % 3}", f"text {n} "),
    lambda author, n: author.end(f"m{n % 3}"),
    lambda author, n: author.put({"type": "usage", "call": f"c{n % 2}", "input_tokens": n}),
    lambda author, n: author.put({"type": "log", "message": f"line {n}"}),
    lambda author, n: author.put({"type": "message_discarded", "message": f"m{n % 3}", "call": f"c{n % 2}"}, "e"),
    lambda author, n: author.record(msgspec.structs.replace(author.recorder.context, iteration=n)),
    lambda author, n: author.record(author.recorder.context.add_tool_call({"id": str(n)})),
    lambda author, n: author.put({"type": "approval_required", "tool_call_id": str(n), "name": "t"}),
    lambda author, _: author.done(),
]


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9)), max_size=40), st.data())
@settings(deadline=None)
def test_restoring_from_any_append_gives_the_same_mirror(
    operations: list[tuple[Callable[[Author, int], None], int]], data: st.DataObject
) -> None:
    author = Author()
    ended: set[str] = set()
    for operation, n in operations:
        name = f"m{n % 3}"
        index = OPERATIONS.index(operation)
        if index in {0, 1, 4} and name in ended:
            continue  # as in a run, nothing is added to an ended message
        if index in {1, 4}:
            ended.add(name)
        operation(author, n)
    author.done()
    whole, _ = author.store(len(author.batches))
    kept = data.draw(st.integers(0, len(author.batches)))
    mirror, answer = author.store(kept)
    for request in author.journal.requests(answer, lease=1):
        for entry in request.entries:
            mirror.fold(decode_event(entry.data))
    assert mirror.state() == whole.state()
