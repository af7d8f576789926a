"""Readers of one topic who see it by the same rules."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from gateway.errors import CommandError, ErrorCode
from gateway.fanout import Fanout
from gateway.frames import PIECE_BYTES, text_frames
from gateway.merging import merge_lines
from gateway.pace import Pace
from gateway.recovery import Missed
from gateway.subscriber import Subscriber
from gateway.view import HIDDEN, View, push_lines

if TYPE_CHECKING:
    from gateway.topic import HubTopic

__all__ = ["MAX_LENSES", "TAIL_INTERVAL", "Audience", "Audiences", "Strand"]

SCAN_BYTES = 1024 * 1024
"""Events looked through before a flush; where more are new, each reader is brought up piece by piece."""

KEPT_BYTES = 1024 * 1024
"""Events kept for the later slices of a fan-out; readers that would need more are brought up piece by piece."""

MAX_LENSES = 256
"""Views of one topic that lenses make: each costs a look at every event."""

TAIL_INTERVAL = 1.0
"""Seconds after which a reader is told at the latest that what followed is hidden from it."""


class Audience(Protocol):
    """Those readers, and what is made for all of them at once; the fan-out serves it as it serves a topic."""

    view: View
    live: dict[Subscriber, None]
    """Served by every flush."""
    members: dict[Subscriber, None]
    """These, and those that their connection brings up."""

    @property
    def top(self) -> int:
        """What a reader's cursor is at when nothing is missing to it."""

    def heard(self) -> None:
        """Note that the topic has news; called often, so it only puts itself in a line."""


class _End:
    """The last offset that is shown; a fan-out reads it as it reads a ring."""

    def __init__(self, end: int) -> None:
        self.end: int = end


