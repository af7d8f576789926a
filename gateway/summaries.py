"""Summaries of topics, computed for those who look at them (PROTOCOL.md 3.9)."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from gateway.codec import encode_json
from gateway.errors import BrokerUnavailableError
from gateway.fanout import Fanout
from gateway.folds import Folds
from gateway.frames import encode_push, text_frame
from gateway.pace import Pace
from gateway.subscriber import Subscriber
from gateway.summary import Summary
from gateway.topic import HubTopic
from gateway.view import View

__all__ = ["SUMMARY_INTERVAL", "Summaries", "SummaryAudience"]

SUMMARY_INTERVAL = 0.25
"""Seconds between two summaries of a topic."""

SCAN_BYTES = 1024 * 1024
"""Events folded before the loop may turn to something else, in bytes."""


class _Version:
    """How often a summary was made anew; a fan-out reads it as it reads a ring."""

    def __init__(self) -> None:
        self.end: int = 1


class SummaryAudience:
    """The readers of one topic's summary; one encoding serves them all."""

    audiences: Mapping[View, Any] = {}

    def __init__(self, topic: HubTopic, view: View, summary: Summary, keeper: "Summaries") -> None:
        """Begin with a summary that is up to date."""
        self.topic: HubTopic = topic
        self.view: View = view
        self.live: dict[Subscriber, None] = {}
        self.members: dict[Subscriber, None] = {}  # these, and those whose sockets take no more
        self.dirty: bool = False  # waits in the line of the fan-out, as do the three below
        self.turn: list[Subscriber] = []
        self.turn_index: int = 0
        self.turn_end: int = 0
        self.ring: _Version = _Version()
        self._keeper = keeper
        self._summary: Summary = summary
        self._generation: int = topic.generation
        self._loading: bool = False
        self._body: bytes = b""
        self._frames: bytes = b""

    @property
    def top(self) -> int:
        """What a reader's cursor is at when nothing is missing to it."""
        return self.ring.end

    @property
    def current(self) -> bool:
        """Whether the summary can be brought up from the topic's ring."""
        return self._generation == self.topic.generation and self.topic.ring.reaches(self._summary.offset)

    def stir(self) -> None:
        """Nothing to do: nobody else looks at a summary."""

    def heard(self) -> None:
        """Note that the topic has news."""
        self._keeper.pace.add(self)

    def frames(self, _cursor: int) -> bytes:
        """Give the summary as it is."""
        return self._frames

    def fall_behind(self, subscriber: Subscriber) -> None:
        """Write no more to a subscriber until its socket takes more."""
        self.topic.fall_behind(subscriber)

    def renew(self, subscriber: Subscriber) -> None:
        """Write the summary to a subscriber whose socket takes more again."""
        subscriber.cursor = self.ring.end
        subscriber.reader.write(self._frames)

    def restart(self, summary: Summary) -> None:
        """Go on with another fold, of the history that the topic has now."""
        self._summary = summary
        self._generation = self.topic.generation
        self._loading = False
        self.heard()

    def failed(self) -> None:
        """Note that the topic could not be read; it is tried again."""
        self._loading = False
        self.heard()

    def reply(self, now: float) -> dict[str, Any]:
        """Give the summary for a subscribe reply."""
        self._fold(now)
        self._refresh(now)
        return {"at": self._keeper.now(), **self._state(now)}

    def step(self, now: float) -> None:
        """Fold what is new, and have the summary written where it is another one."""
        if not self.members:
            self.topic.disband(self)
            return
        if not self.current:
            if not self._loading:
                self._loading = True
                self._keeper.load(self)
            return
        self._fold(now)
        if self._refresh(now):
            self._keeper.fanout.add(self)
        if not self._summary.settled(now) or self._summary.offset < self.topic.ring.end:
            self.heard()

    def _fold(self, now: float) -> None:
        summary = self._summary
        missed = self.topic.ring.missed(summary.offset, SCAN_BYTES)
        characters = sum([summary.take(event.kind, event.data, event.offset) for event in missed])
        summary.count(now, events=len(missed), characters=characters)

    def _state(self, now: float) -> dict[str, Any]:
        return self.view.summed_up({**self._summary.state(now), "viewers": self.topic.viewers, "lag": self.topic.lag})

    def _refresh(self, now: float) -> bool:
        state = self._state(now)
        body = encode_json(state)
        if body == self._body:
            return False
        self._body = body
        push = {"data": {"at": self._keeper.now(), **state}}
        self._frames = text_frame(encode_push("pub", push, channel=self.topic.name))
        self.ring.end += 1
        return True


class Summaries:
    """Makes and keeps the summaries of topics, and steps them together."""

    def __init__(self, folds: Folds, fanout: Fanout, spawn: Callable[[Coroutine[Any, Any, None]], Any]) -> None:
        """Make it over what folds and what writes; ``spawn`` has a coroutine run and owns its task."""
        self.fanout: Fanout = fanout
        self.pace: Pace = Pace(SUMMARY_INTERVAL, after=fanout.flush)
        self._folds = folds
        self._spawn = spawn

    async def join(self, topic: HubTopic, view: View) -> tuple[SummaryAudience, dict[str, Any]]:
        """Give the audience of a topic's summary, and the summary.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        while True:
            audience = topic.audiences.get(view)
            if isinstance(audience, SummaryAudience) and audience.current:
                return audience, audience.reply(asyncio.get_running_loop().time())
            summary = await self._folded(topic)
            audience = topic.audiences.get(view)
            if isinstance(audience, SummaryAudience):
                audience.restart(summary)
            else:
                audience = SummaryAudience(topic, view, summary, self)
                topic.audiences[view] = audience
                audience.heard()

    def load(self, audience: SummaryAudience) -> None:
        """Read the topic of an audience anew."""
        self._spawn(self._load(audience))

    def now(self) -> int:
        """Give the Unix time in ms."""
        return round(time.time() * 1000)

    def close(self) -> None:
        """Make no more summaries."""
        self.pace.close()

    async def _load(self, audience: SummaryAudience) -> None:
        try:
            audience.restart(await self._folded(audience.topic))
        except BrokerUnavailableError:
            audience.failed()

    async def _folded(self, topic: HubTopic) -> Summary:
        return Summary(await self._folds.state(topic))
