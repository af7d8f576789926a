"""How a run hears people: wake-ups on its topic's control channel, and what they announce, read from the topic."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from gateway.broker.port import Broker, History, Link
from gateway.codec import decode_event
from gateway.errors import BrokerUnavailableError
from gateway.patience import Patience
from gateway.topic_state import read_topic
from gateway.types import Position, Topic

__all__ = ["Ear", "Hearing", "actions_of"]

_logger = logging.getLogger(__name__)

_PAGE = 1000


class Ear:
    """Hears what people do on the topic of one run.

    Told that there is something new, by a wake-up or by the answer to an append or a renewal, it reads on from the
    last place up to which it knows everything. A lost wake-up costs one renewal at most.

    Args:
        broker: Where the topic is.
        patience: Repeats what the broker did not answer.
        topic: The topic.
        run: The run's id.
        position: Up to where the run knows the topic.
        heard: Called with each event of people, in order; with one it has had before, too.

    """

    def __init__(
        self,
        broker: Broker,
        patience: Patience,
        *,
        topic: Topic,
        run: str,
        position: Position,
        heard: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._broker = broker
        self._patience = patience
        self._run = run
        self._heard = heard
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.topic = topic
        self.position = position

    def start(self) -> None:
        """Begin to hear."""
        self._task = asyncio.create_task(self._listen(), name=f"gateway ear {self._run}")

    def wake(self) -> None:
        """Look whether there is something new."""
        self._news.set()

    def told(self, position: Position, people: int) -> None:
        """Note an answer of the store.

        Args:
            position: Where it puts the run.
            people: The offset of the last people's action.

        """
        if position.epoch != self.position.epoch or people > self.position.offset:
            self._news.set()
        elif position.offset > self.position.offset:
            # Nothing of people lies between: the next reading need not go through it.
            self.position = position

    async def aclose(self) -> None:
        """Hear nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _listen(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._read()
            except Exception:
                _logger.exception("what people did on %s could not be read", self.topic)

    async def _read(self) -> None:
        while True:
            history = await self._patience.call(self._page)
            if not history.complete:
                await self._read_anew()
                return
            for stored in history.events:
                self._reach(history.epoch, stored.offset)
                self._act(decode_event(stored.data))
            self._reach(history.epoch, history.upto)
            if history.upto >= history.top:
                return

    def _reach(self, epoch: str, offset: int) -> None:
        if epoch != self.position.epoch or offset > self.position.offset:
            self.position = Position(epoch=epoch, offset=offset)

    def _page(self) -> Awaitable[History]:
        return self._broker.read(self.topic, self.position, limit=_PAGE, seen=True)

    async def _read_anew(self) -> None:
        """Take from the topic's state what can not be read event by event: it was trimmed or rolled back."""
        state = await self._patience.call(lambda: read_topic(self._broker, self.topic))
        self.position = state.position
        for event in actions_of(state.mirror.state(), self._run):
            self._heard(event)

    def _act(self, event: Mapping[str, Any]) -> None:
        if event.get("type") in _OF_TOPIC or (event.get("type") in _OF_RUN and event.get("run") == self._run):
            self._heard(event)


class Hearing:
    """The one pub/sub link of a publisher, over which all its runs are woken."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._link: Link | None = None
        self._ears: dict[str, Ear] = {}
        """By control channel: a topic has one run at a time."""
        self._subscribing: set[asyncio.Task[None]] = set()

    def listen(self, ear: Ear) -> None:
        """Wake an ear whenever people have done something on its topic, from now on."""
        if self._link is None:
            self._link = self._broker.link(self)
        channel = self._broker.control_channel(ear.topic)
        self._ears[channel] = ear
        task = asyncio.create_task(self._subscribe(self._link, channel, ear))
        self._subscribing.add(task)
        task.add_done_callback(self._subscribing.discard)

    async def forget(self, ear: Ear) -> None:
        """Wake an ear no more."""
        channel = self._broker.control_channel(ear.topic)
        if self._ears.get(channel) is ear:
            del self._ears[channel]
            if self._link is not None:
                await self._link.unsubscribe(channel)

    async def aclose(self) -> None:
        """Close the link."""
        if self._link is not None:
            await self._link.aclose()
        if self._subscribing:
            await asyncio.wait(self._subscribing)

    def received(self, channel: str, payload: bytes) -> None:
        """Hear that people did something: its place is in the payload."""
        ear = self._ears.get(channel)
        if ear is not None and payload != b"%b %d" % (ear.position.epoch.encode(), ear.position.offset):
            ear.wake()

    def drained(self) -> None:
        """Nothing to do: every wake-up is acted on by itself."""

    def lost(self) -> None:
        """Nothing to do: what is missed shows in the answers to appends and renewals."""

    def restored(self) -> None:
        """Look on every topic: wake-ups may have been missed."""
        for ear in self._ears.values():
            ear.wake()

    def missed(self, channels: Sequence[str]) -> None:
        """Look on these topics: wake-ups may have been missed."""
        for channel in channels:
            if channel in self._ears:
                self._ears[channel].wake()

    async def _subscribe(self, link: Link, channel: str, ear: Ear) -> None:
        try:
            await link.subscribe(channel)
        except BrokerUnavailableError:
            return  # the link was closed
        # What came between the run's start and this would wake nobody.
        ear.wake()


def actions_of(state: Mapping[str, Any], run: str) -> Iterator[dict[str, Any]]:
    """Tell what people did to a run, and what waits, as the events that have made a mirror's state so.

    Args:
        state: The state.
        run: The run's id.

    """
    for entry in state["runs"]:
        if entry["run"] == run and entry["cancel"] is not None:
            yield {"type": "cancel_requested", "run": run, **entry["cancel"]}
    for approval in state["approvals"]:
        if approval["run"] == run and approval["decision"] is not None:
            yield {"type": "approval_decided", **approval, "arguments": approval["edited"]}
    for waiting in state["queue"]:
        yield {"type": "message_queued", **waiting}


_OF_TOPIC = frozenset({"message_queued", "message_edited", "message_taken", "message_withdrawn"})
_OF_RUN = frozenset({"approval_decided", "cancel_requested"})
