"""Event sequences for property tests: sensible runs, arbitrary junk, and junk that looks nearly right.

All keep the entry rules of PROTOCOL.md 4.4, as everything that a mirror sees does.
"""

from typing import Any

from hypothesis import strategies as st

from gateway.event_types import BOOKKEEPING_TYPES, DELTA_TYPES, END_TYPES, RESERVED_TYPES, SURFACE_TYPES
from gateway.types import Publication

__all__ = ["JSON", "events", "numbered", "sensible_events"]

_TEXT = st.text(max_size=6) | st.sampled_from(["a", "🚀", "👩‍🚀", "e\u0301", "\u2028\r\n", "\x00", '"\\', "\ufeff"])
_NUMBERS = (
    st.integers(-3, 12)
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, 1.0, 2.0, -1.0, 1.5, 2.0**53, 2.0**60, 2**40 - 1, 2**40])
)
_ATOMS = st.none() | st.booleans() | _NUMBERS | _TEXT
_KEYS = _TEXT.filter(lambda key: key != "__proto__") | st.sampled_from(["constructor", "toString", "0", "length"])

JSON: st.SearchStrategy[Any] = st.recursive(
    _ATOMS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=8,
)

_IDS = st.sampled_from(["a", "b", "c", "1", "constructor"])
_RUNS = st.sampled_from(["r1", "r2", "r3", "r4"])
_SEQS = st.integers(0, 40)
_RANGES = st.tuples(st.just("replace"), _SEQS, _SEQS).map(list)
_TOOL_CALLS = st.fixed_dictionaries({"from": st.integers(0, 6), "items": st.lists(_ATOMS, max_size=3)})

_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "at": st.integers(0, 2_000_000_000_000),
    "run": _RUNS,
    "message": _IDS,
    "text": _TEXT,
    "index": st.integers(0, 3),
    "id": _IDS,
    "name": _TEXT,
    "seq": _SEQS,
    "time": _TEXT,
    "content": JSON,
    "surface_op": _RANGES,
    "call": _IDS,
    "requests": st.integers(0, 9),
    "input_tokens": st.integers(0, 2**40),
    "agent": _TEXT,
    "parent": _RUNS,
    "topic": _TEXT,
    "level": st.sampled_from(["debug", "info", "warning", "error"]),
    "fields": st.dictionaries(_KEYS, _ATOMS, max_size=2),
    "tool_call_id": _IDS,
    "arguments": _TEXT,
    "expires_at": st.integers(0, 2_000_000_000_000),
    "decision": st.sampled_from(["approve", "reject", "edit", "expired", "maybe"]),
    "by": _ATOMS,
    "reason": _TEXT,
    "error": _TEXT,
    "mode": st.sampled_from(["now", "after_step"]),
    "title": JSON,
    "blobs": JSON,
    "iteration": JSON,
    "tool_calls": _TOOL_CALLS,
}
_COMMON = ("run", "message", "seq")

_TYPES = [*sorted(RESERVED_TYPES), "unknown", ""]


