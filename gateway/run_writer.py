"""What a run writes with while it holds its topic: outbox, sender and recorder as one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.broker.port import Change, Unmet
from gateway.context.context import Context
from gateway.context.usage import Usage
from gateway.ending import last_group
from gateway.errors import FencedError, PublishError, RunEndedError
from gateway.outbox import Group, Outbox, Outgoing
from gateway.recorder import Recorder
from gateway.sender import Sender
from gateway.types import Position
from gateway.unfinished import UnfinishedMessage

__all__ = ["RunWriter"]


class RunWriter:
    """Puts a run's events into its outbox, in order, and its one end behind them.

    Args:
        run: The run's id.
        clock: Tells the Unix time in ms, on the broker's clock.
        outbox: What it has to say.
        sender: Carries that to the broker.
        recorder: Its context.
        seen: Offset up to which the people's actions on the topic were seen to; 0 where some of them still wait.

    """

    def __init__(
        self,
        *,
        run: str,
        clock: Callable[[], int],
        outbox: Outbox,
        sender: Sender,
        recorder: Recorder,
        seen: int,
    ) -> None:
        self._clock = clock
        self._seen = seen
        self._attempt: asyncio.Task[Unmet | None] | None = None
        """What is being stored or refused right now; nothing may come between, as its log would not fit."""
        self._end: int | None = None
        """The outbox's ticket of the run's end."""
        self.run = run
        self.outbox = outbox
        self.sender = sender
        self.recorder = recorder

    @property
    def context(self) -> Context:
        """The conversation as the run has it."""
        return self.recorder.context

    @property
    def people_wait(self) -> bool:
        """Whether people may have sent something that nobody has seen to."""
        return self.sender.people > self._seen

    def check(self) -> None:
        """Refuse whoever comes after the end, or after the store has refused this run."""
        if self.sender.failure is not None:
            raise self.sender.failure
        if self._end is not None or self.sender.ended is not None:
            raise RunEndedError(run=self.run, position=self.sender.ended or self.sender.position)

    async def ready(self) -> None:
        """Wait for room, as long as anything may be put in at all."""
        self.check()
        while self._attempt is not None or self.outbox.full:
            if self._attempt is not None:
                await asyncio.wait([self._attempt])
            else:
                await self.sender.room()
            self.check()

    def event(self, type: str, **fields: Any) -> dict[str, Any]:
        """Begin an event of this run; fields that are None are left out."""
        common = {"type": type, "at": self._clock(), "run": self.run}
        return common | {name: value for name, value in fields.items() if value is not None}

    def now(self) -> int:
        """Give the Unix time in ms, on the broker's clock."""
        return self._clock()

    def add(self, group: Group) -> None:
        """Put in events that belong together."""
        self.outbox.add(group)
        self.sender.notify()

    def put(self, out: Outgoing) -> None:
        """Put in one event."""
        self.add(Group(entries=[out]))

    def put_delta(
        self, type: str, message: str, text: str, *, index: int | None = None, names: Mapping[str, str] = {}
    ) -> None:
        """Put in a delta; one that says nothing is passed over. Arguments as of `Outbox.add_delta`."""
        if text or names:
            self.outbox.add_delta(type, message, text, at=self._clock(), index=index, names=names)
            self.sender.notify()

    def record(
        self, after: Context, *, message: str | None = None, run: str | None = None, title: str | None = None
    ) -> None:
        """Put in what makes readers follow a change of the context. Arguments as of `Recorder.record`."""
        entries, log = self.recorder.record(after, at=self._clock(), message=message, run=run, title=title)
        if entries:
            self.add(Group(entries=entries, log=log))

    async def attempt(self, compose: Callable[[], Group]) -> Unmet | None:
        """Put in what is stored only if its conditions hold, and wait; returns what was found where they do not.

        Args:
            compose: Makes the group; what it records is taken back if the group is refused.

        """
        await self.ready()
        undo = self.recorder.undo()
        try:
            self.outbox.add(compose())
        except BaseException:
            undo()
            raise
        self._attempt = asyncio.create_task(self._decided(self.outbox.ticket, undo))
        self.sender.notify()
        # It is stored or refused, whoever still waits for it.
        return await asyncio.shield(self._attempt)

    async def _decided(self, ticket: int, undo: Callable[[], None]) -> Unmet | None:
        try:
            await self.sender.acknowledged(ticket)
            refused = self.sender.refused.pop(ticket, None)
            if refused is not None:
                undo()
            return refused
        finally:
            self._attempt = None

    def count(self, before: Usage, after: Usage) -> None:
        """Move the context's usage by what changed; readers hear of it by the `usage` events alone."""
        old, new, total = before.to_dict(), after.to_dict(), self.context.usage.to_dict()
        usage = Usage(**{name: value + new[name] - old[name] for name, value in total.items()})
        self.recorder.context = msgspec.structs.replace(self.context, usage=usage)

    async def stored(self) -> Position:
        """Wait until all that was put in is stored."""
        await self.sender.acknowledged(self.outbox.ticket)
        return self.sender.position

    async def end(
        self, event: Mapping[str, Any], left: list[UnfinishedMessage], changes: Sequence[Change] = ()
    ) -> Position:
        """Write the run's one end and wait for it; returns where the one that stands is, whoever wrote it.

        Args:
            event: The end.
            left: Messages that are still open.
            changes: State fields that end with the run.

        """
        if self._attempt is not None:
            await asyncio.wait([self._attempt])
        if self.sender.ended is not None:
            return self.sender.ended
        if self.sender.stopped:
            raise self.sender.failure or FencedError(run=self.run, holder="")
        if self._end is None:
            # What a full history refused is missing from its log, which then can only be left as it is.
            whole = self.sender.failure is None
            self.outbox.add(last_group(self.recorder, event, left if whole else (), patched=whole, changes=changes))
            self._end = self.outbox.ticket
            self.sender.notify()
        try:
            await self.sender.acknowledged(self._end)
        except PublishError:
            if self.sender.ended is None:
                raise
        if self.sender.ended is None:
            raise self.sender.failure or FencedError(run=self.run, holder="")
        return self.sender.ended
