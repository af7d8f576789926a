"""A mirror under a view is the view of the full mirror, whatever happens on the way."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.audience import Audiences, Strand
from gateway.catchup import CatchUp
from gateway.codec import encode_event, encode_json
from gateway.event_types import BOOKKEEPING_TYPES, DELTA_TYPES, END_TYPES, SURFACE_TYPES
from gateway.fanout import Fanout
from gateway.frames import frame_payloads, publication_line
from gateway.hub import _shown
from gateway.lens import GROUPS, Lens, types_of
from gateway.mirror import Mirror
from gateway.recovery import Missed
from gateway.redaction import MASKED, MASKS, Redaction
from gateway.ring import RingBudget
from gateway.snapshot import Snapshot
from gateway.subscriber import Subscriber
from gateway.topic import HubTopic
from gateway.types import Publication, Topic
from gateway.view import HIDDEN, View, view_of
from tests.event_strategies import sensible_events

EPOCH = "aaaaaaaa"


class Follower:
    """A reader without a socket, with a mirror that takes every frame."""

    def __init__(self, target: HubTopic, audiences: Audiences, view: View) -> None:
        self.client = self.user = ""
        self.issued_at: float | None = None
        self.pending: list[bytes] | None = None
        self.target = target
        self.audiences = audiences
        self.view = view
        self.mirror = Mirror(target.name, EPOCH, 0)
        self.subscriber: Subscriber | None = None
        self.markers = 0
        self.bytes = 0

    def write(self, frames: bytes) -> None:
        for payload in frame_payloads(frames):
            for line in payload.split(b"\n"):
                self.take(json.loads(line)["push"]["pub"])

    def take(self, pub: dict[str, Any]) -> None:
        self.markers += pub["data"] == json.loads(HIDDEN)
        first = int(pub["tags"]["from"]) if "tags" in pub else None
        publication = Publication(offset=pub["offset"], data=pub["data"], first=first)
        assert self.mirror.apply(publication) == "applied", (self.mirror.offset, pub)

    def fell_behind(self, subscriber: Subscriber) -> None:
        """Nothing: the test brings it up when its socket takes more."""

    def caught_up(self, subscriber: Subscriber) -> None:
        """Nothing."""

    def tell(self) -> None:
        """Nothing."""

    def join(self, snapshot: Snapshot | None = None) -> None:
        """Subscribe: from the position of the mirror, or with a snapshot."""
        ring = self.target.ring
        if snapshot is not None:
            self.mirror = Mirror.restore(json.loads(snapshot.seen(self.view).text))
        else:
            lines, _ = ring.since(self.mirror.offset, 10_000_000)
            for line in _shown(self.target.prefix, lines, self.view, self.mirror.offset):
                self.take(json.loads(line)["push"]["pub"])
        self.subscriber = Subscriber(
            self,  # type: ignore[arg-type]
            self.target,
            mirror=True,
            cursor=self.mirror.offset,
            audience=self.audiences.of(self.target, self.view),
        )
        self.target.enter(self.subscriber)

    def leave(self) -> None:
        if self.subscriber is not None:
            self.target.leave(self.subscriber, now=0)
            self.subscriber = None

    def stop(self) -> None:
        if self.subscriber is not None and self.subscriber.live:
            self.target.fall_behind(self.subscriber)

    async def go_on(self) -> None:
        while self.subscriber in self.target.behind:
            await CatchUp(None, None).advance(self.subscriber)  # type: ignore[arg-type]


# The parts of the state, and the types that make them


_ALIVE = {"agent_start", *END_TYPES}
_PARTS: dict[str, set[str]] = {
    "log": {"log", *_ALIVE},
    "queue": {"message_queued", "message_edited", "message_withdrawn", "message_taken"},
    "runs": {*_ALIVE, "cancel_requested", "step_start"},
    "usage": {*_ALIVE, "usage", "message_discarded"},
    "approvals": {*_ALIVE, "approval_required", "approval_decided"},
    "open": {*_ALIVE, *SURFACE_TYPES, "message_discarded"},
    "surface": set(SURFACE_TYPES),
    "bookkeeping": {*BOOKKEEPING_TYPES, *END_TYPES},
    "fields": {"context"},
}


_MAKERS: dict[str, set[str]] = {
    "log": {"log"},
    "queue": {"message_queued"},
    "runs": {"agent_start"},
    "approvals": {"approval_required"},
    "open": set(DELTA_TYPES),
    "surface": set(SURFACE_TYPES),
    "bookkeeping": set(BOOKKEEPING_TYPES),
    "fields": {"context"},
}
_EMPTY = Mirror().state()


def part(state: dict[str, Any], name: str) -> Any:
    events = state["context"]["events"]
    if name == "surface":
        return [entry for entry in events if entry["type"] in SURFACE_TYPES]
    if name == "bookkeeping":
        return [entry for entry in events if entry["type"] in BOOKKEEPING_TYPES]
    if name == "fields":
        return {key: value for key, value in state["context"].items() if key not in {"events", "next_seq", "usage"}}
    if name == "usage":
        runs = [(run["run"], run["calls"], run["usage"]) for run in state["runs"]]
        return [state["context"]["usage"], runs]
    if name == "runs":
        return [{**run, "calls": None, "usage": None} for run in state["runs"]]
    if name == "open":
        # Where deltas are hidden, the first one that is shown may be another message's.
        for message in state["open"]:
            message["tool_calls"].sort(key=lambda call: call["index"])
        return sorted(state["open"], key=lambda message: message["message"])
    return state[name]


_NAMES = [*GROUPS, "agent_delta", "agent_thinking", "tool_call_delta", *sorted(SURFACE_TYPES), "context", "usage"]


@st.composite
def views(draw: st.DrawFn) -> View:
    names = draw(st.none() | st.lists(st.sampled_from(_NAMES), min_size=1, max_size=8))
    lens = Lens(
        types=None if names is None else types_of([*names, *(["runs"] if draw(st.booleans()) else [])]),
        rate=draw(st.none() | st.integers(1, 60)),
        finished=draw(st.booleans()),
    )
    rules = {
        "drop": draw(st.lists(st.sampled_from(["logs", "usage", "agent_thinking", "approval_required"]), max_size=2)),
        "mask": draw(st.lists(st.sampled_from([*MASKS, "log.message", "message_queued.content"]), max_size=3)),
    }
    return view_of(lens, Redaction.read(rules)) or View()


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw runs, with people and logs in between."""
    found: list[dict[str, Any]] = []
    for event in draw(sensible_events()):
        found.append(event)
        run = event.get("run")
        if event["type"] not in END_TYPES and draw(st.integers(0, 4)) == 0:
            more: list[dict[str, Any]] = [
                {"type": "log", "run": run, "level": "error", "message": "said"},
                {"type": "message_queued", "id": f"q{len(found)}", "content": "hello", "by": "me"},
                {"type": "message_taken", "id": f"q{len(found) - 3}"},
                {"type": "context", "title": f"t{len(found)}"},
                {"type": "cancel_requested", "run": run, "by": "me", "mode": "now"},
                {"note": len(found)},
            ]
            found.append(draw(st.sampled_from(more)))
    return found


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(histories(), st.lists(views(), min_size=1, max_size=3), st.data())
def test_mirror_under_a_view_is_the_view_of_the_full_mirror(
    sequence: list[dict[str, Any]], seen: list[View], data: st.DataObject
) -> None:
    asyncio.run(_follow(sequence, seen, data))


