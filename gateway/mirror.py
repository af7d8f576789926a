"""A reader's copy of an agent's state, exact at its position (PROTOCOL.md 5)."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

from msgspec.structs import asdict

from gateway.conversation import conversation
from gateway.counters import no_usage, plus, read_usage
from gateway.event_types import BOOKKEEPING_TYPES, LOGGED_TYPES, SURFACE_TYPES
from gateway.fields import identifier, index, integer, mapping, text
from gateway.merge import merge
from gateway.open_messages import OpenMessages
from gateway.session_log import SessionLog
from gateway.state import Approval, QueuedMessage, RunState, read_snapshot
from gateway.types import Position, Publication

__all__ = ["CONTEXT_FIELDS", "MAX_DECIDED_APPROVALS", "MAX_ENDED_RUNS", "MAX_LOG_LINES", "Mirror", "merge"]

MAX_ENDED_RUNS = 100
MAX_DECIDED_APPROVALS = 100
MAX_LOG_LINES = 200

_Event = Mapping[str, Any]
_Fold = Callable[["Mirror", _Event, str | None], None]

CONTEXT_FIELDS = (
    "id",
    "agent_name",
    "system_prompt",
    "needs_response",
    "iteration",
    "max_iterations",
    "started_at",
    "title",
)
"""Of the `context` event; `tool_calls` beside them is a slice, not a value."""

_STATUS: Mapping[str, Literal["completed", "failed", "cancelled", "lost"]] = {
    "agent_complete": "completed",
    "agent_error": "failed",
    "agent_cancelled": "cancelled",
    "agent_lost": "lost",
}
_DECISIONS: Mapping[str, Literal["approve", "reject", "edit", "expired"]] = {
    "approve": "approve",
    "reject": "reject",
    "edit": "edit",
    "expired": "expired",
}


class Mirror:
    """The state of one topic.

    Args:
        topic: Its name.
        epoch: The epoch that it stands in; "" before the first event.
        offset: The offset of the last event in it; 0 before the first.

    """

    def __init__(self, topic: str = "", epoch: str = "", offset: int = 0) -> None:
        self.topic = topic
        self.epoch = epoch
        self.offset = offset
        self._log = SessionLog()
        self._fields: dict[str, Any] = dict.fromkeys(CONTEXT_FIELDS)
        """The fields of the `context` event."""
        self._tool_calls: list[Any] = []
        self._archived_to: int | None = None
        self._usage = no_usage()
        self._open = OpenMessages()
        self._runs: dict[str, RunState] = {}
        """By id, in order of first appearance; as the two below."""
        self._approvals: dict[tuple[str | None, str], Approval] = {}
        """By run and tool call."""
        self._queue: dict[str, QueuedMessage] = {}
        self._lines: deque[dict[str, Any]] = deque(maxlen=MAX_LOG_LINES)

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> Self:
        """Make a mirror from what `snapshot` gave, here or in another process.

        Raises:
            SnapshotError: It is no snapshot.

        """
        stored = read_snapshot(snapshot)
        state, context = stored.mirror, stored.mirror.context
        mirror = cls(stored.topic, stored.epoch, stored.offset)
        mirror._log = SessionLog([entry.entry() for entry in context.events], next_seq=context.next_seq)
        mirror._fields = {name: getattr(context, name) for name in CONTEXT_FIELDS}
        mirror._tool_calls = context.tool_calls
        mirror._archived_to = context.archived_to
        mirror._usage = context.usage
        mirror._open.restore(state.open)
        mirror._runs = {run.run: run for run in state.runs}
        mirror._approvals = {(approval.run, approval.tool_call_id): approval for approval in state.approvals}
        mirror._queue = {message.id: message for message in state.queue}
        mirror._lines.extend([asdict(line) for line in state.log])
        return mirror

    @property
    def position(self) -> Position:
        """Where it stands."""
        return Position(epoch=self.epoch, offset=self.offset)

    def apply(self, publication: Publication) -> Literal["applied", "repeated", "hole"]:
        """Take the next publication; only ``applied`` changed something, after ``hole`` ask again from `position`."""
        offset = publication.offset
        if offset <= self.offset:
            return "repeated"
        first = offset if publication.first is None else publication.first
        if first != self.offset + 1:
            return "hole"
        self.fold(publication.data)
        self.offset = offset
        return "applied"

    def fold(self, event: Mapping[str, Any]) -> None:
        """Take an event, whatever it is, without a position; never fails."""
        if not isinstance(event, Mapping):
            return
        kind = event.get("type")
        fold = self._folds.get(kind) if isinstance(kind, str) else None
        if fold is None:
            return
        run = identifier(event.get("run"))
        if run is not None and kind not in LOGGED_TYPES:
            known = self._runs.get(run)
            if known is not None and not known.live:
                return
        fold(self, event, run)

    def resume(self, epoch: str) -> None:
        """Go on under another epoch, of which the gateway said that it continues this history."""
        self.epoch = epoch

    def snapshot(self) -> dict[str, Any]:
        """Give the state at its position; later events do not change it. Its values are shared: only read them."""
        return {"topic": self.topic, "epoch": self.epoch, "offset": self.offset, "mirror": self.state()}

    def state(self) -> dict[str, Any]:
        """Give the state (PROTOCOL.md 5.1), as in `snapshot`."""
        return {
            "context": self.context,
            "open": self.open,
            "runs": self.runs,
            "approvals": self.approvals,
            "queue": self.queue,
            "log": self.log,
        }

    @property
    def context(self) -> dict[str, Any]:
        """The conversation's log and its fields; `Context.deserialize` takes it."""
        return {
            "version": 2,
            "events": self._log.entries(),
            "archived_to": self._archived_to,
            "next_seq": self._log.next_seq,
            **self._fields,
            "tool_calls": self._tool_calls.copy(),
            "usage": self._usage,
        }

    @property
    def open(self) -> list[dict[str, Any]]:
        """The messages that are being written."""
        return self._open.state()

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs: all that live, and the last 100 ended ones."""
        return [{**asdict(run), "calls": run.calls.copy()} for run in self._runs.values()]

    @property
    def approvals(self) -> list[dict[str, Any]]:
        """The approvals: all that wait, and the last 100 decided ones."""
        return [asdict(approval) for approval in self._approvals.values()]

    @property
    def queue(self) -> list[dict[str, Any]]:
        """The people's messages that wait for the agent."""
        return [asdict(message) for message in self._queue.values()]

    @property
    def log(self) -> list[dict[str, Any]]:
        """The last 200 log lines."""
        return list(self._lines)

    def messages(self) -> list[dict[str, Any]]:
        """Give the folded conversation (PROTOCOL.md 5.8), without what is still being written."""
        return conversation(self._log.surface())

    def _fold_delta(self, event: _Event, run: str | None) -> None:
        message, added = identifier(event.get("message")), text(event.get("text"))
        if message is not None and added and not self._log.carries(message):
            self._open.add_text(message, run, added)

    def _fold_thinking(self, event: _Event, run: str | None) -> None:
        message, added = identifier(event.get("message")), text(event.get("text"))
        if message is not None and added and not self._log.carries(message):
            self._open.add_thinking(message, run, added)

    def _fold_call_delta(self, event: _Event, run: str | None) -> None:
        message, place = identifier(event.get("message")), index(event.get("index"))
        if message is not None and place is not None and not self._log.carries(message):
            self._open.add_to_call(
                message,
                run,
                place,
                call_id=identifier(event.get("id")),
                name=text(event.get("name")),
                text=text(event.get("text")),
            )

    def _fold_surface(self, event: _Event, run: str | None) -> None:
        entry = self._log.add(event["type"], event, run)
        if entry is not None and entry["message"] is not None:
            self._open.end(entry["message"])

    def _fold_bookkeeping(self, event: _Event, run: str | None) -> None:
        entry = self._log.add(event["type"], event, run)
        if entry is not None and entry["type"] == "step_start":
            known = self._runs.get(run) if run is not None else None
            if known is not None and known.live:
                known.iteration += 1

    def _fold_start(self, event: _Event, run: str | None) -> None:
        if run is None or run in self._runs:
            return
        self._runs[run] = RunState(
            run=run,
            agent=text(event.get("agent")),
            model=text(event.get("model")),
            parent=text(event.get("parent")),
            topic=text(event.get("topic")),
            started_at=integer(event.get("at")),
            calls={},
            usage=no_usage(),
            policy=text(event.get("policy")),
        )

    def _fold_context(self, event: _Event, run: str | None) -> None:
        for name in CONTEXT_FIELDS:
            if name in event:
                self._fields[name] = event[name]
        change = mapping(event.get("tool_calls"))
        if change is None:
            return
        start, items = index(change.get("from")), change.get("items")
        if start is not None and start <= len(self._tool_calls) and isinstance(items, (list, tuple)):
            self._tool_calls[start : start + len(items)] = items

    def _fold_usage(self, event: _Event, run: str | None) -> None:
        known = self._runs.get(run) if run is not None else None
        call = identifier(event.get("call"))
        if known is None or call is None:
            return
        before, counters = known.calls.get(call) or no_usage(), read_usage(event)
        known.calls[call] = counters
        known.usage = plus(known.usage, counters, less=before)
        self._usage = plus(self._usage, counters, less=before)

    def _fold_discarded(self, event: _Event, run: str | None) -> None:
        message, call = identifier(event.get("message")), identifier(event.get("call"))
        if message is None:
            return
        self._open.end(message)
        known = self._runs.get(run) if run is not None else None
        if known is None or call is None or call not in known.calls:
            return
        counters = known.calls.pop(call)
        known.usage = plus(known.usage, no_usage(), less=counters)
        self._usage = plus(self._usage, no_usage(), less=counters)

    def _fold_line(self, event: _Event, run: str | None) -> None:
        level, message = text(event.get("level")), text(event.get("message"))
        self._lines.append(
            {
                "at": integer(event.get("at")),
                "run": run,
                "level": "info" if level is None else level,
                "message": "" if message is None else message,
                "logger": text(event.get("logger")),
                "fields": mapping(event.get("fields")),
            }
        )

    def _fold_asked(self, event: _Event, run: str | None) -> None:
        call = identifier(event.get("tool_call_id"))
        if call is None or (run, call) in self._approvals:
            return
        self._approvals[run, call] = Approval(
            tool_call_id=call,
            run=run,
            name=text(event.get("name")),
            arguments=text(event.get("arguments")),
            requested_at=integer(event.get("at")),
            expires_at=integer(event.get("expires_at")),
        )

    def _fold_decided(self, event: _Event, run: str | None) -> None:
        call, decided = identifier(event.get("tool_call_id")), text(event.get("decision"))
        decision = _DECISIONS.get(decided) if decided is not None else None
        approval = self._approvals.get((run, call)) if call is not None else None
        if approval is None or decision is None:
            return
        approval.decision = decision
        approval.by = event.get("by")
        approval.edited = text(event.get("arguments")) if decision == "edit" else None
        approval.reason = text(event.get("reason"))
        self._trim_approvals()

    def _fold_queued(self, event: _Event, run: str | None) -> None:
        message = identifier(event.get("id"))
        if message is not None and message not in self._queue:
            self._queue[message] = QueuedMessage(
                id=message, content=event.get("content"), by=event.get("by"), at=integer(event.get("at"))
            )

    def _fold_edited(self, event: _Event, run: str | None) -> None:
        message = identifier(event.get("id"))
        queued = self._queue.get(message) if message is not None else None
        if queued is not None:
            queued.content = event.get("content")

    def _fold_unqueued(self, event: _Event, run: str | None) -> None:
        message = identifier(event.get("id"))
        if message is not None:
            self._queue.pop(message, None)

    def _fold_cancel(self, event: _Event, run: str | None) -> None:
        known = self._runs.get(run) if run is not None else None
        if known is not None:  # and live: `fold` lets nothing through to an ended one
            known.status = "cancelling"
            mode = "after_step" if event.get("mode") == "after_step" else "now"
            known.cancel = {"by": event.get("by"), "mode": mode}

    def _fold_end(self, event: _Event, run: str | None) -> None:
        if run is None:
            return
        at = integer(event.get("at"))
        known = self._runs.get(run)
        if known is not None:
            kind = event["type"]
            known.status = _STATUS[kind]
            known.ended_at = at
            known.error = (
                None if kind == "agent_complete" else text(event.get("error" if kind == "agent_error" else "reason"))
            )
        ended = {run}
        for lost in self._descendants(run):
            ended.add(lost.run)
            lost.status, lost.ended_at, lost.error = "lost", at, None
        self._open.interrupt(ended)
        for approval in self._approvals.values():
            if approval.decision is None and approval.run in ended:
                approval.decision = "expired"
        self._log.drop_bookkeeping(ended)
        self._trim_runs()
        self._trim_approvals()

    def _descendants(self, run: str) -> list[RunState]:
        """Find the live runs that a run started, those that they started, and so on; parents may form a circle."""
        children: dict[str, list[RunState]] = {}
        for other in self._runs.values():
            if other.parent is not None and other.live and other.run != run:
                children.setdefault(other.parent, []).append(other)
        found: list[RunState] = []
        parents = [run]
        while parents:
            started = children.pop(parents.pop(), [])
            found += started
            parents += [child.run for child in started]
        return found

    def _trim_runs(self) -> None:
        ended = [run.run for run in self._runs.values() if not run.live]
        for oldest in ended[: max(0, len(ended) - MAX_ENDED_RUNS)]:
            del self._runs[oldest]

    def _trim_approvals(self) -> None:
        decided = [key for key, approval in self._approvals.items() if approval.decision is not None]
        for oldest in decided[: max(0, len(decided) - MAX_DECIDED_APPROVALS)]:
            del self._approvals[oldest]

    _folds: ClassVar[Mapping[str, _Fold]] = {
        "agent_delta": _fold_delta,
        "agent_thinking": _fold_thinking,
        "tool_call_delta": _fold_call_delta,
        **dict.fromkeys(SURFACE_TYPES, _fold_surface),
        **dict.fromkeys(BOOKKEEPING_TYPES, _fold_bookkeeping),
        "agent_start": _fold_start,
        "context": _fold_context,
        "usage": _fold_usage,
        "message_discarded": _fold_discarded,
        "log": _fold_line,
        "approval_required": _fold_asked,
        "approval_decided": _fold_decided,
        "message_queued": _fold_queued,
        "message_edited": _fold_edited,
        "message_withdrawn": _fold_unqueued,
        "message_taken": _fold_unqueued,
        "cancel_requested": _fold_cancel,
        **dict.fromkeys(_STATUS, _fold_end),
    }
