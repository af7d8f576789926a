"""What a run writes with while it holds its topic: outbox, sender and recorder as one."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

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
        self._run = run
        self._clock = clock
        self._seen = seen
        self._end: int | None = None
        """The outbox's ticket of the run's end."""
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
            raise RunEndedError(run=self._run, position=self.sender.ended or self.sender.position)

    async def ready(self) -> None:
        """Wait for room, as long as anything may be put in at all."""
        self.check()
        while self.outbox.full:
            await self.sender.room()
            self.check()

    def event(self, type: str, **fields: Any) -> dict[str, Any]:
        """Begin an event of this run; fields that are None are left out."""
        common = {"type": type, "at": self._clock(), "run": self._run}
        return common | {name: value for name, value in fields.items() if value is not None}

    def put(self, out: Outgoing) -> None:
        """Put in one event."""
        self.outbox.add(Group(entries=[out]))
        self.sender.notify()

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
            self.outbox.add(Group(entries=entries, log=log))
            self.sender.notify()

    def count(self, before: Usage, after: Usage) -> None:
        """Move the context's usage by what changed; readers hear of it by the `usage` events alone."""
        old, new, total = before.to_dict(), after.to_dict(), self.context.usage.to_dict()
        usage = Usage(**{name: value + new[name] - old[name] for name, value in total.items()})
        self.recorder.context = msgspec.structs.replace(self.context, usage=usage)

    async def stored(self) -> Position:
        """Wait until all that was put in is stored."""
        await self.sender.acknowledged(self.outbox.ticket)
        return self.sender.position

    async def end(self, event: Mapping[str, Any], left: list[UnfinishedMessage]) -> Position:
        """Write the run's one end and wait for it; returns where the one that stands is, whoever wrote it.

        Args:
            event: The end.
            left: Messages that are still open.

        """
        if self.sender.ended is not None:
            return self.sender.ended
        if self.sender.stopped:
            raise self.sender.failure or FencedError(run=self._run, holder="")
        if self._end is None:
            # What a full history refused is missing from its log, which then can only be left as it is.
            whole = self.sender.failure is None
            self.outbox.add(last_group(self.recorder, event, left if whole else (), patched=whole))
            self._end = self.outbox.ticket
            self.sender.notify()
        try:
            await self.sender.acknowledged(self._end)
        except PublishError:
            if self.sender.ended is None:
                raise
        if self.sender.ended is None:
            raise self.sender.failure or FencedError(run=self._run, holder="")
        return self.sender.ended
