"""What a dashboard shows of a topic: a small fold over its events (PROTOCOL.md 3.9) — pure."""

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from gateway.counters import Counters, no_usage, plus, read_usage
from gateway.event_types import DELTA_TYPES, END_TYPES
from gateway.fields import identifier, integer, mapping, text
from gateway.mirror import Mirror

__all__ = ["MAX_LISTED", "RATE_WINDOW", "Summary"]

MAX_LISTED = 20
"""Running tools, and waiting approvals, of which a summary tells."""

MAX_TRACKED = 1_000
"""Tool calls that run, and messages that are being written, of which one fold knows."""

MAX_ARGUMENTS = 2_000
"""Code points of an approval's arguments; a longer text is cut."""

MAX_TEXT = 300
"""Code points of a title and of an error; a longer text is cut."""

RATE_WINDOW = 1.0
"""Seconds over which the rates are counted."""

TOKEN = 4
"""Characters of text that count as one token."""

_ERROR_LEVELS = frozenset({"error", "critical", "fatal"})
_STATUS = {"agent_complete": "completed", "agent_error": "failed", "agent_cancelled": "cancelled", "agent_lost": "lost"}


class _Delta(msgspec.Struct, frozen=True):
    run: Any = None
    message: Any = None
    text: Any = None


_delta_decoder = msgspec.json.Decoder(_Delta)
_decode = msgspec.json.Decoder().decode

_READ = frozenset(
    {
        *END_TYPES,
        "agent_start",
        "approval_decided",
        "approval_required",
        "assistant_message",
        "cancel_requested",
        "cleared",
        "context",
        "custom_message",
        "log",
        "message_discarded",
        "message_queued",
        "message_taken",
        "message_withdrawn",
        "step_start",
        "system_message",
        "tool_call",
        "tool_result",
        "turn_end",
        "turn_start",
        "usage",
        "user_message",
    }
)
"""What has to be decoded whole."""


class _Run(msgspec.Struct, kw_only=True):
    """The latest run."""

    run: str
    agent: str | None
    model: str | None
    parent: str | None
    started_at: int | None
    state: str = "running"
    ended_at: int | None = None
    error: str | None = None
    step: int = 0
    max_iterations: int | None = None
    calls: dict[str, Counters] = {}
    usage: Counters = msgspec.field(default_factory=no_usage)
    errors: int = 0

    @property
    def live(self) -> bool:
        return self.state in {"running", "cancelling"}


