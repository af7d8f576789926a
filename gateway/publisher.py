"""The agents' SDK: opens runs on topics, and publishes beside them."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

from gateway import note
from gateway.broker.port import Appended, AppendRequest, Bound, Broker, Busy, Entry
from gateway.broker.redis import MAX_BYTES, MAX_HISTORY_BYTES, MAX_HISTORY_EVENTS, RedisBroker
from gateway.codec import encode_event
from gateway.context.context import Context
from gateway.context.jsonlike import lenient
from gateway.context.pubsub import Notification
from gateway.errors import BrokerUnavailableError, ContextTooLargeError, PublishError, TopicBusyError
from gateway.event_types import check_publishable
from gateway.hearing import Ear, Hearing
from gateway.patience import Patience
from gateway.policies import Policy
from gateway.resumption import Resumption
from gateway.run import Run
from gateway.start import Start
from gateway.sweeper import Sweeper
from gateway.topic_state import TopicState, load_values, read_topic
from gateway.types import START, Position, Topic, new_id, parse_topic
from gateway.unfinished import ID_PATTERN

__all__ = ["Publisher"]

_logger = logging.getLogger(__name__)

_CLOSE_GRACE = 10.0
"""Seconds that closing waits for the ends of runs that are still open."""

_MAX_SUPERSEDED = 500
"""Older messages that one run withdraws: an append holds a thousand events."""


class Publisher:
    """Publishes agent runs; an async context manager, one a process is enough.

    Args:
        redis_url: Where the topics are kept; "" is ``GATEWAY_REDIS_URL``, or the store of the gateway that this user
            runs on this machine, or ``redis://127.0.0.1:6379/0``.
        key_prefix: Of all keys and channels; the gateways' own.
        flush_interval: The least time in seconds between two appends of a run that carry only deltas; 0 sends every
            delta at once as an event of its own.
        lease: Seconds after which a run whose process has stopped answering counts as lost.
        max_unsent: Bytes that a run holds unsent before its methods wait.
        max_bytes: Of one topic's history; above it nothing more is taken but the end of a run. Of its large values as
            much. The gateways' own, as the two below.
        max_history_bytes: Of one topic's events above its snapshot; beyond it they are folded into a new one.
        max_history_events: Of the same.
        broker: A broker to use in place of ``redis_url``, with bounds of its own; the caller closes it.

    """

    def __init__(
        self,
        redis_url: str = "",
        *,
        key_prefix: str = "gw",
        flush_interval: float = 0.02,
        lease: float = 30.0,
        max_unsent: int = 1024 * 1024,
        max_bytes: int = MAX_BYTES,
        max_history_bytes: int = MAX_HISTORY_BYTES,
        max_history_events: int = MAX_HISTORY_EVENTS,
        broker: Broker | None = None,
    ) -> None:
        self._owns_broker = broker is None
        self.broker: Broker = broker or RedisBroker(
            redis_url or _found_url(),
            key_prefix=key_prefix,
            max_bytes=max_bytes,
            max_history_bytes=max_history_bytes,
            max_history_events=max_history_events,
        )
        self.flush_interval = flush_interval
        self.lease = lease
        self.max_unsent = max_unsent
        self.patience = Patience()
        self.hearing = Hearing(self.broker)
        self.sweeper = Sweeper(self.broker)
        self._runs: set[Run] = set()
        self._writer = f"p/{new_id()}"
        """The writer of events outside runs."""
        self._appends = 0
        self._turns: WeakValueDictionary[Topic, asyncio.Lock] = WeakValueDictionary()
        """Of each topic who appends outside runs: one at a time, as the port demands of a writer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the runs that are still open, and close the broker if it is the publisher's own."""
        ends = [asyncio.ensure_future(run.cancel("its publisher was closed")) for run in self._runs]
        if ends:
            done, late = await asyncio.wait(ends, timeout=_CLOSE_GRACE)
            for end in late:
                end.cancel()
            for end in done:
                error = end.exception()
                if error is not None:
                    _logger.warning("a run could not be ended: %s", error)
        await self.hearing.aclose()
        if self._owns_broker:
            await self.broker.aclose()

    def run(
        self,
        topic: str,
        *,
        agent: str,
        model: str | None = None,
        run_id: str | None = None,
        parent: str | None = None,
        input: str | None = None,
        max_iterations: int | None = None,
        context: Context | None = None,
        adopt: bool = False,
        taken: Mapping[str, Any] | None = None,
    ) -> Run:
        """Open a run, to be entered with ``async with``; it goes on with the topic's conversation.

        Args:
            topic: Where; a topic has one run at a time.
            agent: The agent's name.
            model: The model's name; None leaves it open.
            run_id: The run's id, visible ASCII characters; None draws one.
            parent: The run that started it; None for none.
            input: What it was asked, as text for people; None for nothing.
            max_iterations: Model requests it may make; None keeps the context's bound.
            context: A conversation to go on with; None is the topic's own.
            adopt: Whether a ``context`` that is not the topic's own replaces it: that is written over it.
            taken: The waiting message that the run answers, as the mirror's queue has it; None for none.

        Raises:
            ValueError: The topic or the run id has another form.

        """
        return Run(
            self,
            Start(
                topic=parse_topic(topic),
                run=new_id() if run_id is None else _checked_id(run_id),
                agent=agent,
                model=model,
                parent=parent,
                input=input,
                max_iterations=max_iterations,
                context=context,
                adopt=adopt,
                taken=taken,
            ),
        )

    def resume(self, ticket: str) -> Run:
        """Go on with a run whose process was restarted before its lease was declared lost; to be entered as a new one.

        What it was writing is sealed as interrupted. Its questions for approval are found again, with what was decided
        meanwhile; a call that had started is never run again. Entering raises `FencedError` or `RunEndedError` where
        it is too late. The process that had the run must be dead.

        Args:
            ticket: The run's `Run.ticket`, kept by the agent.

        Raises:
            ValueError: It is none.

        """
        parts = ticket.split(" ")
        if len(parts) != 3 or not all(parts):
            raise ValueError("expected a ticket of topic, run and token")
        return Run(self, Resumption(topic=parse_topic(parts[0]), run=_checked_id(parts[1]), token=parts[2]))

    def take(self, state: TopicState, *, agent: str, model: str | None = None, policy: Policy = "queue") -> Run | None:
        """Open a run that answers the oldest message waiting on a topic; None where none waits.

        Entering it raises `ConditionError` where somebody has taken or withdrawn the message since.

        Args:
            state: The topic as it has just been read.
            agent: The agent's name.
            model: The model's name; None leaves it open.
            policy: What is done about messages that come meanwhile, which the run's start tells readers; ``latest``
                answers the newest one, and withdraws the older ones.

        """
        queue = state.mirror.state()["queue"]
        if not queue:
            return None
        latest = policy == "latest"
        start = Start(
            topic=state.topic,
            run=new_id(),
            agent=agent,
            model=model,
            taken=queue[-1 if latest else 0],
            superseded=queue[-1 - _MAX_SUPERSEDED : -1] if latest else (),
            policy=None if policy == "queue" else policy,
            state=state,
        )
        return Run(self, start)

    async def publish(self, topic: str, event: Mapping[str, Any] | Notification) -> Position:
        """Publish an event outside any run; returns where it stands once it is stored.

        Args:
            topic: Where.
            event: Any object whose type is none of the protocol's, or what a context bound to the topic tells.

        Raises:
            ValueError: The topic has another form.
            CommandError: The event's type is reserved or malformed.
            EventRefusedError: It breaks an entry rule.
            ContextTooLargeError: The topic's history is full.

        """
        name = parse_topic(topic)
        if isinstance(event, Notification):
            event = {"type": "notification", "name": event.type, "payload": lenient(event.payload)}
        else:
            check_publishable(event)
        data = encode_event({"at": self.broker.now(), **event})
        entry = Entry(kind="h", type=str(event.get("type", "")), data=data)
        self._appends += 1
        request = AppendRequest(writer=self._writer, seq=str(self._appends), entries=(entry,))
        lock = self._turns.setdefault(name, asyncio.Lock())
        async with lock:
            answer = await self.patience.call(lambda: self.broker.append(name, request, position=START))
        if isinstance(answer, Bound):
            raise ContextTooLargeError(size=answer.size)
        if not isinstance(answer, Appended):
            raise PublishError(f"expected the event to be stored, got {answer}")
        return answer.position

    async def context(self, topic: str) -> Context:
        """Give a topic's conversation as it is stored now, with its large values."""
        return (await self.load(await self.read(parse_topic(topic)))).context()

    async def load(self, state: TopicState) -> TopicState:
        """Load the large values of a topic's conversation."""
        return await self.patience.call(lambda: load_values(self.broker, state))

    async def read(self, topic: Topic) -> TopicState:
        """Read a topic up to its top, without its large values."""
        return await self.patience.call(lambda: read_topic(self.broker, topic))

    async def reclaim(self, topic: Topic, busy: Busy) -> None:
        """Declare the run lost that holds a topic, if its process is dead.

        Args:
            topic: The topic.
            busy: What the store answered.

        Raises:
            TopicBusyError: It lives, or nobody may say yet that it does not.

        """
        if busy.deadline >= self.broker.now():
            await self.look_again(topic, at=busy.deadline)
            raise TopicBusyError(topic=topic, holder=busy.holder)
        alive = await self.patience.call(lambda: self.sweeper.bury(topic, busy.holder))
        if alive is not None:
            await self.look_again(topic, at=alive)
            raise TopicBusyError(topic=topic, holder=busy.holder)

    async def look_again(self, topic: Topic, *, at: int) -> None:
        """Let workers look at a topic at some time.

        Args:
            topic: The topic.
            at: Unix time in ms on the broker's clock; not before a second from now.

        """
        at = max(at, self.broker.now() + 1000)
        await self.patience.call(lambda: self.broker.set_due(topic, at))

    def entered(self, run: Run) -> None:
        """Remember a run that has begun."""
        self._runs.add(run)

    async def left(self, run: Run, ear: Ear, *, taken: bool, waiting: bool) -> None:
        """Forget a run that has ended, and let workers look at its topic if there is something to do.

        Args:
            run: The run.
            ear: What it heard with.
            taken: Whether a worker runs it, which looks by itself.
            waiting: Whether people may have sent something meanwhile.

        """
        self._runs.discard(run)
        await self.hearing.forget(ear)
        if taken or run.ended is None:
            return
        # Hints, tried once: a worker finds by its sweep what it does not hear, and the agent has better things to do.
        with contextlib.suppress(BrokerUnavailableError):
            if waiting:
                await self.broker.wake(run.topic)
            else:
                await self.broker.set_due(run.topic, None)


def _found_url() -> str:
    """Find the store without being told."""
    given = os.environ.get("GATEWAY_REDIS_URL")
    if given:
        return given
    noted = note.find()
    if len(noted) > 1:
        _logger.warning(
            "%d gateways run here; publishing to the store of %s, which started last", len(noted), noted[0].url
        )
    return noted[0].redis_url if noted else "redis://127.0.0.1:6379/0"


def _checked_id(text: str) -> str:
    if not ID_PATTERN.match(text):
        raise ValueError(f"expected an id of visible ASCII characters, got {text!r:.80}")
    return text