async def _follow(sequence: list[dict[str, Any]], seen: list[View], data: st.DataObject) -> None:
    fanout = Fanout()
    audiences = Audiences(fanout)
    target = HubTopic(Topic("t"), "gw:t", RingBudget(10_000_000))
    target.restart(EPOCH, 0)
    assert target.release()
    full = [Mirror("t", EPOCH, 0)]  # at every offset
    # Two readers of each view: at one place they share what is made for them.
    followers = [Follower(target, audiences, view) for view in seen for _ in range(2)]

    def snapshot() -> Snapshot:
        state = full[-1].snapshot()
        return Snapshot(topic="t", epoch=EPOCH, offset=target.ring.end, text=encode_json(state))

    def check(follower: Follower) -> None:
        whole = full[follower.mirror.offset]
        expected, got = follower.view.state(whole.state()), follower.mirror.state()
        for name, types in _PARTS.items():
            if all(follower.view.shows(kind) for kind in types):
                assert part(got, name) == part(expected, name), (name, follower.view)
        for name, types in _MAKERS.items():
            if not any(follower.view.shows(kind) for kind in types):
                assert part(got, name) == part(_EMPTY, name), (name, follower.view)
        if not follower.view.shows("usage"):
            assert got["context"]["usage"] == _EMPTY["context"]["usage"]

    for event in sequence:
        encoded = encode_event(event)
        offset = target.ring.end + 1
        line = publication_line(target.prefix, offset, encoded)
        assert target.hear(f"{EPOCH} {offset} {offset} x\n".encode() + line) == "new"
        following = Mirror.restore(json.loads(encode_json(full[-1].snapshot())))
        following.apply(Publication(offset=offset, data=json.loads(encoded)))
        full.append(following)
        fanout.add(target)
        if data.draw(st.integers(0, 2)):
            fanout.flush()
        for follower in followers:
            match data.draw(st.integers(0, 11)):
                case 0:
                    follower.leave()
                case 1 | 2 if follower.subscriber is None:
                    follower.join(snapshot() if data.draw(st.booleans()) else None)
                case 3:
                    follower.stop()
                case 4:
                    await follower.go_on()
                case 5:
                    for audience in target.audiences.values():
                        assert isinstance(audience, Strand)
                        audience.step(0)
                    fanout.flush()
                case 6:
                    for audience in target.audiences.values():
                        assert isinstance(audience, Strand)
                        audience._tell_tail()
                    fanout.flush()
            check(follower)
    fanout.flush()
    for follower in followers:
        if follower.subscriber is None:
            follower.join()
        await follower.go_on()
    for audience in list(target.audiences.values()):
        assert isinstance(audience, Strand)
        audience.step(0)
        audience._tell_tail()
    fanout.flush()
    audiences.close()
    for follower in followers:
        await follower.go_on()
        assert follower.mirror.offset == len(sequence)
        check(follower)


