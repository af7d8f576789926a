"""What a gateway process knows of one topic: its last events, its readers, its folded state — no waiting here."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from gateway.errors import UnsubscribeCode
from gateway.frames import encode_push, publication_line, push_prefix, text_frame, text_frames
from gateway.mirror import Mirror
from gateway.recovery import Missed
from gateway.ring import Ring, RingBudget
from gateway.snapshot import Snapshot
from gateway.subscriber import Subscriber
from gateway.types import Position, Topic
from gateway.view import View

if TYPE_CHECKING:
    from gateway.audience import Audience

__all__ = ["HubTopic"]

HELD_BYTES = 1024 * 1024
"""Publications kept while the history is read; beyond it they are dropped and the history is read again."""

FLUSH_BYTES = 64 * 1024
"""A reader that is further behind than this is brought up piece by piece instead of in one write."""


class HubTopic:
    """One topic inside a hub."""

    __slots__ = (
        "_epoch_bytes",
        "_frame",
        "_frames",
        "_frames_end",
        "_held",
        "_held_bytes",
        "_line",
        "_overflowed",
        "audiences",
        "behind",
        "channel",
        "dirty",
        "epoch",
        "folding",
        "generation",
        "idle_since",
        "known",
        "live",
        "mirror",
        "name",
        "pins",
        "prefix",
        "reading",
        "ring",
        "snapshot",
        "syncing",
        "turn",
        "turn_end",
        "turn_index",
    )

    def __init__(self, name: Topic, channel: str, budget: RingBudget) -> None:
        """Make an unread topic that holds back what it hears."""
        self.name: Topic = name
        self.channel: str = channel
        self.prefix: bytes = push_prefix(name)
        self.epoch: str = ""
        self.known: bool = False  # the epoch and the top have been read
        self.generation: int = 0  # counts the histories that replaced each other
        self.ring: Ring = Ring(self.prefix, budget)
        self.live: dict[Subscriber, None] = {}  # readers who see everything, served by every flush
        self.behind: dict[Subscriber, None] = {}  # readers of any kind that their connection brings up
        self.audiences: dict[View, Audience] = {}  # readers who see it otherwise
        self.idle_since: float = 0.0  # loop time at which the last reader left
        self.pins: int = 0  # commands that use the topic right now
        self.dirty: bool = False  # waits in the hub's line for its turn
        self.turn: list[Subscriber] = []  # readers of a fan-out that is being sliced
        self.turn_index: int = 0
        self.turn_end: int = 0  # the top when that fan-out began
        self.syncing: asyncio.Task[None] | None = None
        self.reading: asyncio.Lock = asyncio.Lock()  # one recovery read at a time: the next finds the ring filled
        self.folding: asyncio.Lock = asyncio.Lock()
        self.mirror: Mirror | None = None
        self.snapshot: Snapshot | None = None
        self._epoch_bytes: bytes = b""
        self._held: list[bytes] | None = []
        self._held_bytes: int = 0
        self._overflowed: bool = False
        self._line: bytes = b""  # the last one that was made a frame alone
        self._frame: bytes = b""
        self._frames: dict[int, bytes] = {}  # of several lines, by the cursor they begin at, all up to _frames_end
        self._frames_end: int = 0

    @property
    def position(self) -> Position:
        """The last event heard or read."""
        return Position(epoch=self.epoch, offset=self.ring.end)

    @property
    def readers(self) -> int:
        """How many subscribers it has."""
        return len(self.live) + len(self.behind) + sum([len(audience.live) for audience in self.audiences.values()])

    @property
    def subscribers(self) -> list[Subscriber]:
        """All of them."""
        found = [*self.live, *self.behind]
        for audience in self.audiences.values():
            found += audience.live
        return found

    @property
    def viewers(self) -> int:
        """How many subscribers read more than its summary."""
        summaries = [audience for view, audience in self.audiences.items() if view.summary]
        return self.readers - sum(len(audience.members) for audience in summaries)

    @property
    def lag(self) -> dict[str, Any]:
        """How many of them are behind, and how many events the last of them."""
        behind = [subscriber for subscriber in self.behind if not subscriber.summarised]
        events = max((self.ring.end - subscriber.cursor for subscriber in behind), default=0)
        return {"readers": len(behind), "events": max(events, 0)}

    @property
    def held(self) -> bool:
        """Whether what is heard is kept back until the history has been read."""
        return self._held is not None

    def hear(self, payload: bytes) -> Literal["new", "nothing", "gap"]:
        """Take one publication off the link; ``gap`` asks for the history to be read."""
        if self._held is not None:
            self._hold(payload)
            return "nothing"
        header, _, lines = payload.partition(b"\n")
        epoch, first_text, last_text, _types = header.split(b" ", 3)
        if epoch != self._epoch_bytes:
            return "gap"
        last = int(last_text)
        ring = self.ring
        end = ring.end
        if last <= end:
            return "nothing"
        if first_text == last_text:
            if last > end + 1:
                return "gap"
            ring.append(last, lines)
            return "new"
        first = int(first_text)
        if first > end + 1:
            return "gap"
        for offset, line in enumerate(lines.split(b"\n"), first):
            if offset > end:
                ring.append(offset, line)
        return "new"

    def hold(self) -> None:
        """Keep what is heard from now on until `release`; what was kept before is forgotten."""
        self._held = []
        self._held_bytes = 0
        self._overflowed = False

    def distrust(self) -> None:
        """Have `release` ask for one more read: the one under way may be from before something was lost."""
        self.hold()
        self._overflowed = True

    def release(self) -> bool:
        """Take what was held after the history was read; False where it has to be read again, holding on."""
        held, overflowed = self._held or (), self._overflowed
        self._held = None
        gaps = [payload for payload in held if self.hear(payload) == "gap"]
        if gaps or overflowed:
            self.hold()
            return False
        return True

    def extend(self, missed: Iterable[Missed]) -> None:
        """Add events that were read from the store."""
        for event in missed:
            if event.offset > self.ring.end:
                self.ring.append(event.offset, publication_line(self.prefix, event.offset, event.data))

    def restart(self, epoch: str, top: int) -> None:
        """Go on with another history, at its top."""
        self.known = True
        self.generation += 1
        self.epoch = epoch
        self._epoch_bytes = epoch.encode()
        self.ring.clear(top)
        self.mirror = None
        self.snapshot = None
        self._frames.clear()

    def frames(self, cursor: int) -> bytes:
        """Give the websocket frames that bring a reader at a cursor to the top; b"" where it is too far behind."""
        ring = self.ring
        if ring.before == cursor >= ring.start and ring.lines:
            # By far the most frequent case, so it has a place of its own.
            line = ring.lines[-1]
            if line is not self._line:
                self._line, self._frame = line, text_frame(line)
            return self._frame
        end = ring.end
        if self._frames_end != end:
            self._frames.clear()
            self._frames_end = end
        frames = self._frames.get(cursor)
        if frames is None:
            frames = b""
            if ring.reaches(cursor):
                lines, last = ring.since(cursor, FLUSH_BYTES)
                if last == end:
                    frames = text_frames(lines)
            self._frames[cursor] = frames
        return frames

    def enter(self, subscriber: Subscriber) -> None:
        """Serve a subscriber from now on, in the step in which its reply is written."""
        audience = subscriber.audience
        if audience is not None:
            audience.members[subscriber] = None
            self.audiences[audience.view] = audience
        if self._is_current(subscriber) and not subscriber.parts:
            subscriber.live = True
            self._live(subscriber)[subscriber] = None
        else:
            self.behind[subscriber] = None
            subscriber.reader.fell_behind(subscriber)
        self._recount()

    def leave(self, subscriber: Subscriber, *, now: float) -> None:
        """Serve a subscriber no more; ``now`` is the loop's time."""
        subscriber.live = False
        self._live(subscriber).pop(subscriber, None)
        self.behind.pop(subscriber, None)
        if subscriber.audience is not None:
            subscriber.audience.members.pop(subscriber, None)
            if not subscriber.audience.members:
                self.disband(subscriber.audience)
        subscriber.parts.clear()
        subscriber.page.clear()
        if not self.readers:
            self.idle_since = now
        self._recount()

    def fall_behind(self, subscriber: Subscriber) -> None:
        """Keep only the cursor of a live subscriber; its connection brings it up later."""
        subscriber.live = False
        self._live(subscriber).pop(subscriber, None)
        self.behind[subscriber] = None
        subscriber.reader.fell_behind(subscriber)

    def catch_up(self, subscriber: Subscriber) -> bool:
        """Let the flush serve a subscriber again if nothing is missing to it; say so."""
        if (
            subscriber not in self.behind
            or subscriber.stale
            or subscriber.parts
            or subscriber.page
            or not self._is_current(subscriber)
        ):
            return False
        subscriber.live = True
        del self.behind[subscriber]
        self._live(subscriber)[subscriber] = None
        self._recount()
        return True

    def dismiss(self, subscriber: Subscriber, *, now: float) -> None:
        """Send a stock reader to subscribe again: it gets the verdict on its position (PROTOCOL.md 3.5)."""
        self.leave(subscriber, now=now)
        body = {"code": int(UnsubscribeCode.INSUFFICIENT_STATE), "reason": "insufficient state"}
        subscriber.reader.push(encode_push("unsubscribe", body, channel=self.name))
        subscriber.reader.dropped(subscriber)

    def replace(self, epoch: str, top: int, *, now: float) -> None:
        """Go on with another history; mirror readers get its state, others subscribe again (PROTOCOL.md 3.5)."""
        self.restart(epoch, top)
        for subscriber in self.subscribers:
            if subscriber.summarised:
                continue
            subscriber.parts.clear()
            subscriber.page.clear()
            if not subscriber.mirror:
                self.dismiss(subscriber, now=now)
                continue
            subscriber.stale = True
            if subscriber.live:
                self.fall_behind(subscriber)
        self.stir()

    def stir(self) -> None:
        """Tell those who do not see everything that there is news."""
        for audience in list(self.audiences.values()):
            audience.heard()

    def _recount(self) -> None:
        """Tell those who look at a summary that readers came or went, or are behind no more."""
        for audience in list(self.audiences.values()):
            if audience.view.summary:
                audience.heard()

    def disband(self, audience: "Audience") -> None:
        """Forget an audience that has no members."""
        if self.audiences.get(audience.view) is audience:
            del self.audiences[audience.view]

    def _live(self, subscriber: Subscriber) -> dict[Subscriber, None]:
        return self.live if subscriber.audience is None else subscriber.audience.live

    def _is_current(self, subscriber: Subscriber) -> bool:
        audience = subscriber.audience
        return subscriber.cursor >= (self.ring.end if audience is None else audience.top)

    def _hold(self, payload: bytes) -> None:
        if self._held is None or self._overflowed:
            return
        self._held.append(payload)
        self._held_bytes += len(payload)
        if self._held_bytes > HELD_BYTES:
            self._held.clear()
            self._overflowed = True
