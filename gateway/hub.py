"""The hub of one gateway process: topics, their readers, and the link to the broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from gateway.audience import Audiences
from gateway.broker.port import Broker, History, Link
from gateway.catchup import CatchUp
from gateway.control import PERIOD, Control
from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.fanout import Fanout
from gateway.folds import Folds
from gateway.frames import publication_of
from gateway.histories import PAGE, Histories
from gateway.household import Household
from gateway.measures import Measures
from gateway.merging import merge_lines
from gateway.presence import Presence
from gateway.recovery import judge, missed_of
from gateway.ring import RingBudget
from gateway.settings import Settings
from gateway.snapshot import Snapshot
from gateway.subscriber import Reader, Subscriber
from gateway.summaries import Summaries
from gateway.topic import HubTopic
from gateway.types import START, Position, Topic
from gateway.view import View, push_lines

__all__ = ["Hub"]

logger = logging.getLogger(__name__)

_RETRY = (0.05, 2.0)
"""Seconds between reads while the broker is away: the first wait, and the longest."""

_Result = TypeVar("_Result")


class Hub:
    """Fans topics out to the connections of this process; it is the listener of the broker's link."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        """Make a hub; `start` it inside the loop.

        Args:
            broker: The store; it stays the caller's to close.
            settings: Bounds and intervals.

        """
        self.broker: Broker = broker
        self.settings: Settings = settings
        self.readers: dict[Reader, None] = {}  # connections that are told when the broker is away
        self.presence: Presence = Presence(broker)
        self.measures: Measures = Measures()
        self.folds: Folds = Folds(broker, limit=settings.mirror_bytes, sync=self._sync, measures=self.measures)
        self.rings: RingBudget = RingBudget(settings.ring_bytes)
        self._missing: bool = False  # the link was lost, and what was missed is not read yet
        self._told: bool = False  # what was last said about that
        self._histories = Histories(broker, self._sync)
        self._catch_up = CatchUp(self._histories, self.folds, self.measures)
        self._fanout = Fanout(self.measures)
        self._audiences = Audiences(self._fanout)
        self._summaries = Summaries(self.folds, self._fanout, self._spawn)
        self._topics: dict[str, HubTopic] = {}
        self._channels: dict[str, HubTopic] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}  # by topic
        self._leaving: dict[str, asyncio.Task[None]] = {}  # by channel
        self.control: Control = Control(
            broker,
            Household(self.readers, self._topics, self.presence),
            period=min(PERIOD, settings.ping_interval / 2),
        )
        self._link: Link | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Its life

    def start(self) -> None:
        """Open the link and start watching it."""
        self._link = self.broker.link(self)
        self.presence.start()
        self.control.start(self._link)
        self._spawn(self._audit())

    async def aclose(self) -> None:
        """End every task of the hub, and the link."""
        self._audiences.close()
        self._summaries.close()
        await self.control.aclose()
        await self.presence.aclose()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._link is not None:
            await self._link.aclose()

    @property
    def trouble(self) -> str:
        """Why the hub does not hear everything right now; "" where it does."""
        if self._link is None or not self._link.up:
            return "the broker is away"
        return "" if not self._missing else "what was missed while the broker was away is still being read"

    @property
    def sure(self) -> bool:
        """Whether everything that the broker carries is being heard."""
        return self._link is not None and self._link.up and not self._missing

    @property
    def link_up(self) -> bool:
        """Whether the broker's link hears."""
        return self._link is not None and self._link.up

    @property
    def link(self) -> Link | None:
        """The broker's link; None before `start`."""
        return self._link

    @property
    def topics(self) -> list[HubTopic]:
        """The topics that are heard."""
        return list(self._topics.values())

    def tick(self) -> None:
        """Do what a shared timer does now and then: forget idle topics, notice a link that came up."""
        self._sweep()
        if self._told != self.sure:
            self._tell()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the hub failed", exc_info=error)

    # What the link tells (the port's Listener)

    def received(self, channel: str, payload: bytes) -> None:
        """Take one publication."""
        topic = self._channels.get(channel)
        if topic is None:
            if channel == self.control.channel:
                self.control.received(payload)
            return
        result = topic.hear(payload)
        if result == "new":
            if not topic.dirty:
                topic.dirty = True
                self._fanout.line.append(topic)
        elif result == "gap":
            self._heal(topic, found="live")

    def drained(self) -> None:
        """Fan out what was received."""
        self._fanout.flush()

    def lost(self) -> None:
        """Tell everybody that events are being missed."""
        self._missing = True
        self.measures.losses += 1
        self._tell()

    def restored(self) -> None:
        """Read every topic from its last event on, then tell everybody."""
        self.control.restored()
        # Also those that are being read for the first time: what was published since that answer was made is missing.
        topics = [topic for topic in self._topics.values() if topic.syncing is not None]
        self._spawn(self._sure_after([self._sync(topic) for topic in topics], losses=self.measures.losses))

    def missed(self, channels: Sequence[str]) -> None:
        """Read these topics from their last events on: they are heard from another server of the store now."""
        for channel in channels:
            topic = self._channels.get(channel)
            if topic is not None and topic.syncing is not None:
                self._heal(topic, found="moved")
            elif channel == self.control.channel:
                self.control.restored()

    async def _sure_after(self, syncing: list[asyncio.Task[None]], *, losses: int) -> None:
        if syncing:
            await asyncio.wait(syncing)
        # Lost once more meanwhile, it is for what follows the next restoring to say so.
        if self.measures.losses == losses:
            self._missing = False
            self._tell()

    def _tell(self) -> None:
        self._told = self.sure
        for reader in list(self.readers):
            reader.tell()

    # Readers

    async def join(
        self,
        reader: Reader,
        name: Topic,
        *,
        asked: Position | None,
        mirror: bool,
        view: View | None = None,
        current: bool = False,
    ) -> tuple[Subscriber, dict[str, Any]]:
        """Prepare a reader's place in a topic, and the reply to its subscribe command.

        Write the reply and call `enter` in the step in which this returns, without waiting: a push that precedes
        its reply is dropped by stock clients.

        Args:
            reader: Its connection.
            name: The topic.
            asked: The position it wants to go on from; None for none.
            mirror: It can take a snapshot.
            view: The rules by which it sees the topic; None shows it everything.
            current: It does not stay to hear what comes, so what the store holds now is read first.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.
            CommandError: 111, the topic is read through too many lenses already.

        """

        async def sum_up(topic: HubTopic, view: View) -> tuple[Subscriber, dict[str, Any]]:
            audience, summary = await self._summaries.join(topic, view)
            subscriber = Subscriber(reader, topic, mirror=False, cursor=audience.top, audience=audience)
            return subscriber, {"data": {"summary": summary}}

        async def prepare(topic: HubTopic) -> tuple[Subscriber, dict[str, Any]]:
            if current:
                await self._reach_top(topic)
            while True:
                generation = topic.generation
                found = None if asked is None else await self._histories.missed(topic, asked)
                snapshot = await self.folds.snapshot(topic, view) if mirror and found is None else None
                if generation != topic.generation:
                    continue  # the history was replaced while it was read
                reply: dict[str, Any] = {"recoverable": True, "positioned": True, "epoch": topic.epoch}
                if asked is not None:
                    reply.update(was_recovering=True, recovered=found is not None)
                    kind = "refused" if snapshot is None else "snapshot"
                    self.measures.recoveries[kind if found is None else "continued"] += 1
                else:
                    self.measures.joins += 1
                if found is not None:
                    lines, cursor = found
                    if view is not None and asked is not None:
                        lines = _shown(topic.prefix, lines, view, asked.offset)
                    reply["publications"] = [msgspec.Raw(publication_of(topic.prefix, line)) for line in lines]
                elif snapshot is not None:
                    cursor = snapshot.offset
                    reply["data"] = {"snapshot": snapshot.in_reply}
                else:
                    cursor = topic.ring.end
                reply["offset"] = cursor
                audience = None if view is None else self._audiences.of(topic, view)
                subscriber = Subscriber(reader, topic, mirror=mirror, cursor=cursor, audience=audience)
                if snapshot is not None and not snapshot.whole:
                    subscriber.restart(snapshot)
                return subscriber, reply

        if view is not None and view.summary:
            return await self._with(name, partial(sum_up, view=view))
        return await self._with(name, prepare)

    def holds(self, subscriber: Subscriber, *, epoch: str) -> bool:
        """Say whether a place that `join` gave a while ago is still one, in the history of its reply."""
        topic = subscriber.topic
        return self._topics.get(topic.name) is topic and topic.epoch == epoch

    def enter(self, subscriber: Subscriber) -> None:
        """Serve a subscriber from now on."""
        subscriber.topic.enter(subscriber)

    def leave(self, subscriber: Subscriber) -> None:
        """Serve a subscriber no more."""
        subscriber.topic.leave(subscriber, now=asyncio.get_running_loop().time())

    async def advance(self, subscriber: Subscriber) -> None:
        """Write the next piece to a subscriber that is behind.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        await self._catch_up.advance(subscriber)

    def clients(self, name: Topic) -> list[Reader]:
        """List the connections of this process that read a topic."""
        topic = self._topics.get(name)
        return [] if topic is None else [subscriber.reader for subscriber in topic.subscribers]

    async def snapshot(self, name: Topic) -> Snapshot:
        """Give the state of a topic at its top.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """

        async def fold(topic: HubTopic) -> Snapshot:
            await self._reach_top(topic)
            return (await self.folds.mirror(topic))[0]

        return await self._with(name, fold)

    async def conversation(self, name: Topic) -> tuple[Snapshot, list[dict[str, Any]]]:
        """Give the state of a topic at its top, and its messages folded for people.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """

        async def fold(topic: HubTopic) -> tuple[Snapshot, list[dict[str, Any]]]:
            await self._reach_top(topic)
            snapshot, mirror = await self.folds.mirror(topic)
            return snapshot, mirror.messages()

        return await self._with(name, fold)

    # Topics

    async def _with(self, name: Topic, work: Callable[[HubTopic], Awaitable[_Result]]) -> _Result:
        """Do something with a topic that is heard and read, and is not forgotten meanwhile."""
        topic = self._topics.get(name)
        if topic is None:
            topic = HubTopic(name, self.broker.channel(name), self.rings)
            self._topics[name] = topic
            self._channels[topic.channel] = topic
            self._opening[name] = self._spawn(self._open(topic))
        elif not topic.known and self._opening[name].done():
            # The store refused to read it; it may have been put right since.
            self._opening[name] = self._spawn(self._open(topic))
        topic.pins += 1
        try:
            if not topic.known:
                await asyncio.wait([self._opening[name]])
            if not topic.known or self._link is None or not self._link.up:
                raise BrokerUnavailableError("the broker is away")
            return await work(topic)
        finally:
            topic.pins -= 1
            topic.idle_since = asyncio.get_running_loop().time()

    async def _open(self, topic: HubTopic) -> None:
        """Hear the channel, then read where the topic stands: nothing falls between the two."""
        leaving = self._leaving.get(topic.channel)
        if leaving is not None:
            await asyncio.wait([leaving])
        if self._link is None:
            raise RuntimeError("the hub was not started")
        await self._link.subscribe(topic.channel)
        await asyncio.wait([self._sync(topic)])

    def _sweep(self) -> None:
        deadline = asyncio.get_running_loop().time() - self.settings.linger
        for topic in list(self._topics.values()):
            if topic.readers or topic.pins or topic.idle_since > deadline:
                continue
            del self._topics[topic.name]
            del self._channels[topic.channel]
            self._opening.pop(topic.name).cancel()
            if topic.syncing is not None:
                topic.syncing.cancel()
            self.folds.forget(topic)
            self.rings.forget(topic.ring)
            self._leaving[topic.channel] = self._spawn(self._leave_channel(topic.channel))

    async def _leave_channel(self, channel: str) -> None:
        try:
            if self._link is not None:
                await self._link.unsubscribe(channel)
        finally:
            del self._leaving[channel]

    # Hearing everything

    def _sync(self, topic: HubTopic) -> asyncio.Task[None]:
        """Read a topic up to its top, holding back meanwhile what is heard; one task a topic."""
        if topic.syncing is None or topic.syncing.done():
            topic.hold()
            topic.syncing = self._spawn(self._read_up(topic))
        else:
            topic.distrust()
        return topic.syncing

    def _heal(self, topic: HubTopic, *, found: str) -> None:
        """Read what a topic lacks."""
        self.measures.gaps[found] += 1
        self._sync(topic).add_done_callback(self._healed)

    def _healed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.measures.gaps_healed += 1

    async def _read_up(self, topic: HubTopic) -> None:
        delay, longest = _RETRY
        while True:
            try:
                await self._read_missed(topic)
            except BrokerUnavailableError:
                await asyncio.sleep(delay)
                delay = min(delay * 2, longest)
                continue
            except BrokerError as error:
                # Held and distrusted it stays, for the audit to try again: one topic must not keep all others unsure.
                logger.warning("topic %s cannot be read: %s", topic.name, error)
                return
            if topic.release():
                break
        self._fanout.schedule(topic)

    async def _read_missed(self, topic: HubTopic) -> None:
        if not topic.known:
            history = await self.broker.read(topic.name, START, limit=0)
            topic.restart(history.epoch, history.top)
            return
        position = topic.position
        while True:
            history = await self.broker.read(topic.name, position, limit=PAGE, seen=True)
            missed = judge(position, history)
            if missed is None or history.epoch != topic.epoch:
                self.folds.forget(topic)
                topic.replace(history.epoch, history.top, now=asyncio.get_running_loop().time())
                return
            topic.extend(missed)
            self._fanout.schedule(topic)
            if history.upto >= history.top:
                return
            position = Position(epoch=topic.epoch, offset=max(history.upto, topic.ring.end))

    async def _reach_top(self, topic: HubTopic) -> None:
        """Have what the store holds now: who asks over HTTP must see what was written before."""
        history = await self.broker.read(topic.name, topic.position, limit=0, seen=True)
        if _is_behind(topic, history):
            await asyncio.wait([self._sync(topic)])

    async def _audit(self) -> None:
        """Find what was lost without a sign: compare each top that is read with the store's, now and then."""
        while True:
            await asyncio.sleep(self.settings.audit_interval)
            for topic in list(self._topics.values()):
                if not topic.readers or not self.sure or topic.syncing is None or not topic.syncing.done():
                    continue
                position = topic.position
                try:
                    history = await self.broker.read(topic.name, position, limit=0, seen=True)
                except BrokerUnavailableError:
                    break
                except BrokerError as error:
                    logger.debug("topic %s cannot be read: %s", topic.name, error)
                    continue
                if topic.held or _is_behind(topic, history):
                    self._heal(topic, found="audit")


def _shown(prefix: bytes, lines: list[bytes], view: View, cursor: int) -> list[bytes]:
    """Give what a view shows a reader at a cursor of the lines above it."""
    missed = [missed_of(prefix, line) for line in lines]
    if not missed:
        return lines
    shown = push_lines(prefix, view.through(missed, end=missed[-1].offset), cursor)
    return shown if view.rate is None else list(merge_lines(prefix, shown))


def _is_behind(topic: HubTopic, history: History) -> bool:
    return history.epoch != topic.epoch or not history.complete or history.top > topic.ring.end
