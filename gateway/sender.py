"""The part of a run that waits: carries its outbox to the broker, keeps its lease, restores what the broker lost."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from gateway.blobs import encoded
from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Bound,
    Broker,
    Busy,
    Change,
    Conflict,
    Deleted,
    Ended,
    Fenced,
    Restore,
    Unmet,
)
from gateway.errors import (
    ConditionError,
    ContextTooLargeError,
    FencedError,
    GatewayError,
    HistoryConflictError,
    PublishError,
    TopicBusyError,
    TopicDeletedError,
)
from gateway.journal import Journal
from gateway.outbox import Batch, Outbox, Outgoing
from gateway.patience import Patience
from gateway.recorder import lost_event
from gateway.tracing import RunTrace
from gateway.types import Position, Topic

__all__ = ["Sender", "refusal"]

_logger = logging.getLogger(__name__)

_BUSY_DELAY = 0.25
"""Seconds between two tries to take back a lease that came back with older data."""


class Sender:
    """One task that sends a run's appends one after another.

    Args:
        broker: Where to.
        patience: Repeats what the broker did not answer.
        topic: The run's topic.
        run: Its id.
        token: Its lease's token.
        lease: The lease's length in seconds.
        outbox: What it has to say.
        journal: What it has said.
        position: The position that its context was read at.

    """

    def __init__(
        self,
        broker: Broker,
        patience: Patience,
        *,
        topic: Topic,
        run: str,
        token: str,
        lease: float,
        outbox: Outbox,
        journal: Journal,
        position: Position,
    ) -> None:
        self._broker = broker
        self._patience = patience
        self._topic = topic
        self._run = run
        self._token = token
        self._lease = lease
        self._outbox = outbox
        self._journal = journal
        self._takes_lease = True
        """Whether the next append takes the lease: the first one, and after the store forgot who holds it."""
        self._renew_at = 0.0
        self._wake = asyncio.Event()
        self._idle = False
        """Whether the task waits for anything at all, not for the interval between deltas."""
        self._room = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._acknowledged = 0
        self._task: asyncio.Task[None] | None = None
        self.position = position
        """Of the last acknowledgement, or of what was heard and acted on since."""
        self.people = position.offset
        """Offset of the last people's action that is known of; at first, all that the run's start had seen."""
        self.told: Callable[[Position, int], None] = _unheard
        """Called after each acknowledgement with the position and the offset of the last people's action."""
        self.due_before: Callable[[], int | None] = _never
        """Tells when something on the topic is over even if the run does not say so; ms, the broker's clock."""
        self.failed: Callable[[Exception], None] = _ignored
        """Called with the failure once nothing at all is sent any more."""
        self.trace: RunTrace | None = None
        """Where its appends are recorded."""
        self.refused: dict[int, Unmet] = {}
        """Of what was put in with conditions that did not hold, by its ticket, what was found."""
        self.failure: Exception | None = None
        """Why nothing more is sent; after a `ContextTooLargeError` the run's end still is."""
        self.ended: Position | None = None
        """Where the run's one end stands."""
        self.declared_lost = False
        """Whether somebody else wrote that end."""

    @property
    def stopped(self) -> bool:
        """Whether nothing at all is sent any more."""
        return self._task is None or self._task.done()

    async def begin(self) -> AppendAnswer:
        """Send the first append, which takes the lease, and if it is stored go on sending by itself."""
        batch = self._outbox.take(asyncio.get_running_loop().time())
        if batch is None:
            raise RuntimeError("expected the run's start in the outbox")
        await self._note_due()
        answer = await self._store_values(batch.values) or await self._attempt(self._request(batch))
        if isinstance(answer, Appended):
            self._stored(batch, answer)
            self.go_on()
        return answer

    def go_on(self) -> None:
        """Send by itself from now on: the run holds its topic."""
        self._takes_lease = False
        self._put_off_renewal()
        self._task = asyncio.create_task(self._send(), name=f"gateway run {self._run}")

    def notify(self) -> None:
        """Look into the outbox: something was put in."""
        if self._idle or self._outbox.urgent:
            self._wake.set()

    async def room(self) -> None:
        """Wait until the outbox has shrunk, or nothing more is sent."""
        self._room.clear()
        await self._room.wait()

    async def acknowledged(self, ticket: int) -> None:
        """Wait until something put in is stored.

        Args:
            ticket: What the outbox's ticket was when it was put in.

        Raises:
            PublishError: It will not be.

        """
        if ticket <= self._acknowledged:
            return
        if self.stopped:
            raise self.failure or FencedError(run=self._run, holder="")
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((ticket, waiter))
        await waiter

    def enter(self, out: Outgoing, *changes: Change) -> None:
        """Keep an event of somebody else that the run acts on: lost by the store, it is written again."""
        mark = self._outbox.mark()
        self._journal.add(Batch(seq=mark, entries=(out,), log=None, conditions=(), changes=changes, ticket=0, size=0))

    def reach(self, position: Position) -> None:
        """Note up to where the run acts on its topic: a store that lost that is found out as by a lost append."""
        # In a newer epoch the store has still to judge whether it has all that this run wrote.
        if position.epoch == self.position.epoch and position.offset > self.position.offset:
            self.position = position

    async def aclose(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _send(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self.ended is None:
                now = clock()
                if now >= self._renew_at:
                    await self._renew()
                    continue
                batch = self._outbox.take(now)
                if batch is None:
                    await self._wait()
                else:
                    await self._deliver(batch)
        except GatewayError as error:
            self._fail(error)
        except Exception as error:
            _logger.exception("sending the events of run %s failed", self._run)
            self._fail(error)

    async def _wait(self) -> None:
        due = self._outbox.due()
        self._idle = due is None
        self._wake.clear()
        until = self._renew_at if due is None else min(due, self._renew_at)
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._idle = False

    async def _deliver(self, batch: Batch) -> None:
        ends = batch.entries[-1].entry.kind == "x"
        full = await self._store_values(batch.values)
        while True:
            # A run's end is always taken; what it refers to stays a preview then.
            answer = (not ends and full) or await self._attempt(self._request(batch))
            if isinstance(answer, Appended):
                self._stored(batch, answer)
                if ends:
                    self.ended = answer.position
                return
            if isinstance(answer, Restore):
                await self._restore(answer)
            elif isinstance(answer, Busy):
                await self._outlast(answer)
            elif isinstance(answer, Ended):
                self.ended, self.declared_lost = answer.position, True
                if not ends:
                    raise FencedError(run=self._run, holder="")
                self._settle(batch.ticket)
                return
            elif isinstance(answer, Unmet) and batch.conditions:
                self.refused[batch.ticket] = answer
                self._outbox.acknowledge(batch)
                self._settle(batch.ticket)
                return
            elif isinstance(answer, Bound):
                self._outbox.clear()
                self._drop(ContextTooLargeError(size=answer.size))
                return
            else:
                raise refusal(answer, topic=self._topic, run=self._run, seq=self._journal.log[0])

    async def _restore(self, answer: Restore) -> None:
        """Write again what the store lost, from where it stands."""
        _logger.warning("topic %s lost what run %s wrote; writing it again", self._topic, self._run)
        refused = await self._store_values(self._journal.values)
        if isinstance(refused, Deleted):
            raise TopicDeletedError(topic=self._topic, run=self._run)
        while True:
            self.position = answer.position
            self._takes_lease = answer.holder != self._run
            for request in self._journal.requests(answer, lease=self._lease_ms):
                outcome = await self._attempt(request)
                while isinstance(outcome, Busy):
                    await self._outlast(outcome)
                    outcome = await self._attempt(request)
                if isinstance(outcome, Restore):
                    answer = outcome
                    break
                if isinstance(outcome, Ended):
                    self.ended, self.declared_lost = outcome.position, True
                    raise FencedError(run=self._run, holder="")
                if not isinstance(outcome, Appended):
                    raise refusal(outcome, topic=self._topic, run=self._run, seq=self._journal.log[0])
                self.position = outcome.position
                self._takes_lease = False
                self._tell(outcome)
            else:
                return

    async def _outlast(self, busy: Busy) -> None:
        """Wait for a lease that came back with older data to lapse; its holder, if it lives, is refused by then."""
        if busy.deadline < self._broker.now():
            await self._patience.call(
                lambda: self._broker.declare_lost(
                    self._topic,
                    run=busy.holder,
                    data=lost_event(busy.holder, at=self._broker.now()),
                    position=busy.position,
                )
            )
        else:
            await asyncio.sleep(_BUSY_DELAY)

    async def _renew(self) -> None:
        answer = await self._patience.call(
            lambda: self._broker.renew(
                self._topic, run=self._run, token=self._token, lease=self._lease_ms, position=self.position
            )
        )
        if isinstance(answer, Appended):
            self.position = answer.position
            self._tell(answer)
        elif isinstance(answer, Deleted):
            raise TopicDeletedError(topic=self._topic, run=self._run)
        elif isinstance(answer, Restore):
            await self._restore(answer)
        elif isinstance(answer, Ended):
            self.ended, self.declared_lost = answer.position, True
            raise FencedError(run=self._run, holder="")
        else:
            raise FencedError(run=self._run, holder=answer.holder)
        await self._note_due()
        self._put_off_renewal()

    def _put_off_renewal(self) -> None:
        self._renew_at = asyncio.get_running_loop().time() + self._lease / 3

    async def _note_due(self) -> None:
        """Let sweepers look at the topic when the lease would lapse, or before that where the run wants it."""
        lapse, early = self._broker.now() + self._lease_ms, self.due_before()
        at = lapse if early is None else min(lapse, early)
        await self._patience.call(lambda: self._broker.set_due(self._topic, at))

    async def _store_values(self, values: Mapping[str, str]) -> Bound | Deleted | None:
        """Store large values before the events that refer to them; Bound where the topic has no room for them."""
        if not values:
            return None
        blobs = {name: encoded(text) for name, text in values.items()}
        return await self._patience.call(
            lambda: self._broker.store_blobs(self._topic, blobs, run=self._run, position=self.position)
        )

    async def _attempt(self, request: AppendRequest) -> AppendAnswer:
        size = sum(len(entry.data) for entry in request.entries)
        span = None if self.trace is None else self.trace.append(events=len(request.entries), size=size)
        try:
            return await self._patience.call(lambda: self._broker.append(self._topic, request, position=self.position))
        finally:
            if span is not None:
                span.end()

    def _request(self, batch: Batch) -> AppendRequest:
        return AppendRequest(
            writer=self._run,
            seq=str(batch.seq),
            entries=[out.entry for out in batch.entries],
            run=self._run,
            token=self._token,
            log=batch.log,
            lease=self._lease_ms if self._takes_lease else None,
            conditions=batch.conditions,
            changes=batch.changes,
        )

    @property
    def _lease_ms(self) -> int:
        return round(self._lease * 1000)

    def _stored(self, batch: Batch, answer: Appended) -> None:
        if answer.position.epoch == self.position.epoch:
            self.reach(answer.position)
        else:
            self.position = answer.position
        self._takes_lease = False
        self._journal.add(batch)
        self._outbox.acknowledge(batch)
        self._settle(batch.ticket)
        # A repeated answer does not tell of people.
        if not answer.repeated:
            self._tell(answer)

    def _tell(self, answer: Appended) -> None:
        self.people = max(self.people, answer.people)
        self.told(answer.position, answer.people)

    def _settle(self, ticket: int) -> None:
        self._acknowledged = ticket
        waiting, self._waiters = self._waiters, []
        for item in waiting:
            if item[0] > ticket:
                self._waiters.append(item)
            elif not item[1].done():
                item[1].set_result(None)
        self._room.set()

    def _drop(self, error: Exception) -> None:
        """Tell everybody who waits that it will not be stored."""
        self.failure = error
        waiting, self._waiters = self._waiters, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
        self._room.set()

    def _fail(self, error: Exception) -> None:
        self._outbox.clear()
        self._drop(error)
        self.failed(error)


def _ignored(error: Exception) -> None:
    """Stand in until somebody wants to know."""


def _unheard(position: Position, people: int) -> None:
    """Stand in until somebody hears people."""


def _never() -> None:
    """Stand in until something has a deadline."""


def refusal(
    answer: Fenced | Conflict | Unmet | Bound | Busy | Deleted, *, topic: Topic, run: str, seq: int
) -> PublishError:
    """Make the error of an answer that is final.

    Args:
        answer: What the store said.
        topic: Of which topic.
        run: To which run.
        seq: The log's next seq as the run has it.

    """
    match answer:
        case Fenced(holder=holder):
            return FencedError(run=run, holder=holder)
        case Deleted():
            return TopicDeletedError(topic=topic, run=run)
        case Conflict(seq=found):
            return HistoryConflictError(seq=found, expected=seq)
        case Unmet(field=field, value=value):
            return ConditionError(field=field, value=value)
        case Bound(size=size):
            return ContextTooLargeError(size=size)
        case Busy(holder=holder):
            return TopicBusyError(topic=topic, holder=holder)
