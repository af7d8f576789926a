"""A process with real runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.context.messages import Message, ToolCall
from gateway.errors import ConditionError, PublishError, TopicBusyError
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from tests.checker.actor import Actor
from tests.checker.world import World

__all__ = ["LEASE", "Agent"]

LEASE = 30.0
"""Seconds; it lapses when the world says so, long before."""


class Agent(Actor):
    """A process with a publisher that runs one run after another on a topic; the real `Run`."""

    def __init__(self, world: World, name: str, topic: Topic, *, most: int) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._publisher = Publisher(broker=world.road(self, 0), flush_interval=0, lease=LEASE)
        self._most = most
        """Runs that it begins at most."""
        self._begun = 0
        self._said = 0
        self._wanted: asyncio.Future[Callable[[Run], Awaitable[Any]] | None] = world.loop.create_future()
        """What it is to do next; None = to end the run."""
        self._asking: list[asyncio.Task[Any]] = []
        self._run: Run | None = None
        self._busy = False
        """Whether it does what it was told last."""
        self.ended: list[Run] = []
        """The runs that wrote their end themselves."""
        self.failed: list[tuple[str, Exception]] = []
        """The others, and why."""

    @property
    def idle(self) -> bool:
        return not self._busy and not self._wanted.done()

    @property
    def finished(self) -> bool:
        return self.task is None or self.task.done()

    def runs(self, topic: Topic) -> set[str]:
        return {self._run.id} if self._run is not None and topic == self.topic else set()

    def step(self) -> None:
        if self.task is None or self.task.done():
            if self._begun < self._most:
                self._busy = True
                super().step()
            return
        self._busy = True
        self._wanted.set_result(self._chosen())

    def finish(self) -> None:
        if not self.finished:
            self._busy = True
            self._wanted.set_result(None)

    async def act(self) -> None:
        self._begun += 1
        run: Run | None = None
        try:
            run = await self._opened()
            self._run = run
            async with run:
                while True:
                    self._wanted = self.world.loop.create_future()
                    self._busy = False
                    order = await self._wanted
                    if order is not None:
                        await order(run)
                    if order is None or run.ended is not None:
                        break
            if run.ended is not None:
                self.ended.append(run)
        except (TopicBusyError, ConditionError):
            pass
        except PublishError as error:
            if run is not None:
                self.failed.append((run.id, error))
        finally:
            for asking in self._asking:
                asking.cancel()
            self._asking.clear()
            self._run = None
            self._busy = False

    async def _opened(self) -> Run:
        if self.world.random.random() < 0.5:
            state = await self._publisher.read(self.topic)
            run = self._publisher.take(state, agent=self.name)
            if run is not None:
                return run
        return self._publisher.run(self.topic, agent=self.name)

    def _chosen(self) -> Callable[[Run], Awaitable[Any]] | None:
        self._said += 1
        said = f"{self.name}.{self._begun}.{self._said}"
        random = self.world.random

        async def answer(run: Run) -> None:
            await run.add_message(Message.assistant(said))

        async def tool(run: Run) -> None:
            await run.tool_call(said, "look", {"at": said})
            await run.tool_result(said, "look", said)

        async def ask(run: Run) -> None:
            call = ToolCall(id=said, name="look", arguments="{}")
            self._asking.append(asyncio.ensure_future(run.approval(call, timeout=None)))

        async def fail(run: Run) -> None:
            await run.fail(said)

        async def clear(run: Run) -> None:
            await run.change_context(lambda context: context.clear())

        async def discard(run: Run) -> None:
            if run.open_message is not None:
                await run.discard(reason=said)

        orders: list[tuple[float, Callable[[Run], Awaitable[Any]] | None]] = [
            (4, lambda run: run.delta(said)),
            (1, lambda run: run.delta(said, message=random.choice((run.open_message, f"{run.id}-{said}")))),
            (1, lambda run: run.thinking(said)),
            (1, lambda run: run.tool_call_delta(index=0, text=said)),
            (3, answer),
            (1, lambda run: run.add_message(Message.user(said))),
            (1, tool),
            (1, lambda run: run.usage({"input_tokens": self._said}, call=f"{run.id}-{random.randrange(2)}")),
            (1, lambda run: run.log("info", said)),
            (1, lambda run: run.emit({"type": "own", "text": said})),
            (1, lambda run: run.set_context(title=said, system_prompt=said)),
            (1, lambda run: run.log_event("turn_start", {"turn": said})),
            (1, ask),
            (0.3, clear),
            (0.5, discard),
            (1, lambda run: run.flush()),
            (0.3, fail),
            (0.7, None),
        ]
        return random.choices([order for _, order in orders], [weight for weight, _ in orders])[0]