@st.composite
def _nearly_right(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an event of a known type whose fields are mostly there and mostly of the right kind."""
    event: dict[str, Any] = {"type": draw(st.sampled_from(_TYPES))}
    names = set(draw(st.lists(st.sampled_from(sorted(_FIELDS)), max_size=8)))
    names.update(name for name in (*_COMMON, *_usual(event["type"])) if draw(st.integers(0, 9)))
    for name in sorted(names):
        right = draw(st.integers(0, 11)) > 0
        event[name] = draw(_FIELDS[name] if right else JSON | st.just("__proto__") | st.just(""))
    return event


def _usual(kind: str) -> tuple[str, ...]:
    if kind in DELTA_TYPES:
        return ("text", "index", "id")
    if kind in END_TYPES:
        return ("at", "error", "reason")
    if kind in SURFACE_TYPES | BOOKKEEPING_TYPES:
        return ("content", "time")
    return ("id", "tool_call_id", "decision", "call", "requests", "content", "parent", "arguments", "at", "tool_calls")


@st.composite
def sensible_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw what real runs publish: one after another, each with turns, steps, messages, tools and its one end."""
    events: list[dict[str, Any]] = []
    seq = 0

    def log(kind: str, **fields: Any) -> None:
        nonlocal seq
        events.append({"type": kind, "seq": seq, "time": f"t{seq}", **fields})
        seq += 1

    for number in range(draw(st.integers(1, 3))):
        run = f"run{number}"
        events.append({"type": "agent_start", "run": run, "at": number, "agent": "a"})
        log("user_message", run=run, content=draw(_TEXT), metadata={})
        log("turn_start", run=run, turn=number)
        for step in range(draw(st.integers(0, 3))):
            log("step_start", run=run, step=step)
            message, call = f"m{number}.{step}", f"k{number}.{step}"
            for _ in range(draw(st.integers(0, 5))):
                events.append(draw(_delta(run, message)))
                if draw(st.booleans()):
                    events.append(
                        {"type": "usage", "run": run, "call": call, "requests": 1, "output_tokens": len(events)}
                    )
            outcome = draw(st.sampled_from(["sealed", "sealed", "discarded", "open"]))
            if outcome == "sealed":
                log("assistant_message", run=run, message=message, content=draw(_TEXT), metadata={})
            elif outcome == "discarded":
                events.append({"type": "message_discarded", "run": run, "message": message, "call": call})
            else:
                break
            if draw(st.booleans()):
                events.append({"type": "approval_required", "run": run, "tool_call_id": f"t{step}", "name": "rm"})
                if draw(st.booleans()):
                    events.append(
                        {"type": "approval_decided", "run": run, "tool_call_id": f"t{step}", "decision": "approve"}
                    )
                log("tool_call", run=run, id=f"t{step}", name="rm", arguments="{}", message=message)
                log("tool_result", run=run, tool_call_id=f"t{step}", content="done", metadata={})
            log("step_end", run=run, step=step)
        if draw(st.booleans()):
            log("turn_end", run=run)
        if draw(st.integers(0, 4)) == 0:
            start = draw(st.integers(0, seq))
            log("system_message", run=run, surface_op=["replace", start, draw(st.integers(start, seq + 3))])
        if draw(st.integers(0, 6)) == 0:
            log("cleared", run=run)
        events.append({"type": draw(st.sampled_from(sorted(END_TYPES))), "run": run, "at": number + 1})
    return events


def _delta(run: str, message: str) -> st.SearchStrategy[dict[str, Any]]:
    text = _TEXT.filter(bool)
    plain = st.builds(
        lambda kind, text: {"type": kind, "run": run, "message": message, "text": text},
        st.sampled_from(["agent_delta", "agent_thinking"]),
        text,
    )
    call = st.builds(
        lambda index, text: {"type": "tool_call_delta", "run": run, "message": message, "index": index, "text": text},
        st.integers(0, 2),
        text,
    )
    return plain | call


def events() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw a sequence: sensible, junk, or both in turns."""
    junk = st.lists(_nearly_right() | st.dictionaries(_KEYS | st.just("type"), JSON, max_size=4), max_size=30)
    return (
        sensible_events() | junk | st.builds(_interleaved, sensible_events(), junk, st.randoms(use_true_random=False))
    )


def _interleaved(one: list[dict[str, Any]], other: list[dict[str, Any]], random: Any) -> list[dict[str, Any]]:
    left, right, mixed = list(one), list(other), []
    while left or right:
        source = left if not right or (left and random.random() < 0.5) else right
        mixed.append(source.pop(0))
    return mixed


def numbered(events: list[dict[str, Any]], *, after: int = 0) -> list[Publication]:
    """Put events at successive offsets."""
    return [Publication(offset=offset, data=event) for offset, event in enumerate(events, after + 1)]
