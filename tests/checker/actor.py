"""What all have in common who act in a world."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from gateway.types import Topic

if TYPE_CHECKING:
    from tests.checker.world import World

__all__ = ["Actor"]


class Actor(ABC):
    """Somebody who does one thing after another when the world says so."""

    once = False
    """Whether what it does carries an id of its own, to be stored once however often it is tried."""

    lasts = False
    """Whether it never dies: with nobody alive nothing comes to an end."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.paused = False
        """Its process stands still; what it has asked for is not answered either."""
        self.dead = False
        self.task: asyncio.Task[None] | None = None
        self.since: dict[Topic, int] = {}
        """The floors when its last step began."""

    @property
    def idle(self) -> bool:
        """Whether it can be told to do something."""
        return self.task is None or self.task.done()

    @property
    def finished(self) -> bool:
        """Whether nothing is left that it should still do."""
        return self.idle

    def step(self) -> None:
        """Begin the next thing."""
        self.since = {topic: judge.state.floor for topic, judge in self.world.judges.items()}
        self.task = asyncio.ensure_future(self.act())

    def finish(self) -> None:  # noqa: B027 - most have nothing to do then
        """Bring to an end what was begun; called again and again once the world is calm."""

    @abstractmethod
    async def act(self) -> None:
        """Do one thing."""

    def runs(self, topic: Topic) -> set[str]:
        """Give the ids of its runs that work on a topic."""
        return set()

    def hung_up(self) -> None:  # noqa: B027 - as above
        """Hear that the server has gone."""
