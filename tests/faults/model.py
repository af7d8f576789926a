"""What a mirror must hold, told from the whole history at once: PROTOCOL.md 5 read a second time.

Nothing here is shared with `gateway.mirror`, and nothing is folded: no state is carried from event to event. Each
part of the state is a question about the list of all events: which log entry was removed by which later one, which
delta came after the last end of its message, was a run alive when an event of it came.

It knows the bounds of the lists (100 ended runs, 100 decided approvals, 1,000 bookkeeping entries) only to refuse a
history that reaches them.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

__all__ = ["state_of"]

Event = Mapping[str, Any]

ROLES = {"system_message", "user_message", "assistant_message", "tool_result", "custom_message", "cleared"}
WORK = {"tool_call", "turn_start", "turn_end", "step_start", "step_end", "request_header"}
ENDS = {"agent_complete": "completed", "agent_error": "failed", "agent_cancelled": "cancelled", "agent_lost": "lost"}
KINDS = {
    *ROLES,
    *WORK,
    *ENDS,
    "agent_start",
    "context",
    "agent_delta",
    "agent_thinking",
    "tool_call_delta",
    "usage",
    "message_discarded",
    "log",
    "approval_required",
    "approval_decided",
    "message_queued",
    "message_edited",
    "message_withdrawn",
    "message_taken",
    "cancel_requested",
}
COUNTS = [
    "requests",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
]
FIELDS = [
    "id",
    "agent_name",
    "system_prompt",
    "needs_response",
    "iteration",
    "max_iterations",
    "started_at",
    "title",
]
NO_DATA = {"type", "at", "run", "seq", "time", "message", "blobs"}
NEVER = 1 << 60


def state_of(events: Sequence[Event]) -> dict[str, Any]:
    """Tell the state after these events, as PROTOCOL.md 5.1 writes it."""
    return _History(events).state()


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_id(value: Any) -> bool:
    return isinstance(value, str) and value not in {"", "__proto__"}


def is_integer(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 2**53 and value == int(value)


def is_place(value: Any) -> bool:
    return is_integer(value) and value >= 0


def given(event: Event, key: str, kind: Callable[[Any], bool], otherwise: Any = None) -> Any:
    value: Any = event.get(key)
    return (int(value) if kind in {is_integer, is_place} else value) if kind(value) else otherwise


class _History:
    def __init__(self, events: Sequence[Event]) -> None:
        self.events = [event if isinstance(event, Mapping) and is_text(event.get("type")) else {} for event in events]
        self.runs_of = [given(event, "run", is_id) for event in self.events]
        self.messages_of = [given(event, "message", is_id) for event in self.events]
        # Each history's own: a cache on the methods would keep every history for ever.
        self.first_of = cache(self._first_of)
        self.victims = cache(self._victims)

    def state(self) -> dict[str, Any]:
        return {
            "context": self.context(),
            "open": self.open(),
            "runs": self.runs(),
            "approvals": self.approvals(),
            "queue": self.queue(),
            "log": self.lines(),
        }

    @cached_property
    def by_type(self) -> dict[str, list[int]]:
        """The places of the events of each type, as far as they are folded at all."""
        found: dict[str, list[int]] = {}
        for place, event in enumerate(self.events):
            kind = event.get("type", "")
            if kind in KINDS and (kind in ROLES | WORK or not self.ended(place)):
                found.setdefault(kind, []).append(place)
        return found

    def of(self, *kinds: str) -> list[tuple[int, Event]]:
        """Give the events of these types, as far as they are folded at all."""
        places = sorted(place for kind in kinds for place in self.by_type.get(kind, ()))
        return [(place, self.events[place]) for place in places]

    # Runs

    @cached_property
    def starts(self) -> dict[str, int]:
        first: dict[str, int] = {}
        for place, event in enumerate(self.events):
            if event.get("type") == "agent_start" and self.runs_of[place] is not None:
                first.setdefault(self.runs_of[place], place)
        return first

    @cached_property
    def endings(self) -> list[int]:
        """The places of all ends, whether they count or not."""
        return [place for place, event in enumerate(self.events) if event.get("type") in ENDS and self.runs_of[place]]

    def ended(self, place: int) -> bool:
        """Whether the run of an event had ended before it."""
        run = self.runs_of[place]
        return self.starts.get(run, NEVER) < place and not self.alive(run, place)

    def alive(self, run: str, place: int) -> bool:
        """Whether a run is live just before a place."""
        return self.starts.get(run, NEVER) < place and self.end_of(run, place) is None

    def end_of(self, run: str, place: int) -> int | None:
        """Find the place, before ``place``, of the event that ended a run that has begun."""
        return self.first_of(run, bisect_left(self.endings, place))

    def _first_of(self, run: str, count: int) -> int | None:
        """Find the first of the history's first ``count`` ends that ended a run."""
        return next((at for at in self.endings[:count] if at > self.starts[run] and run in self.victims(at)), None)

    def _victims(self, place: int) -> frozenset[str]:
        """Name the runs that the end at a place ends: its own, known or not, and all live ones below it."""
        if self.ended(place):
            return frozenset()
        live = {run: self.start(run).get("parent") for run in self.starts if self.alive(run, place)}
        below = {self.runs_of[place]}
        while more := {run for run, parent in live.items() if parent in below and is_text(parent)} - below:
            below |= more
        return frozenset(below)

    def start(self, run: str) -> Event:
        return self.events[self.starts[run]]

    def runs(self) -> list[dict[str, Any]]:
        whole = len(self.events)
        assert sum(not self.alive(run, whole) for run in self.starts) <= 100, "the model knows no bound of ended runs"
        return [self.run(run) for run in sorted(self.starts, key=self.starts.__getitem__)]

    def run(self, run: str) -> dict[str, Any]:
        start, calls = self.start(run), self.calls(run)
        asked = [event for place, event in self.of("cancel_requested") if self.is_live(run, place)]
        cancel = None
        if asked:
            mode = "after_step" if asked[-1].get("mode") == "after_step" else "now"
            cancel = {"by": asked[-1].get("by"), "mode": mode}
        steps = [place for place in self.accepted if self.events[place]["type"] == "step_start"]
        status, ended_at, error = "cancelling" if cancel else "running", None, None
        end = self.end_of(run, len(self.events))
        if end is not None:
            event, kind = self.events[end], self.events[end]["type"]
            status, ended_at = "lost", given(event, "at", is_integer)
            if self.runs_of[end] == run:
                status = ENDS[kind]
                if kind != "agent_complete":
                    error = given(event, "error" if kind == "agent_error" else "reason", is_text)
        return {
            "run": run,
            **{key: given(start, key, is_text) for key in ("agent", "model", "parent", "topic", "policy")},
            "status": status,
            "started_at": given(start, "at", is_integer),
            "ended_at": ended_at,
            "error": error,
            "calls": calls,
            "usage": total(calls.values()),
            "iteration": sum(self.is_live(run, place) for place in steps),
            "cancel": cancel,
        }

    def is_live(self, run: str, place: int) -> bool:
        """Whether an event is one of this run while it lives."""
        return self.runs_of[place] == run and self.alive(run, place)

    def calls(self, run: str) -> dict[str, dict[str, int]]:
        last: dict[str, Event] = {
            event["call"]: event
            for place, event in self.of("usage", "message_discarded")
            if self.is_live(run, place)
            and is_id(event.get("call"))
            and (event["type"] == "usage" or self.messages_of[place])
        }
        return {
            call: {name: count if (count := given(event, name, is_place, 0)) < 2**40 else 0 for name in COUNTS}
            for call, event in last.items()
            if event["type"] == "usage"
        }

    # The log

    @cached_property
    def accepted(self) -> list[int]:
        """The places of the logged events that count: each has a higher seq than all before it."""
        logged = [
            (place, given(event, "seq", is_place))
            for place, event in enumerate(self.events)
            if event.get("type") in ROLES | WORK and is_place(event.get("seq"))
        ]
        highest = [-1, *accumulate((seq for _, seq in logged), max)]
        return [place for (place, seq), before in zip(logged, highest, strict=False) if seq > before]

    def replaced(self, place: int) -> tuple[int, int] | None:
        event = self.events[place]
        operation = event.get("surface_op")
        if event["type"] in ROLES and isinstance(operation, (list, tuple)) and len(operation) == 3:
            word, start, stop = operation
            if word == "replace" and is_place(start) and is_place(stop) and start <= stop:
                return int(start), int(stop)
        return None

    def position(self, place: int) -> int:
        replaced = self.replaced(place)
        return replaced[0] if replaced else int(self.events[place]["seq"])

    @cached_property
    def removed(self) -> dict[int, int]:
        """When each accepted surface entry was removed; `NEVER` for those that are still there."""
        surface = [place for place in self.accepted if self.events[place]["type"] in ROLES]

        def removes(later: int, place: int) -> bool:
            replaced = self.replaced(later)
            if self.events[later]["type"] == "cleared":
                return True
            return replaced is not None and replaced[0] <= self.position(place) <= replaced[1]

        shadows = [place for place in surface if self.replaced(place) or self.events[place]["type"] == "cleared"]
        return {
            place: next((later for later in shadows if later > place and removes(later, place)), NEVER)
            for place in surface
        }

    @cached_property
    def work(self) -> list[int]:
        """The places of the bookkeeping entries that are still there."""
        entries = [place for place in self.accepted if self.events[place]["type"] in WORK]
        turn = max((place for place in entries if self.events[place]["type"] in {"turn_start", "turn_end"}), default=-1)
        kept = [
            place
            for place in entries
            if place >= turn
            and self.events[place]["type"] != "turn_end"
            and not any(end > place and self.runs_of[place] in self.victims(end) for end in self.endings)
        ]
        assert len(kept) <= 1000, "the model knows no bound of bookkeeping entries"
        return kept

    def entry(self, place: int) -> dict[str, Any]:
        event = self.events[place]
        return {
            "seq": int(event["seq"]),
            "type": event["type"],
            "time": given(event, "time", is_text),
            "data": {key: value for key, value in event.items() if key not in NO_DATA},
            "run": self.runs_of[place],
            "message": self.messages_of[place],
            **({"blobs": event["blobs"]} if isinstance(event.get("blobs"), Mapping) else {}),
        }

    def context(self) -> dict[str, Any]:
        visible = [place for place, removed in self.removed.items() if removed == NEVER] + self.work
        visible.sort(key=lambda place: (self.position(place), int(self.events[place]["seq"])))
        changes = [event for _, event in self.of("context")]
        calls: list[Any] = []
        for change in (event["tool_calls"] for event in changes if isinstance(event.get("tool_calls"), Mapping)):
            start, items = given(change, "from", is_place, NEVER), change.get("items")
            if start <= len(calls) and isinstance(items, (list, tuple)):
                calls = [*calls[:start], *items, *calls[start + len(items) :]]
        return {
            "version": 2,
            "events": [self.entry(place) for place in visible],
            "archived_to": None,
            "next_seq": int(self.events[self.accepted[-1]]["seq"]) + 1 if self.accepted else 0,
            **{key: next((event[key] for event in reversed(changes) if key in event), None) for key in FIELDS},
            "tool_calls": calls,
            "usage": total(total(self.calls(run).values()) for run in self.starts),
        }

    # What is being written

    def closings(self, message: str) -> list[int]:
        """The places at which a message was ended."""
        return [
            *(place for place in self.removed if self.messages_of[place] == message),
            *(place for place, _ in self.of("message_discarded") if self.messages_of[place] == message),
        ]

    def carried(self, message: str, place: int) -> bool:
        """Whether a surface entry that is visible at a place is this message."""
        return any(
            self.messages_of[entry] == message and entry < place < removed for entry, removed in self.removed.items()
        )

    def pieces(self) -> dict[str, list[int]]:
        """The places of the deltas that are still open, by message in order of their first."""
        found: dict[str, list[int]] = {}
        for place, event in self.of("agent_delta", "agent_thinking", "tool_call_delta"):
            message = self.messages_of[place]
            grows = (
                is_place(event.get("index")) if event["type"] == "tool_call_delta" else given(event, "text", is_text)
            )
            if message is not None and grows and not self.carried(message, place):
                found.setdefault(message, []).append(place)
        still = {
            message: [place for place in places if place > max(self.closings(message), default=-1)]
            for message, places in found.items()
        }
        return dict(sorted(((m, places) for m, places in still.items() if places), key=lambda item: item[1][0]))

    def open(self) -> list[dict[str, Any]]:
        return [self.message(message, [*places]) for message, places in self.pieces().items()]

    def message(self, message: str, places: list[int]) -> dict[str, Any]:
        run = self.runs_of[places[0]]
        deltas = [self.events[place] for place in places]
        calls = [event for event in deltas if event["type"] == "tool_call_delta"]
        order = list(dict.fromkeys(int(event["index"]) for event in calls))
        return {
            "message": message,
            "run": run,
            "text": "".join(event["text"] for event in deltas if event["type"] == "agent_delta"),
            "thinking": "".join(event["text"] for event in deltas if event["type"] == "agent_thinking"),
            "interrupted": any(end > places[0] and run in self.victims(end) for end in self.endings),
            "tool_calls": [self.call(index, [event for event in calls if event["index"] == index]) for index in order],
        }

    def call(self, index: int, deltas: list[Event]) -> dict[str, Any]:
        ids = [event["id"] for event in deltas if is_id(event.get("id"))]
        names = [event["name"] for event in deltas if given(event, "name", is_text)]
        return {
            "index": index,
            "id": ids[-1] if ids else None,
            "name": names[-1] if names else None,
            "text": "".join(given(event, "text", is_text, "") for event in deltas),
        }

    # People

    def approvals(self) -> list[dict[str, Any]]:
        asked: dict[tuple[str | None, str], int] = {}
        for place, event in self.of("approval_required"):
            if is_id(event.get("tool_call_id")):
                asked.setdefault((self.runs_of[place], event["tool_call_id"]), place)
        found = [self.approval(run, call, place) for (run, call), place in asked.items()]
        assert sum(approval["decision"] is not None for approval in found) <= 100, "the model knows no such bound"
        return found

    def approval(self, run: str | None, call: str, asked: int) -> dict[str, Any]:
        event = self.events[asked]
        decisions = [
            decided
            for place, decided in self.of("approval_decided")
            if place > asked
            and self.runs_of[place] == run
            and decided.get("tool_call_id") == call
            and is_text(decided.get("decision"))
            and decided["decision"] in {"approve", "reject", "edit", "expired"}
        ]
        decided = decisions[-1] if decisions else {}
        expired = any(end > asked and run in self.victims(end) for end in self.endings)
        decision = decided.get("decision") or ("expired" if expired else None)
        return {
            "tool_call_id": call,
            "run": run,
            **{key: given(event, key, is_text) for key in ("name", "arguments")},
            "requested_at": given(event, "at", is_integer),
            "expires_at": given(event, "expires_at", is_integer),
            "decision": decision,
            "by": decided.get("by"),
            "edited": given(decided, "arguments", is_text) if decision == "edit" else None,
            "reason": given(decided, "reason", is_text),
        }

    def queue(self) -> list[dict[str, Any]]:
        about: dict[str, list[tuple[int, Event]]] = {}
        for place, event in self.of("message_queued", "message_edited", "message_withdrawn", "message_taken"):
            if is_id(event.get("id")):
                about.setdefault(event["id"], []).append((place, event))
        waiting = []
        for message, facts in about.items():
            gone = max((place for place, event in facts if event["type"][8:] in {"withdrawn", "taken"}), default=-1)
            queued = [(place, event) for place, event in facts if place > gone and event["type"] == "message_queued"]
            if queued:
                first, event = queued[0]
                edits = [edit for place, edit in facts if place > first and edit["type"] == "message_edited"]
                content = (edits or [event])[-1].get("content")
                item = {"id": message, "content": content, "by": event.get("by"), "at": given(event, "at", is_integer)}
                waiting.append((first, item))
        return [item for _, item in sorted(waiting, key=lambda pair: pair[0])]

    def lines(self) -> list[dict[str, Any]]:
        return [
            {
                "at": given(event, "at", is_integer),
                "run": self.runs_of[place],
                "level": given(event, "level", is_text, "info"),
                "message": given(event, "message", is_text, ""),
                "logger": given(event, "logger", is_text),
                "fields": event["fields"] if isinstance(event.get("fields"), Mapping) else None,
            }
            for place, event in self.of("log")
        ][-200:]


def total(counters: Any) -> dict[str, int]:
    every = list(counters)
    return {name: sum(count[name] for count in every) for name in COUNTS}
