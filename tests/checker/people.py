"""Those who write beside runs: people, publishers, sweepers."""

from typing import Any

import msgspec

from gateway.actions import Actions, Caller
from gateway.codec import encode_json
from gateway.errors import BrokerUnavailableError, CommandError
from gateway.grants import EVERYTHING
from gateway.publisher import Publisher
from gateway.recorder import lost_event
from gateway.topic_state import read_topic
from gateway.types import START, Topic
from tests.checker.actor import Actor
from tests.checker.world import World

__all__ = ["Eraser", "Person", "Sweeper", "Talker"]


class Person(Actor):
    """A user at a gateway, on several pages at once: says things, tries again, takes back, stops, decides."""

    once = True

    def __init__(self, world: World, name: str, topic: Topic, *, user: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._user = user
        self._road = world.road(self, 1)
        self._actions = Actions(self._road)
        self._acted = 0

    async def act(self) -> None:
        what = self.world.random.choices(
            (self._say, self._edit, self._withdraw, self._cancel, self._decide), (4, 1, 1, 1, 3)
        )[0]
        await what()

    async def _say(self) -> None:
        random = self.world.random
        # Nobody tries again after two trims: what a trim forgets could be stored again (STORE.md 4).
        name = f"{random.randrange(4)}.{self.since[self.topic]}"
        content = f"{self._user}/{name}/{random.choices('ab', (4, 1))[0]}"
        await self._call("send", name, content=content)

    async def _withdraw(self) -> None:
        if waiting := await self._found("queue"):
            await self._call("withdraw", self._name(), message=waiting["id"])

    async def _edit(self) -> None:
        if waiting := await self._found("queue"):
            name = self._name()
            await self._call("edit", name, message=waiting["id"], content=f"{self._user}/{name}")

    async def _cancel(self) -> None:
        if run := await self._found("runs"):
            mode = self.world.random.choice(("now", "after_step"))
            await self._call("cancel", self._name(), run=run["run"], mode=mode)

    async def _decide(self) -> None:
        if asked := await self._found("approvals"):
            decision = self.world.random.choice(("approve", "reject"))
            facts = {"run": asked["run"], "tool_call_id": asked["tool_call_id"]}
            await self._call("decide", self._name(), decision=decision, reason=f"{self.name}.{self._acted}", **facts)

    async def _found(self, part: str) -> dict[str, Any] | None:
        try:
            found = (await read_topic(self._road, self.topic)).mirror.state()[part]
        except BrokerUnavailableError:
            return None
        # What is decided or ended is acted on, too: a page may be late.
        chosen: dict[str, Any] | None = self.world.random.choice(found[-3:]) if found else None
        return chosen

    def _name(self) -> str:
        self._acted += 1
        return f"{self.name.partition('@')[0]}.{self._acted}"

    async def _call(self, method: str, name: str, **data: Any) -> None:
        body = encode_json({"topic": self.topic, "id": name, **data})
        try:
            await self._actions.rpc(
                Caller(client=self.name, identity=msgspec.structs.replace(EVERYTHING, user=self._user)),
                method,
                msgspec.Raw(body),
            )
        except CommandError as error:
            self.world.seen[f"{method} refused {error.code}"] += 1


class Talker(Actor):
    """Somebody who publishes beside the runs, by the real `Publisher.publish`."""

    once = True

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._publisher = Publisher(broker=world.road(self, 0))
        self._said = 0

    async def act(self) -> None:
        self._said += 1
        await self._publisher.publish(self.topic, {"type": "own", "text": f"{self.name}.{self._said}"})


class Eraser(Actor):
    """Somebody who deletes the topic now and then, as a gateway does it: until that is answered."""

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._road = world.road(self, 1)

    async def act(self) -> None:
        if self.world.random.random() < 0.8:
            return
        try:
            history = await self._road.read(self.topic, START, limit=0)
        except BrokerUnavailableError:
            return
        while True:
            try:
                await self._road.delete(self.topic, epochs=history.epoch)
            except BrokerUnavailableError:
                continue
            return


class Sweeper(Actor):
    """A worker that declares lost who has not renewed."""

    lasts = True

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._road = world.road(self, 1)

    @property
    def finished(self) -> bool:
        holder = self.world.judges[self.topic].state.holder
        return self.idle and (not holder or holder in self.world.live_runs(self.topic))

    def finish(self) -> None:
        if not self.finished:
            self.step()

    async def act(self) -> None:
        run = self.world.judges[self.topic].state.holder
        if run:
            try:
                await self._road.declare_lost(
                    self.topic, run=run, data=lost_event(run, at=self._road.now()), position=START
                )
            except BrokerUnavailableError:
                return
