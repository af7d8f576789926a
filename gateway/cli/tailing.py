"""Following topics for a screen or a pipe."""

import asyncio
from typing import Any, Literal, Protocol, TypeAlias

import click

from gateway.cli.screen import echo
from gateway.cli.target import next_update
from gateway.client import Client, Subscription
from gateway.errors import GatewayError
from gateway.event_types import END_TYPES
from gateway.lens import types_of
from gateway.reader import Since, Update
from gateway.types import START, TOPIC_PATTERN, Position, Topic

__all__ = ["Beginning", "Shown", "Tail"]

Beginning: TypeAlias = Literal["start"] | int | Position | None
"""Where reading begins: the first event, an offset, a position, or (None) where it is usual."""


class Shown(Protocol):
    """Turns updates of several topics into text."""

    def name(self, topic: Topic, name: str) -> None:
        """Take a name for a topic."""

    def show(self, update: Update) -> str:
        """Give the text of an update."""

    def forget(self, topic: Topic) -> str:
        """Give a topic's last words: nothing more of it will be shown."""

    def end(self) -> str:
        """Give the last words."""


class Tail:
    """Prints a topic, and those of the sub-agents that are announced there where they are wanted.

    Args:
        gateway: The client, not yet entered.
        shown: Makes the text.
        types: The event types, and groups of them, that are printed; None for all.
        follow_runs: Whether sub-agents' topics are printed too.

    """

    def __init__(self, gateway: Client, shown: Shown, *, types: tuple[str, ...] | None, follow_runs: bool) -> None:
        self._gateway = gateway
        self._shown = shown
        self._wanted = None if types is None else types_of(types)
        # Announcements and ends are needed for following, wanted or not.
        self._asked = (*types, "runs") if types is not None and follow_runs else types
        self._follows_runs = follow_runs
        self._followed: set[Topic] = set()
        self._tasks: asyncio.TaskGroup
        """Those that follow sub-agents."""

    async def follow(self, topic: Topic, beginning: Beginning) -> None:
        """Print what there is from the beginning on, now by default, and what is to come."""
        try:
            async with self._gateway, asyncio.TaskGroup() as self._tasks:
                await self._follow(topic, await self._since(topic, beginning))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        echo(self._shown.end())

    async def read(self, topic: Topic, beginning: Beginning) -> None:
        """Print what there is from the beginning on, the start by default."""
        async with self._gateway:
            await self._read(topic, "start" if beginning is None else beginning)
        echo(self._shown.end())

    async def _since(self, topic: Topic, beginning: Beginning) -> Since:
        if isinstance(beginning, int):
            return Position(epoch=(await self._gateway.top(topic)).epoch, offset=beginning)
        if beginning is not None or not self._follows_runs:
            return beginning
        # Sub-agents that are at work already were announced before.
        async with self._gateway.subscribe(topic) as subscription:
            state = await anext(subscription)
        self._start_running(state.mirror.runs, topic, since=None)
        return state.position

    async def _follow(self, topic: Topic, since: Since, *, run: str | None = None) -> None:
        """Print a topic, up to the end of a run where one is named."""
        self._followed.add(topic)
        subscription = self._gateway.subscribe(topic, since=since, mirror=False, types=self._asked)
        async with subscription:
            telling = None if run else asyncio.create_task(_tell_unwritten(subscription))
            try:
                async for update in subscription:
                    self._print(update)
                    if update.snapshot:
                        self._start_running(update.data["mirror"]["runs"], topic, since="start")
                    else:
                        self._start(update.data, topic, since="start")
                    if run is not None and update.data.get("run") == run and update.data.get("type") in END_TYPES:
                        return
            finally:
                if telling is not None:
                    telling.cancel()

    async def _read(self, topic: Topic, beginning: Beginning) -> None:
        # The top is asked for before the events: what comes later than the command is not its business.
        top = await self._gateway.top(topic)
        if top == START:
            _say_unwritten(topic)
        since: Since = Position(epoch=top.epoch, offset=beginning) if isinstance(beginning, int) else beginning
        if (since.offset if isinstance(since, Position) else 0) >= top.offset:
            return
        self._followed.add(topic)
        # Every event: of those that are not wanted none would tell that the top is reached.
        async with self._gateway.subscribe(topic, since=since, mirror=False) as subscription:
            while (update := await next_update(self._gateway, subscription)) is not None:
                self._print(update)
                announced = self._announced(update.data, topic)
                if announced is not None:
                    await self._read(announced, "start")
                    echo(self._shown.forget(announced))
                if update.position.epoch != top.epoch or update.position.offset >= top.offset:
                    return

    def _announced(self, event: dict[str, Any], topic: Topic) -> Topic | None:
        """Give the topic of a sub-agent that an event announces and that is to be printed from here on."""
        named, agent, run = event.get("topic"), event.get("agent"), str(event.get("run"))
        if not self._follows_runs or event.get("type") != "agent_start" or not isinstance(named, str):
            return None
        if not TOPIC_PATTERN.match(named) or named == topic or named in self._followed:
            return None
        self._shown.name(Topic(named), f"{agent} {run[:4]}" if isinstance(agent, str) else run[:8])
        return Topic(named)

    def _start(self, event: dict[str, Any], topic: Topic, *, since: Since) -> None:
        announced = self._announced(event, topic)
        if announced is not None:
            self._followed.add(announced)
            self._tasks.create_task(self._follow_run(announced, since, str(event.get("run"))))

    def _start_running(self, runs: list[dict[str, Any]], topic: Topic, *, since: Since) -> None:
        for run in runs:
            if run["status"] in {"running", "cancelling"}:
                self._start({**run, "type": "agent_start"}, topic, since=since)

    async def _follow_run(self, topic: Topic, since: Since, run: str) -> None:
        try:
            await self._follow(topic, since, run=run)
        except GatewayError as error:
            click.echo(f"gateway: {topic} cannot be followed: {error}", err=True)
        finally:
            echo(self._shown.forget(topic))
            self._followed.discard(topic)

    def _print(self, update: Update) -> None:
        wanted = self._wanted is None or update.snapshot or update.data.get("type") in self._wanted
        if wanted and not update.hidden:
            echo(self._shown.show(update))


async def _tell_unwritten(subscription: Subscription) -> None:
    await subscription.joined.wait()
    if subscription.reader.position == START:
        _say_unwritten(subscription.topic)


def _say_unwritten(topic: Topic) -> None:
    click.echo(f"gateway: nobody has written {topic} yet", err=True)
