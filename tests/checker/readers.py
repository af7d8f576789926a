"""Those who read: hubs and clients with a list of events each, and folders that trim."""

import json
from typing import Any

import msgspec

from gateway.broker.keys import Keys
from gateway.broker.port import History
from gateway.errors import BrokerUnavailableError
from gateway.mirror import Mirror
from gateway.types import START, Position, Publication, Topic
from tests.checker.actor import Actor
from tests.checker.pair import Plain
from tests.checker.truth import Violation
from tests.checker.world import World

__all__ = ["Folded", "Folder", "Hub", "Reader", "mirror_of"]


class Folded:
    """A topic as somebody has it: its events, less the deltas of ended messages."""

    def __init__(self) -> None:
        self.position: Position = START
        self.events: dict[int, bytes] = {}
        self._open: dict[str, list[int]] = {}
        self._halfway = False
        """Whether the last page did not reach the top."""
        self.told = 0
        """How often it was said that what is here is not the beginning of the history."""

    @property
    def offset(self) -> int:
        return self.position.offset

    def take(self, history: History) -> None:
        """Go on as STORE.md 4 says."""
        halfway, self._halfway = self._halfway, history.upto < history.top
        if halfway and history.epoch != self.position.epoch:
            # The pages before lack deltas whose message had ended; by now it may not have.
            self.told += 1
            self.position, self.events, self._open, self._halfway = START, {}, {}, False
            return
        if not history.complete:
            self.told += 1
            self.events, self._open = {}, {}
            self.position = Position(epoch=history.epoch, offset=history.floor)
            if history.snapshot is not None:
                for offset, data in msgspec.json.decode(history.snapshot)["events"]:
                    self._add(offset, data.encode())
        for stored in history.events:
            if stored.offset > self.offset:
                self.add(stored.offset, stored.data)
        self.position = Position(epoch=history.epoch, offset=max(self.offset, history.upto))

    def add(self, offset: int, data: bytes) -> None:
        self._add(offset, data)
        self.position = Position(epoch=self.position.epoch, offset=offset)

    def _add(self, offset: int, data: bytes) -> None:
        event = msgspec.json.decode(data, type=dict[str, Any])
        message = event.get("message")
        self.events[offset] = data
        if event["type"] in {"agent_delta", "agent_thinking", "tool_call_delta"}:
            self._open.setdefault(event["message"], []).append(offset)
        elif event["type"] in {"assistant_message", "message_discarded"} and message is not None:
            for old in self._open.pop(message, ()):
                del self.events[old]


def mirror_of(topic: Topic, position: Position, events: dict[int, bytes]) -> Mirror:
    """Fold events with the real mirror."""
    mirror = Mirror(topic, position.epoch, 0)
    for offset, data in events.items():
        event = msgspec.json.decode(data, type=dict[str, Any])
        mirror.apply(Publication(offset=offset, data=event, first=mirror.offset + 1))
    mirror.offset = position.offset
    return mirror


class Reader(Actor):
    """A client: claims where it stands, and goes on from what it is given."""

    seen = False

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.folded = Folded()
        self._road = world.road(self, 1)

    @property
    def finished(self) -> bool:
        state = self.world.judges[self.topic].state
        return self.idle and self.folded.position == Position(epoch=state.epoch, offset=state.top)

    def finish(self) -> None:
        if not self.finished:
            self.step()

    async def act(self) -> None:
        # Small pages, so that much happens between two of them.
        limit = 1000 if self.world.calm else self.world.random.choice((1, 2, 5, 1000))
        try:
            history = await self._road.read(self.topic, self.folded.position, limit=limit, seen=self.seen)
        except BrokerUnavailableError:
            return
        self.folded.take(history)


class Hub(Reader):
    """A gateway's hub: hears the topic's channel, and reads where it missed something."""

    seen = True

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name, topic)
        self._channel = Keys("w").channel(topic)
        self._link: Plain | None = None
        self._unsure = True

    async def act(self) -> None:
        heard = self._hear()
        if self._unsure or self.world.calm:
            await super().act()
            self._unsure = self.folded.position.epoch == "" or self.world.random.random() < 0.3
            return
        for payload in heard:
            self._take(payload)

    def _take(self, payload: bytes) -> None:
        header, *lines = payload.split(b"\n")
        epoch, first, last, types = header.decode().split(" ")
        if len(lines) != int(last) - int(first) + 1 or len(types.split(",")) != len(lines):
            raise Violation(f"a publication of {len(lines)} lines: {header!r}")
        position = self.folded.position
        if epoch != position.epoch or int(first) > position.offset + 1:
            self._unsure = True
            return
        if types == "deleted":
            return
        for offset, line in enumerate(lines, int(first)):
            push = msgspec.json.decode(line)["push"]["pub"]
            if push["offset"] != offset:
                raise Violation(f"line {offset} of a publication says {push['offset']}")
            if offset > self.folded.offset:
                raw = line[line.index(b'"data":') + 7 : line.rindex(b',"offset":')]
                self.folded.add(offset, raw)

    def _hear(self) -> list[bytes]:
        """Take what the channel has carried; a lost link makes unsure."""
        heard: list[bytes] = []
        try:
            if self._link is None:
                self._link = Plain(self.world.pair.port)
                self._link.call("SUBSCRIBE", self._channel)
                self._unsure = True
            self._link.send("PING")
            while (message := self._link.answer())[0] != b"pong":
                heard.append(message[2])
        except OSError:
            self.hung_up()
            self._unsure = True
            return []
        return heard

    def hung_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


class Folder(Actor):
    """A gateway that folds a topic, and later puts the snapshot in place of what it folded."""

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._road = world.road(self, 1)
        self._made: tuple[Position, bytes, int] | None = None

    async def act(self) -> None:
        if self._made is None:
            await self._fold()
            return
        (position, snapshot, size), self._made = self._made, None
        try:
            await self._road.trim(self.topic, snapshot, position=position, size=size)
        except BrokerUnavailableError:
            return

    async def _fold(self) -> None:
        folded = Folded()
        limit = self.world.random.choice((3, 1000))
        try:
            while True:
                history = await self._road.read(self.topic, folded.position, limit=limit, seen=True)
                folded.take(history)
                if history.upto >= history.top or self.world.random.random() < 0.1:
                    break
        except BrokerUnavailableError:
            return
        if not folded.position.epoch:
            return
        mirror = mirror_of(self.topic, folded.position, folded.events)
        events = [[offset, data.decode()] for offset, data in folded.events.items()]
        snapshot = json.dumps({**mirror.snapshot(), "events": events}).encode()
        self._made = folded.position, snapshot, history.size