# What is masked is nowhere


SECRET = "s3cret"


def _secret_history() -> list[dict[str, Any]]:
    arguments = json.dumps({"path": SECRET})
    common = {"run": "r", "time": "2026-01-01T00:00:00.000000Z"}
    call = {"id": "c", "name": "rm", "arguments": arguments}
    blobs = {"/tool_calls/0/arguments": {"hash": SECRET, "bytes": 9}, "/thinking": {"hash": SECRET, "bytes": 9}}
    return [
        {"type": "agent_start", "run": "r", "agent": "a"},
        {"type": "agent_thinking", "run": "r", "message": "m", "text": SECRET},
        {"type": "tool_call_delta", "run": "r", "message": "m", "index": 0, "id": "c", "name": "rm", "text": SECRET},
        {"type": "tool_call_delta", "run": "r", "message": "m", "index": 0, "text": SECRET},
        {
            "type": "assistant_message",
            "seq": 0,
            "message": "m",
            "content": "plain",
            "metadata": {},
            "thinking": SECRET,
            "reasoning_details": [{"text": SECRET}],
            "tool_calls": [call],
            "blobs": blobs,
            **common,
        },
        {"type": "approval_required", "run": "r", "tool_call_id": "c", "name": "rm", "arguments": arguments},
        {"type": "approval_decided", "run": "r", "tool_call_id": "c", "decision": "edit", "arguments": arguments},
        {"type": "tool_call", "seq": 1, **call, **common},
        {"type": "tool_result", "seq": 2, "tool_call_id": "c", "content": [{"text": SECRET}], "metadata": {}, **common},
        {"type": "context", "tool_calls": {"from": 0, "items": [{**call, "result": SECRET}]}},
        {"type": "log", "run": "r", "message": SECRET},
        {"type": "usage", "run": "r", "call": "k", "output_tokens": 77},
        {"type": "notification", "run": "r", "name": "tool_call", "payload": call},
        {"type": "progress", "run": "r", "tool_call_id": "c", "text": SECRET},
    ]


_RULES = Redaction.read({"drop": ["logs", "usage"], "mask": ["arguments", "results", "thinking"]})


def test_nothing_that_is_masked_leaves_in_events_or_snapshots() -> None:
    assert _RULES is not None
    view, full, shown = View(redaction=_RULES), Mirror("t", EPOCH, 0), Mirror("t", EPOCH, 0)
    for offset, event in enumerate(_secret_history(), 1):
        encoded = encode_event(event)
        full.apply(Publication(offset=offset, data=json.loads(encoded)))
        (passed,) = view.through([Missed(first=offset, offset=offset, data=encoded)], end=offset)
        assert SECRET.encode() not in passed.data, passed.data
        assert b"77" not in passed.data
        shown.apply(Publication(offset=offset, data=json.loads(passed.data)))
        snapshot = view.snapshot(full.snapshot())
        assert SECRET not in json.dumps(snapshot), (event, snapshot)
        assert snapshot["mirror"] == shown.state(), event
    assert shown.context["events"][0]["data"]["tool_calls"] == [{"id": "c", "name": "rm", "arguments": MASKED}]
    assert shown.context["usage"]["output_tokens"] == 0
    assert full.context["usage"]["output_tokens"] == 77


def test_entry_of_the_archive_is_masked_as_in_a_snapshot() -> None:
    assert _RULES is not None
    for event in _secret_history():
        mirror = Mirror()
        mirror.fold(event)
        for entry in mirror.context["events"]:
            assert SECRET not in json.dumps(_RULES.redact_entry(entry))


def test_equal_wishes_make_one_view() -> None:
    def made(types: Iterable[str]) -> View | None:
        rules = Redaction.read({"drop": ["logs"], "mask": ["log.fields", "thinking"]})
        return view_of(Lens(types=types_of(types), rate=4), rules)

    one, other = made(["runs", "log"]), made(["log", *sorted(GROUPS["runs"])])
    assert one == other
    assert hash(one) == hash(other)


def test_finished_hides_deltas_only() -> None:
    view = view_of(Lens(finished=True))
    assert view is not None
    assert not any(view.shows(kind) for kind in DELTA_TYPES)
    assert view.shows("assistant_message")
    assert view.shows("")
