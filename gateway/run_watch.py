"""What the runs on a process's topics do, found out by their events once a step — no waiting here."""

import re
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from gateway.codec import decode_event
from gateway.measures import HUMAN, Histogram
from gateway.topic import HubTopic
from gateway.tracing import heard_run
from gateway.types import Topic

__all__ = ["RunWatch"]

LINES_A_STEP = 20_000
"""Lines looked at in one step, all topics together; the rest waits for the next one."""

MAX_CHILDREN = 1000
"""Sub-agents of one topic whose ends are known to be no run's of that topic."""

MAX_APPROVALS = 100
"""Questions of one run that are remembered."""

_TURNS = re.compile(
    rb'"type":"(?:agent_(?:start|complete|error|cancelled|lost)|approval_required|approval_decided|cancel_requested)"'
)
_FIRSTS = re.compile(_TURNS.pattern + rb'|"type":"(?:agent_delta|agent_thinking|tool_call_delta)"')

_ENDS = {
    "agent_complete": "completed",
    "agent_error": "failed",
    "agent_cancelled": "cancelled",
    "agent_lost": "lost",
}
_SPEECH = {"agent_delta", "agent_thinking", "tool_call_delta"}
_SPOKEN = tuple(f'{{"data":{{"type":"{kind}"'.encode() for kind in sorted(_SPEECH))
_HEARD = {"agent_start", "approval_required", "approval_decided", "cancel_requested", *_ENDS, *_SPEECH}


class _Run:
    """A run that goes on."""

    def __init__(self, run: str, at: int | None, trace: object = None) -> None:
        self.run = run
        self.at = at
        self.trace = trace  # its `traceparent`
        self.silent_since = at  # its start, until its model says something; ms, as all times here
        self.stopped_at: int | None = None
        self.questions: dict[str, int] = {}  # the calls that wait for people, and since when


class _Watched:
    """How far a topic has been looked at."""

    def __init__(self, topic: HubTopic) -> None:
        self.generation = topic.generation
        self.offset = topic.ring.start
        self.run: _Run | None = None
        self.children: deque[str] = deque(maxlen=MAX_CHILDREN)  # sub-agents that were announced


class RunWatch:
    """Counts the runs that this process hears, and measures them by the times in their events.

    A run that had begun before is counted from its first event on. The rings are read after the readers were served,
    and only the few events taken apart that say where a run stands. What a ring has lost by then is not counted.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.started: int = 0
        self.ends: Counter[str] = Counter()  # by status
        self.first_output: Histogram = Histogram(HUMAN)  # s from a run's start to its model's first words
        self.stops: Histogram = Histogram(HUMAN)  # s from somebody's wish to the run's end
        self.decisions: Histogram = Histogram(HUMAN)  # s from a question to its answer
        self._topics: dict[HubTopic, _Watched] = {}

    def look(self, topics: Iterable[HubTopic]) -> None:
        """Take in what is new on these topics; others are forgotten."""
        before, self._topics = self._topics, {}
        room = LINES_A_STEP
        for topic in topics:
            watched = before.get(topic)
            if watched is None or watched.generation != topic.generation:
                watched = _Watched(topic)
            self._topics[topic] = watched
            if watched.offset < topic.ring.end and room > 0:
                room -= self._read(topic, watched, room)

    def states(self) -> Counter[str]:
        """Count the runs that go on: running, waiting for people, cancelling."""
        found: Counter[str] = Counter(running=0, waiting=0, cancelling=0)
        for run in self._runs():
            state = "running" if not run.questions else "waiting"
            found[state if run.stopped_at is None else "cancelling"] += 1
        return found

    def waiting(self, now: int) -> tuple[int, float]:
        """Say how many questions wait, and for how many seconds the oldest has; ``now`` is Unix time in ms."""
        asked = [at for run in self._runs() for at in run.questions.values()]
        return len(asked), max(0.0, (now - min(asked)) / 1000) if asked else 0.0

    def _runs(self) -> list[_Run]:
        return [watched.run for watched in self._topics.values() if watched.run is not None]

    def _read(self, topic: HubTopic, watched: _Watched, room: int) -> int:
        ring = topic.ring
        begin = ring.after(watched.offset)
        stop = min(len(ring.offsets), begin + room)
        place = len(ring.prefix)
        for line in ring.lines[begin:stop]:
            run = watched.run
            if run is None or run.silent_since is not None:
                found = _FIRSTS.search(line)
            else:
                # Nearly all are what a model says, and begin with their type.
                found = None if line.startswith(_SPOKEN, place) else _TURNS.search(line)
            if found:
                self._take(topic.name, watched, decode_event(line)["push"]["pub"]["data"])
        watched.offset = ring.end if stop == len(ring.offsets) else ring.offsets[stop - 1]
        return stop - begin

    def _take(self, topic: Topic, watched: _Watched, event: Any) -> None:
        kind, name, at = event.get("type"), event.get("run"), event.get("at")
        if kind not in _HEARD or not isinstance(name, str) or not isinstance(at, int):
            return
        if kind == "agent_start":
            if "topic" in event:  # a sub-agent, announced to the readers of this topic
                watched.children.append(name)
            else:
                self.started += 1
                watched.run = _Run(name, at, event.get("trace"))
            return
        if name in watched.children:
            return
        run = watched.run
        if run is None or run.run != name:
            run = watched.run = _Run(name, None)
        if kind in _ENDS:
            self.ends[_ENDS[kind]] += 1
            if run.stopped_at is not None:
                self.stops.add(max(0, at - run.stopped_at) / 1000)
            watched.run = None
            if isinstance(run.trace, str) and run.at is not None:
                heard_run(run.trace, topic=topic, run=name, began=run.at, ended=at, outcome=kind)
        elif kind == "cancel_requested":
            run.stopped_at = run.stopped_at or at
        elif kind == "approval_required":
            if len(run.questions) < MAX_APPROVALS:
                run.questions[str(event.get("tool_call_id"))] = at
        elif kind == "approval_decided":
            asked = run.questions.pop(str(event.get("tool_call_id")), None)
            if asked is not None:
                self.decisions.add(max(0, at - asked) / 1000)
        elif run.silent_since is not None and kind in _SPEECH:
            self.first_output.add(max(0, at - run.silent_since) / 1000)
            run.silent_since = None