class Summary:
    """The fold: it begins with a mirror and takes each event after it once.

    The latest run is the last to start of those that write to this topic: a sub-agent with a topic of its own is none.

    Args:
        mirror: The state to begin with.

    """

    def __init__(self, mirror: Mirror) -> None:
        self.topic: str = mirror.topic
        self.epoch: str = mirror.epoch
        self.offset: int = mirror.offset
        self._run: _Run | None = None
        self._title: str | None = None
        self._first_line: str | None = None
        """Of the first message of the user."""
        self._writing: dict[str, bool] = {}
        """Messages that the latest run has open: whether more than thinking has come."""
        self._tools: dict[str, dict[str, Any]] = {}
        """Tool calls that the latest run has running."""
        self._approvals: dict[tuple[str | None, str], dict[str, Any]] = {}
        """Those that wait, of any run."""
        self._queue: set[str] = set()
        self._counts: deque[tuple[float, int, int]] = deque()
        """When, how many events, and how many characters came."""
        self._begin(mirror.state())

    def take(self, kind: str, data: bytes, offset: int) -> int:
        """Fold the next event and give the characters that were written.

        Args:
            kind: Its type.
            data: The event, encoded.
            offset: Its place.

        """
        self.offset = offset
        if kind in DELTA_TYPES:
            return self._add(kind, _delta_decoder.decode(data))
        if kind in _READ:
            self.fold(_decode(data))
        return 0

    def count(self, now: float, *, events: int, characters: int) -> None:
        """Note for the rates what has come by ``now``, in seconds of any clock."""
        if events:
            self._counts.append((now, events, characters))

    def settled(self, now: float) -> bool:
        """Tell whether the rates are 0, and stay so without news."""
        self._forget(now)
        return not self._counts

    def state(self, now: float) -> dict[str, Any]:
        """Give all but ``at``, ``viewers`` and ``lag``; ``now`` as of `count`."""
        self._forget(now)
        run = self._run
        approvals = list(self._approvals.values())
        return {
            "type": "summary",
            "topic": self.topic,
            "epoch": self.epoch,
            "offset": self.offset,
            "title": self._title if self._title is not None else self._first_line,
            "state": "idle" if run is None else run.state,
            "run": None if run is None else run.run,
            "agent": None if run is None else run.agent,
            "model": None if run is None else run.model,
            "parent": None if run is None else run.parent,
            "started_at": None if run is None else run.started_at,
            "ended_at": None if run is None else run.ended_at,
            "step": 0 if run is None else run.step,
            "max_iterations": None if run is None else run.max_iterations,
            "tokens": {
                "input": 0 if run is None else run.usage["input_tokens"],
                "output": 0 if run is None else run.usage["output_tokens"],
            },
            "tokens_per_second": round(sum(count[2] for count in self._counts) / TOKEN / RATE_WINDOW, 1),
            "events_per_second": round(sum(count[1] for count in self._counts) / RATE_WINDOW, 1),
            "phase": self._phase(),
            "tools": list(self._tools.values())[:MAX_LISTED],
            "approvals": approvals[:MAX_LISTED],
            "queue": len(self._queue),
            "errors": 0 if run is None else run.errors,
            "error": None if run is None else run.error,
        }

    def fold(self, event: Mapping[str, Any]) -> None:
        """Take an event that is no delta."""
        kind, run = event["type"], identifier(event.get("run"))
        if kind == "agent_start":
            self._start(event, run)
        elif kind == "context":
            if "title" in event:
                self._title = _cut(event["title"], MAX_TEXT)
            self._set_max_iterations(event.get("max_iterations"))
        elif kind in {"message_queued", "message_taken", "message_withdrawn"}:
            waiting = identifier(event.get("id"))
            if waiting is not None:
                (self._queue.add if kind == "message_queued" else self._queue.discard)(waiting)
        elif kind == "approval_required":
            self._ask(event, run, requested_at=integer(event.get("at")))
        elif kind == "approval_decided":
            self._approvals.pop((run, text(event.get("tool_call_id")) or ""), None)
        elif kind in END_TYPES:
            self._end(event, run)
        else:
            self._fold_own(kind, event, run)

    def _fold_own(self, kind: str, event: Mapping[str, Any], run: str | None) -> None:
        """Take what matters only of the latest run, or of nobody's."""
        message = identifier(event.get("message"))
        if message is not None and kind != "tool_call":
            self._writing.pop(message, None)
        if kind == "user_message" and self._first_line is None:
            self._first_line = _first_line(event.get("content"))
        elif kind == "tool_result":
            self._tools.pop(text(event.get("tool_call_id")) or "", None)
        own = self._run
        if own is None or run != own.run or not own.live:
            return
        if kind == "cancel_requested":
            own.state = "cancelling"
        elif kind == "step_start":
            own.step += 1
        elif kind == "tool_call":
            self._call(event, integer(event.get("at")))
        elif kind in {"turn_start", "turn_end"}:
            self._tools.clear()
        elif kind == "tool_result":
            own.errors += _failed(event)
        elif kind == "log":
            own.errors += text(event.get("level")) in _ERROR_LEVELS
        elif kind in {"usage", "message_discarded"}:
            self._count_usage(own, kind, event)

    def _begin(self, state: Mapping[str, Any]) -> None:
        context = state["context"]
        own = [run for run in state["runs"] if run["topic"] is None]
        if own:
            run = own[-1]
            self._run = _Run(
                run=run["run"],
                agent=run["agent"],
                model=run["model"],
                parent=run["parent"],
                started_at=run["started_at"],
                state=run["status"],
                ended_at=run["ended_at"],
                error=_cut(run["error"], MAX_TEXT),
                step=run["iteration"],
                calls=run["calls"],
                usage=run["usage"],
            )
            self._set_max_iterations(context["max_iterations"])
        self._title = _cut(context["title"], MAX_TEXT)
        self._queue = {message["id"] for message in state["queue"]}
        for approval in state["approvals"]:
            if approval["decision"] is None:
                self._ask(approval, approval["run"], requested_at=approval["requested_at"])
        latest = None if self._run is None else self._run.run
        for message in state["open"]:
            if message["run"] == latest and not message["interrupted"]:
                self._writing[message["message"]] = bool(message["text"] or message["tool_calls"])
        for entry in context["events"]:
            self._begin_entry(entry, latest)
        if self._run is not None:
            self._run.errors += self._run.state == "failed"
            lines = [line for line in state["log"] if line["run"] == latest]
            self._run.errors += sum(line["level"] in _ERROR_LEVELS for line in lines)

    def _begin_entry(self, entry: Mapping[str, Any], latest: str | None) -> None:
        kind, data = entry["type"], entry["data"]
        if kind == "user_message" and self._first_line is None:
            self._first_line = _first_line(data.get("content"))
        elif kind == "tool_call" and self._run is not None and self._run.live and entry["run"] == latest:
            self._call(data, _milliseconds(entry["time"]))
        elif kind == "tool_result":
            self._tools.pop(text(data.get("tool_call_id")) or "", None)
            if self._run is not None and entry["run"] == latest:
                self._run.errors += _failed(data)

    def _start(self, event: Mapping[str, Any], run: str | None) -> None:
        if run is None or text(event.get("topic")) is not None or (self._run is not None and self._run.run == run):
            return
        self._run = _Run(
            run=run,
            agent=text(event.get("agent")),
            model=text(event.get("model")),
            parent=text(event.get("parent")),
            started_at=integer(event.get("at")),
            max_iterations=integer(event.get("max_iterations")),
        )
        self._writing.clear()
        self._tools.clear()

    def _end(self, event: Mapping[str, Any], run: str | None) -> None:
        for key in [key for key in self._approvals if key[0] == run]:
            del self._approvals[key]
        own = self._run
        if own is None or run != own.run or not own.live:
            return
        kind = event["type"]
        own.state, own.ended_at = _STATUS[kind], integer(event.get("at"))
        if kind != "agent_complete":
            own.error = _cut(event.get("error" if kind == "agent_error" else "reason"), MAX_TEXT)
        own.errors += kind == "agent_error"
        self._writing.clear()
        self._tools.clear()

    def _ask(self, event: Mapping[str, Any], run: str | None, *, requested_at: int | None) -> None:
        call = identifier(event.get("tool_call_id"))
        if call is not None and (run, call) not in self._approvals:
            self._approvals[run, call] = {
                "run": run,
                "tool_call_id": call,
                "name": text(event.get("name")),
                "arguments": _cut(event.get("arguments"), MAX_ARGUMENTS),
                "requested_at": requested_at,
                "expires_at": integer(event.get("expires_at")),
            }

    def _call(self, data: Mapping[str, Any], started_at: int | None) -> None:
        call = identifier(data.get("id"))
        if call is not None and len(self._tools) < MAX_TRACKED:
            self._tools[call] = {"id": call, "name": text(data.get("name")), "started_at": started_at}

    def _count_usage(self, run: _Run, kind: str, event: Mapping[str, Any]) -> None:
        call = identifier(event.get("call"))
        if call is None or (kind == "message_discarded" and call not in run.calls):
            return
        before, counters = run.calls.get(call) or no_usage(), no_usage()
        if kind == "usage":
            counters = read_usage(event)
            run.calls[call] = counters
        else:
            del run.calls[call]
        run.usage = plus(run.usage, counters, less=before)

    def _set_max_iterations(self, value: Any) -> None:
        if self._run is not None and integer(value) is not None:
            self._run.max_iterations = integer(value)

    def _add(self, kind: str, delta: _Delta) -> int:
        added = len(delta.text) if isinstance(delta.text, str) else 0
        message, run = identifier(delta.message), self._run
        own = message is not None and run is not None and run.live and delta.run == run.run
        if message is not None and own and (len(self._writing) < MAX_TRACKED or message in self._writing):
            self._writing[message] = kind != "agent_thinking" or self._writing.get(message, False)
        return added

    def _phase(self) -> str | None:
        if self._run is None or not self._run.live:
            return None
        if any(run == self._run.run for run, _ in self._approvals):
            return "approval"
        if self._tools:
            return "tool"
        if self._writing:
            return "writing" if any(self._writing.values()) else "thinking"
        return "waiting"

    def _forget(self, now: float) -> None:
        while self._counts and self._counts[0][0] <= now - RATE_WINDOW:
            self._counts.popleft()


def _failed(data: Mapping[str, Any]) -> bool:
    metadata = mapping(data.get("metadata"))
    return metadata is not None and metadata.get("error") is True


def _cut(value: object, limit: int) -> str | None:
    if not isinstance(value, str):
        return None
    return value if len(value) <= limit else value[: limit - 1] + "…"


def _first_line(content: object) -> str | None:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = next((part for part in parts if isinstance(part, str) and part.strip()), None)
    if not isinstance(content, str):
        return None
    line = content.strip().partition("\n")[0].strip()
    return _cut(line, MAX_TEXT) or None


def _milliseconds(time: object) -> int | None:
    """Read a log entry's time; None where it is none."""
    if not isinstance(time, str):
        return None
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
