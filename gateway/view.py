"""The rules by which a reader sees a topic; equal rules share what is made for them (PROTOCOL.md 3.8) — pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.counters import no_usage
from gateway.frames import publication_line, with_tags
from gateway.lens import Lens
from gateway.mirror import CONTEXT_FIELDS
from gateway.recovery import Missed
from gateway.redaction import Redaction

__all__ = ["HIDDEN", "View", "push_lines", "view_of"]

HIDDEN = b'{"type":"hidden"}'
"""Says that nothing more is shown up to its offset (PROTOCOL.md 3.8)."""

_ENDS = {
    "completed": "agent_complete",
    "failed": "agent_error",
    "cancelled": "agent_cancelled",
    "lost": "agent_lost",
}


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown, and how often.

    Attributes:
        types: The only types that are shown; None for all.
        hidden: Types that are not shown.
        rate: Flushes a second at most; None for every one.
        redaction: What the reader may not see; None for nothing.
        summary: The topic's summary is shown, and nothing else.

    """

    types: frozenset[str] | None = None
    hidden: frozenset[str] = frozenset()
    rate: int | None = None
    redaction: Redaction | None = None
    summary: bool = False

    @property
    def unpaced(self) -> "View":
        """The same things, shown at once."""
        return self if self.rate is None else msgspec.structs.replace(self, rate=None)

    def shows(self, kind: str) -> bool:
        """Tell whether events of a type are shown, perhaps with something masked."""
        if (self.types is not None and kind not in self.types) or kind in self.hidden:
            return False
        return self.redaction is None or kind not in self.redaction.drop

    def shown(self, events: Iterable[Missed]) -> list[Missed]:
        """Give the events that are shown, as they are shown; what each stands for is not looked at."""
        found = []
        for event in events:
            kind = event.kind
            if not self.shows(kind):
                continue
            data = event.data if self.redaction is None else self.redaction.redact(kind, event.data)
            if data is not None:
                found.append(event if data is event.data else msgspec.structs.replace(event, data=data))
        return found

    def through(self, events: Iterable[Missed], *, end: int) -> list[Missed]:
        """Give what is shown of events up to ``end``, and where that is less, a marker that says so."""
        shown = self.shown(events)
        if not shown or shown[-1].offset < end:
            shown.append(Missed(first=end, offset=end, data=HIDDEN))
        return shown

    def state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Give what is shown of a mirror's state (PROTOCOL.md 5.1)."""
        return {
            "context": self._context(state["context"]),
            "open": self._open(state["open"]),
            "runs": [self._run(run) for run in state["runs"]] if self.shows("agent_start") else [],
            "approvals": [self._approval(item) for item in state["approvals"]]
            if self.shows("approval_required")
            else [],
            "queue": [self._queued(item) for item in state["queue"]] if self.shows("message_queued") else [],
            "log": [self._masked("log", line) for line in state["log"]] if self.shows("log") else [],
        }

    def snapshot(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        """Give what is shown of a snapshot (PROTOCOL.md 5.5)."""
        return {**snapshot, "mirror": self.state(snapshot["mirror"])}

    def summed_up(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Give what is shown of a summary (PROTOCOL.md 3.9)."""
        if self.redaction is None:
            return dict(summary)
        shown = dict(summary)
        if not self.shows("usage"):
            shown["tokens"] = {"input": 0, "output": 0}
        shown["tools"] = (
            [self._masked("tool_call", tool) for tool in summary["tools"]] if self.shows("tool_call") else []
        )
        shown["approvals"] = (
            [self._masked("approval_required", item) for item in summary["approvals"]]
            if self.shows("approval_required")
            else []
        )
        run = self._masked("agent_start", {"agent": summary["agent"], "model": summary["model"]})
        titled = self.shows("context") and self.shows("user_message") and self._plain("user_message", "content")
        if not titled or not self._plain("context", "title"):
            shown["title"] = None
        kind = _ENDS.get(summary["state"])
        if kind is not None and not self.shows(kind):
            shown["error"] = None
        elif kind is not None:
            shown["error"] = self._masked_error(kind, summary["error"])
        return {**shown, **run}

    def _masked(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return dict(fields) if self.redaction is None else self.redaction.masked(kind, fields)

    def _masked_error(self, kind: str, error: Any) -> Any:
        field = "error" if kind == "agent_error" else "reason"
        return self._masked(kind, {field: error})[field]

    def _plain(self, kind: str, field: str) -> bool:
        return self.redaction is None or not self.redaction.masks(kind, field)

    def _context(self, context: Mapping[str, Any]) -> dict[str, Any]:
        shown = {**context, "events": [entry for entry in context["events"] if self.shows(entry["type"])]}
        if self.redaction is not None:
            shown["events"] = [self.redaction.redact_entry(entry) for entry in shown["events"]]
        fields = {name: context[name] for name in CONTEXT_FIELDS}
        if self.shows("context"):
            said = self._masked("context", {**fields, "tool_calls": {"items": context["tool_calls"]}})
            calls = said.pop("tool_calls")
            shown.update(said, tool_calls=calls["items"] if isinstance(calls, dict) and calls["items"] else [])
        else:
            shown.update(dict.fromkeys(fields), tool_calls=[])
        if not self.shows("usage"):
            shown["usage"] = no_usage()
        return shown

    def _open(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        text, thinking, arguments = [self.shows(kind) and self._plain(kind, "text") for kind in _GROWING]
        found = []
        for message in messages:
            calls = [dict(call) for call in message["tool_calls"]] if self.shows("tool_call_delta") else []
            if calls and self.redaction is not None:
                calls = [{**call, **self._masked("tool_call_delta", {"name": call["name"]})} for call in calls]
            if not arguments:
                calls = [{**call, "text": ""} for call in calls if call["id"] or call["name"]]
            shown = {
                **message,
                "text": message["text"] if text else "",
                "thinking": message["thinking"] if thinking else "",
                "tool_calls": calls,
            }
            if shown["text"] or shown["thinking"] or calls:
                found.append(shown)
        return found

    def _run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        shown = {**run, **self._masked("agent_start", {"agent": run["agent"], "model": run["model"]})}
        end = _ENDS.get(run["status"])
        if end is not None and self.shows(end):
            shown["error"] = self._masked_error(end, run["error"])
        elif end is not None:
            shown.update(status="running" if run["cancel"] is None else "cancelling", ended_at=None, error=None)
        if not self.shows("cancel_requested"):
            shown["cancel"] = None
            if shown["status"] == "cancelling":
                shown["status"] = "running"
        elif run["cancel"] is not None:
            shown["cancel"] = {**run["cancel"], **self._masked("cancel_requested", {"by": run["cancel"].get("by")})}
        if not self.shows("usage"):
            shown.update(calls={}, usage=no_usage())
        if not self.shows("step_start"):
            shown["iteration"] = 0
        return shown

    def _approval(self, approval: Mapping[str, Any]) -> dict[str, Any]:
        shown = {
            **approval,
            **self._masked("approval_required", {name: approval[name] for name in ("name", "arguments", "expires_at")}),
        }
        if not self.shows("approval_decided"):
            shown.update(by=None, edited=None, reason=None)
            if approval["decision"] != "expired":
                shown["decision"] = None
            return shown
        decided = self._masked(
            "approval_decided", {"arguments": approval["edited"], "by": approval["by"], "reason": approval["reason"]}
        )
        return {**shown, "edited": decided["arguments"], "by": decided["by"], "reason": decided["reason"]}

    def _queued(self, message: Mapping[str, Any]) -> dict[str, Any]:
        asked = self._masked("message_queued", {"content": message["content"], "by": message["by"]})
        return {**message, **self._masked("message_edited", asked)}


def view_of(lens: Lens, redaction: Redaction | None = None) -> View | None:
    """Give the view of a reader; None where it sees everything, at once.

    Args:
        lens: What it asked for.
        redaction: What it may not see; None for nothing.

    """
    view = View(types=lens.types, hidden=lens.hidden, rate=lens.rate, redaction=redaction, summary=lens.summary)
    return None if view == View() else view


def push_lines(prefix: bytes, shown: Iterable[Missed], cursor: int) -> list[bytes]:
    """Make the push lines of what is shown to a reader at a cursor: each stands for all that was before it too."""
    lines = []
    for event in shown:
        line = publication_line(prefix, event.offset, event.data)
        lines.append(with_tags(line, cursor + 1) if cursor + 1 < event.offset else line)
        cursor = event.offset
    return lines


_GROWING = ("agent_delta", "agent_thinking", "tool_call_delta")
