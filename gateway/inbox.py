"""What a run does with the messages of people that come while it runs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from gateway.broker.port import Unmet
from gateway.context.messages import Message
from gateway.outbox import Group
from gateway.run_writer import RunWriter
from gateway.waiting import WaitingMessage, WaitingMessages, take, withdrawal

__all__ = ["Inbox"]


class Inbox:
    """The messages that wait on a run's topic.

    Args:
        writer: What the run writes with.
        waiting: Those that waited when the run began.

    """

    def __init__(self, writer: RunWriter, waiting: WaitingMessages) -> None:
        self._writer = writer
        self._waiting = waiting
        self._before = {message.id for message in waiting}
        """Those that waited when the run began."""
        self._came = asyncio.Event()
        self.steers = False
        """Whether the agent's loop takes them in at its next step; the worker's policy says so."""

    @property
    def waiting(self) -> tuple[WaitingMessage, ...]:
        """The messages that wait, as far as the run has heard, oldest first."""
        return tuple(self._waiting)

    @property
    def arrived(self) -> tuple[WaitingMessage, ...]:
        """Those of them that have come during the run."""
        return tuple(message for message in self._waiting if message.id not in self._before)

    def heard(self, event: Mapping[str, Any]) -> None:
        """Follow an event of the topic."""
        if self._waiting.heard(event) is not None:
            self._came.set()

    async def arrival(self) -> None:
        """Wait until a message has come since the last call."""
        await self._came.wait()
        self._came.clear()

    async def take(self) -> list[Message]:
        """Take all messages that wait into the run's context, oldest first; returns what was taken.

        One that somebody edits meanwhile is taken as edited, one that somebody withdraws is not.
        """
        taken: list[Message] = []
        for message in self._waiting:
            found = await self._settle(message, self._taking)
            if found is not None:
                taken.append(found.message())
        return taken

    async def withdraw(self, message: WaitingMessage, *, reason: str) -> bool:
        """Take a message out of the queue without an answer; returns whether it still waited.

        Args:
            message: The message.
            reason: Why, for people.

        """

        def group(waiting: WaitingMessage) -> Group:
            event = withdrawal(waiting, run=self._writer.run, at=self._writer.now(), reason=reason)
            return Group(entries=[event], conditions=[waiting.condition], changes=[waiting.removal])

        return await self._settle(message, group) is not None

    def _taking(self, message: WaitingMessage) -> Group:
        recorder = self._writer.recorder
        mark = recorder.mark()
        entries = take(message, recorder, run=self._writer.run, at=self._writer.now())
        return Group(
            entries=entries,
            log=recorder.step_since(mark),
            conditions=[message.condition],
            changes=[message.removal],
        )

    async def _settle(self, message: WaitingMessage, group: Callable[[WaitingMessage], Group]) -> WaitingMessage | None:
        """Put in a group that ends a message's waiting; returns the message as it was then, None where it was gone."""
        while True:
            current = message
            found: Unmet | None = await self._writer.attempt(lambda: group(current))  # noqa: B023 - called at once
            self._waiting.update(message, "" if found is None else found.value)
            if found is None:
                return message
            if not found.value:
                return None
            message = message.edited(found.value)