class _Tail:
    """What follows the last event that was shown, and is hidden."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def step(self, _now: float) -> None:
        self._tell()


class Strand:
    """What a topic's readers of one view are shown.

    Of everything between a live reader's cursor and what was scanned, all that is shown is kept: its next frame begins
    after its cursor.
    """

    audiences: Mapping[View, Any] = {}

    def __init__(self, topic: "HubTopic", view: View, keeper: "Audiences") -> None:
        """Begin at the top."""
        self.topic: HubTopic = topic
        self.view: View = view
        self.live: dict[Subscriber, None] = {}
        self.members: dict[Subscriber, None] = {}
        self.dirty: bool = False  # waits in the line of the fan-out, as do the three below
        self.turn: list[Subscriber] = []
        self.turn_index: int = 0
        self.turn_end: int = 0
        self.ring: _End = _End(topic.ring.end)
        self._keeper = keeper
        self._tail = _Tail(self._tell_tail)
        self._generation: int = topic.generation
        self._scanned: int = topic.ring.end
        self._kept: list[Missed] = []
        self._kept_from: int = topic.ring.end
        self._kept_bytes: int = 0
        self._frames: dict[int, bytes] = {}  # by the cursor they begin at, all up to _frames_end
        self._frames_end: int = 0

    @property
    def top(self) -> int:
        """What a reader's cursor is at when nothing is missing to it."""
        return self.topic.ring.end

    def heard(self) -> None:
        """Have what is new shown, at once or with the next flush of its rate."""
        if self.view.rate is None:
            self.step(0)
        else:
            self._keeper.pace(self.view.rate).add(self)

    def stir(self) -> None:
        """Nothing to do: nobody waits for its news."""

    def step(self, _now: float) -> None:
        """Look through what is new."""
        if not self.members:
            self.topic.disband(self)
            return
        if self._scan():
            self._keeper.fanout.add(self)
        if self._scanned > self.ring.end:
            self._keeper.tails.add(self._tail)

    def frames(self, cursor: int) -> bytes:
        """Give the frames that bring a reader at a cursor to the end; b"" where they would be too many."""
        self._check_history()
        if self._frames_end != self.ring.end:
            self._frames.clear()
            self._frames_end = self.ring.end
        frames = self._frames.get(cursor)
        if frames is None:
            frames = self._frames[cursor] = self._encode(cursor)
        return frames

    def fall_behind(self, subscriber: Subscriber) -> None:
        """Keep only the cursor of a subscriber; its connection brings it up later."""
        self.topic.fall_behind(subscriber)

    def _encode(self, cursor: int) -> bytes:
        if cursor < self._kept_from:
            return b""
        prefix = self.topic.prefix
        lines = push_lines(prefix, [event for event in self._kept if event.offset > cursor], cursor)
        merged = lines if self.view.rate is None else merge_lines(prefix, lines)
        return text_frames(merged) if sum([len(line) for line in merged]) <= PIECE_BYTES or len(merged) == 1 else b""

    def _scan(self) -> bool:
        """Look through what is new; tell whether there is something to show."""
        self._check_history()
        ring = self.topic.ring
        if not self.dirty:
            # All that was kept has been served.
            self._forget(self.ring.end)
        if self._scanned >= ring.end:
            return False
        if not ring.reaches(self._scanned) or ring.bytes_since(self._scanned) > SCAN_BYTES:
            self._restart()
            return False
        shown = self.view.shown(ring.missed(self._scanned, SCAN_BYTES))
        self._scanned = ring.end
        self._keep(shown)
        return bool(shown)

    def _keep(self, shown: list[Missed]) -> None:
        if not shown:
            return
        self._kept += shown
        self._kept_bytes += sum([len(event.data) for event in shown])
        self.ring.end = shown[-1].offset
        if self._kept_bytes > KEPT_BYTES:
            self._restart()

    def _tell_tail(self) -> None:
        if not self.members:
            return
        self._check_history()
        if self._scanned > self.ring.end:
            if not self.dirty:
                self._forget(self.ring.end)
            self._keep([Missed(first=self._scanned, offset=self._scanned, data=HIDDEN)])
            self._keeper.fanout.add(self)

    def _forget(self, offset: int) -> None:
        self._kept.clear()
        self._kept_from = offset
        self._kept_bytes = 0

    def _restart(self) -> None:
        """Go on at the top, and have the readers brought up to it."""
        self._scanned = self.ring.end = self.topic.ring.end
        self._forget(self._scanned)
        for subscriber in [found for found in self.live if found.cursor < self._scanned]:
            self.topic.fall_behind(subscriber)

    def _check_history(self) -> None:
        if self._generation != self.topic.generation:
            self._generation = self.topic.generation
            self._restart()


class Audiences:
    """Makes the strands of topics, and paces them: one timer a rate."""

    def __init__(self, fanout: Fanout) -> None:
        """Make it over what writes."""
        self.fanout: Fanout = fanout
        self.tails: Pace = Pace(TAIL_INTERVAL, after=fanout.flush)
        self._paces: dict[int, Pace] = {}

    def of(self, topic: "HubTopic", view: View) -> Audience:
        """Give those who see a topic by these rules.

        Raises:
            CommandError: 111, they would be of too many kinds; who only has to be spared something is always let in.

        """
        audience = topic.audiences.get(view)
        if audience is None:
            if len(topic.audiences) >= MAX_LENSES and view != View(redaction=view.redaction):
                raise CommandError(
                    ErrorCode.TOO_MANY_REQUESTS, f"the topic is read through {MAX_LENSES} lenses already"
                )
            audience = topic.audiences[view] = Strand(topic, view, self)
        return audience

    def pace(self, rate: int) -> Pace:
        """Give the timer of a rate, in flushes a second."""
        pace = self._paces.get(rate)
        if pace is None:
            pace = self._paces[rate] = Pace(1 / rate, after=self.fanout.flush)
        return pace

    def close(self) -> None:
        """Pace nothing any more."""
        for pace in (self.tails, *self._paces.values()):
            pace.close()
