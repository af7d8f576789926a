"""Says what nobody else is left to say: that a run's process died, that an approval's time is over (STORE.md 5, 6)."""

import asyncio
import logging
from collections import Counter
from urllib.parse import quote

from gateway.approval_state import ApprovalState
from gateway.broker.port import Appended, AppendRequest, Broker, Busy, Change, Condition, Entry
from gateway.codec import encode_event
from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.recorder import lost_event
from gateway.types import START, Topic

__all__ = ["INTERVAL", "Sweeper"]

_logger = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two sweeps of the due topics."""

_REST = 5000
"""Milliseconds after which a topic is looked at again that was due for something a sweeper does not do."""

_STARTLED = 5.0
"""Seconds by which a sweep may be late; beyond, this process was stopped, and perhaps all others with it."""


class Sweeper:
    """Looks at topics that are due; every gateway and every worker has one.

    Args:
        broker: Where the topics are.

    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.swept: Counter[str] = Counter()
        """What this one has ended: ``lost`` runs, ``expired`` approvals."""
        self._rests: dict[Topic, int] = {}
        """Of each due topic that was looked at, when to look again; ms on the broker's clock."""

    async def serve(self) -> None:
        """Sweep until this is cancelled."""
        clock = asyncio.get_running_loop().time
        expected = clock()
        while True:
            if clock() - expected > _STARTLED:
                # Whoever was stopped together with this process renews its lease first.
                await asyncio.sleep(_STARTLED)
            try:
                await self.sweep()
            except BrokerUnavailableError as error:
                _logger.debug("no sweep: %s", error)
            except Exception:
                _logger.exception("a sweep failed")
            expected = clock() + INTERVAL
            await asyncio.sleep(INTERVAL)

    async def sweep(self) -> None:
        """Look at every topic that is due, and note when each is to be looked at again.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        now = self._broker.now()
        due = await self._broker.due(until=now)
        rests = {topic: self._rests.get(topic, now) for topic in due}
        for topic, until in rests.items():
            if until > now:
                continue
            try:
                at = await self.look(topic)
            except BrokerUnavailableError:
                raise
            except BrokerError as error:
                # Something is wrong with this topic alone: the runs of all others are looked after.
                _logger.warning("topic %s cannot be looked at: %s", topic, error)
                at = None
            if at is None:
                # A worker's, or what a dead run left behind: the note is not this one's to take away.
                rests[topic] = now + _REST
            else:
                await self._broker.set_due(topic, max(at, now + round(1000 * INTERVAL)))
        self._rests = rests

    async def look(self, topic: Topic) -> int | None:
        """End on a topic what is over; returns when to look again (ms, the broker's clock), None for no need to.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        standing = await self._broker.standing(topic)
        if not standing.holder:
            return None
        times = [standing.deadline]
        ahead = standing.deadline - self._broker.now()
        # Further ahead than the lease is long it lies where the server's clock was set back.
        if not 0 < ahead <= standing.length:
            alive = await self.bury(topic, standing.holder)
            if alive is None:
                return None  # its end has closed its approvals, too
            times = [alive]
        prefix = f"a:{standing.holder}/"
        for field, stored in standing.approvals.items():
            if not field.startswith(prefix):
                continue
            state = ApprovalState.parse(stored)
            if state.decision is not None or not state.deadline:
                continue
            if state.deadline > self._broker.now():
                times.append(state.deadline)
            else:
                await self._expire(topic, standing.holder, field.removeprefix(prefix), stored)
        return min(times)

    async def bury(self, topic: Topic, run: str) -> int | None:
        """Declare a run lost if it still holds its topic and its lease has lapsed.

        Returns when its lease lapses, or when this process may say so; None where it has ended by now.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        data = lost_event(run, at=self._broker.now())
        answer = await self._broker.declare_lost(topic, run=run, data=data, position=START)
        if isinstance(answer, Appended) and not answer.repeated:
            self.swept["lost"] += 1
        return answer.deadline if isinstance(answer, Busy) else None

    async def _expire(self, topic: Topic, run: str, call: str, stored: str) -> None:
        """Write that nobody has decided in time, unless somebody has."""
        field = f"a:{run}/{call}"
        event = {
            "type": "approval_decided",
            "at": self._broker.now(),
            "run": run,
            "tool_call_id": call,
            "decision": "expired",
        }
        request = AppendRequest(
            # As if a person of no name had said it: so the run, if it lives, is woken.
            writer=f"u//{quote(run, safe='')}/{quote(call, safe='')}",
            seq="expired",
            entries=(Entry(kind="h", type="approval_decided", data=encode_event(event)),),
            conditions=(
                Condition(field=field, op="=", value=stored),
                Condition(field=f"r:{run}", op="=", value="run"),
                Condition(field=field, op="<"),
            ),
            changes=(Change(field=field, value=ApprovalState.parse(stored).decided("expired", None).text),),
        )
        answer = await self._broker.append(topic, request, position=START)
        if isinstance(answer, Appended) and not answer.repeated:
            self.swept["expired"] += 1
        _logger.debug("the approval of %s on %s is overdue: %s", call, topic, answer)
