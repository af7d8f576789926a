"""Who reads which topic, across all gateway processes, and who comes and goes (PROTOCOL.md 3.7)."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from gateway.broker.port import Broker, Link
from gateway.errors import BrokerError
from gateway.frames import encode_push, text_frames
from gateway.types import Topic

__all__ = ["MAX_ANNOUNCED", "MAX_COUNTED", "Attendee", "Presence", "Watcher"]

logger = logging.getLogger(__name__)

TTL = 60.0
"""Seconds until the clients of a gateway process that died are no more listed; a third of it lies between renewals."""

MAX_ANNOUNCED = 1000
"""Clients of a topic above which nobody is told who comes and goes: each of n clients would be told n times."""

MAX_COUNTED = 10_000
"""Clients of a topic whose users are told apart; of more, the number of users is that of so many of them."""

TOPICS_AT_ONCE = 100
"""Topics that are written at a time."""

RETRY = 0.25
"""Seconds between two tries while the broker is away."""

FAREWELL = 1.0
"""Seconds that a gateway which ends takes at most to say that its clients are gone."""


class Attendee(msgspec.Struct, frozen=True, kw_only=True):
    """A client that reads a topic.

    Attributes:
        client: The connection's id.
        user: The user's id, without control characters; "" for an anonymous one.
        told: What its tokens tell of the user, as JSON of the protocol's `conn_info` and `chan_info`; "" for nothing.

    """

    client: str
    user: str
    told: str = ""

    @property
    def member(self) -> str:
        """How the store names it."""
        name = f"{self.client} {self.user}"
        return f"{name}\n{self.told}" if self.told else name

    @classmethod
    def of(cls, member: str) -> "Attendee":
        """Read the store's name."""
        name, _, told = member.partition("\n")
        client, _, user = name.partition(" ")
        return cls(client=client, user=user, told=told)

    @property
    def info(self) -> dict[str, Any]:
        """The protocol's client info."""
        told: dict[str, Any] = msgspec.json.decode(self.told) if self.told else {}
        return {"client": self.client, "user": self.user, **told}


class Watcher(Protocol):
    """A connection that wants to be told who comes and goes."""

    def announce(self, topic: Topic, frames: bytes) -> None:
        """Take finished websocket frames of `join` and `leave` pushes; they may be dropped."""


class Presence:
    """Keeps the store's list of this process's readers true, and hears of everybody's; the listener of a link.

    The list is the truth. That somebody came or went is told at most once: not while the broker is away, not to a
    reader whose socket is full, not of a process that died, and not above `MAX_ANNOUNCED` clients.

    Args:
        broker: The store; it stays the caller's to close.
        ttl: Seconds until clients whose process has died are no more listed.

    """

    def __init__(self, broker: Broker, *, ttl: float = TTL) -> None:
        self._broker = broker
        self._attendance = broker.attendance
        self._ttl = ttl
        self._here: dict[Topic, dict[str, Attendee]] = {}
        """The readers of this process by client, as they are."""
        self._told: dict[Topic, dict[str, Attendee]] = {}
        """The same as the store has them."""
        self._dirty: dict[Topic, None] = {}
        """Topics where the two may differ."""
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._watchers: dict[Topic, dict[Watcher, None]] = {}
        self._channels: dict[str, Topic] = {}
        self._link: Link | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to tell the store."""
        self._spawn(self._keep())
        self._spawn(self._renew())

    async def aclose(self) -> None:
        """Say that all readers of this process are gone, and end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for topic in list(self._here):
            self._dirty[topic] = None
        self._here.clear()
        with contextlib.suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._tell()
        if self._link is not None:
            await self._link.aclose()

    # Who is here

    def enter(self, topic: Topic, attendee: Attendee) -> None:
        """Note that a client reads a topic."""
        self._here.setdefault(topic, {})[attendee.client] = attendee
        self._mark(topic)

    def leave(self, topic: Topic, client: str) -> None:
        """Note that a client reads a topic no more."""
        here = self._here.get(topic)
        if here is None or here.pop(client, None) is None:
            return
        if not here:
            del self._here[topic]
        self._mark(topic)

    async def attendees(self, topic: Topic) -> tuple[int, list[Attendee]]:
        """Give how many clients read a topic anywhere, and up to `MAX_ANNOUNCED` of them.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        return await self._listed(topic, MAX_ANNOUNCED)

    async def count(self, topic: Topic) -> tuple[int, int]:
        """Give how many clients, of how many users, read a topic anywhere; of users as `MAX_COUNTED` says.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        number, attendees = await self._listed(topic, MAX_COUNTED)
        return number, len({attendee.user for attendee in attendees})

    async def _listed(self, topic: Topic, limit: int) -> tuple[int, list[Attendee]]:
        # Whoever has just entered finds itself.
        await self._tell()
        number, members = await self._attendance.read(topic, limit=limit)
        return number, [Attendee.of(member) for member in members]

    # Who comes and goes

    async def watch(self, topic: Topic, watcher: Watcher) -> None:
        """Have a connection told who comes and goes; all of it, from the return on."""
        channel = self._attendance.channel(topic)
        self._watchers.setdefault(topic, {})[watcher] = None
        self._channels[channel] = topic
        if self._link is None:
            self._link = self._broker.link(self)
        await self._link.subscribe(channel)

    def unwatch(self, topic: Topic, watcher: Watcher) -> None:
        """Tell a connection no more; one that does not watch may be named."""
        watchers = self._watchers.get(topic)
        if watchers is None or watcher not in watchers:
            return
        del watchers[watcher]
        if not watchers:
            del self._watchers[topic]
            channel = self._attendance.channel(topic)
            del self._channels[channel]
            self._spawn(self._unhear(topic, channel))

    async def _unhear(self, topic: Topic, channel: str) -> None:
        if topic not in self._watchers and self._link is not None:
            await self._link.unsubscribe(channel)

    def received(self, channel: str, payload: bytes) -> None:
        """Take what a gateway process tells of its clients: push lines."""
        topic = self._channels.get(channel)
        if topic is None:
            return
        frames = text_frames(payload.split(b"\n"))
        for watcher in list(self._watchers[topic]):
            watcher.announce(topic, frames)

    def drained(self) -> None:
        """Nothing to do: what is received goes out at once."""

    def lost(self) -> None:
        """Nothing to do: the hub's link says so to everybody."""

    def restored(self) -> None:
        """Nothing to do: a page that was told the broker is back asks who is present."""

    def missed(self, channels: Sequence[str]) -> None:
        """Nothing to do: what one misses between two servers is told by the next change."""

    # Telling the store

    def _mark(self, topic: Topic) -> None:
        self._dirty[topic] = None
        self._changed.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the presence failed", exc_info=error)

    async def _keep(self) -> None:
        while True:
            await self._changed.wait()
            try:
                await self._tell()
            except BrokerError as error:
                logger.debug("presence is not told: %s", error)
                await asyncio.sleep(RETRY)

    async def _renew(self) -> None:
        """Write everybody again before the store forgets them, and after it has."""
        while True:
            await asyncio.sleep(self._ttl / 3)
            for topic in list(self._told):
                try:
                    await self.renew(topic)
                except BrokerError as error:
                    logger.debug("presence is not renewed: %s", error)
                    break

    async def renew(self, topic: Topic) -> None:
        """Write again who reads a topic here.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        async with self._writing:
            members = [attendee.member for attendee in self._told.get(topic, {}).values()]
            if members:
                await self._attendance.add(topic, members, ttl=self._ttl)

    async def _tell(self) -> None:
        """Write what changed; returns once the store has all that had changed before the call."""
        async with self._writing:
            self._changed.clear()
            topics = list(self._dirty)
            for start in range(0, len(topics), TOPICS_AT_ONCE):
                part = topics[start : start + TOPICS_AT_ONCE]
                told = await asyncio.gather(*(self._tell_of(topic) for topic in part), return_exceptions=True)
                for error in told:
                    if error is not None:
                        raise error

    async def _tell_of(self, topic: Topic) -> None:
        del self._dirty[topic]
        try:
            await self._write(topic)
        except BaseException:
            self._mark(topic)
            raise

    async def _write(self, topic: Topic) -> None:
        here, told = dict(self._here.get(topic, {})), self._told.get(topic, {})
        came = [here[client] for client in here.keys() - told.keys()]
        gone = [told[client] for client in told.keys() - here.keys()]
        number = 0
        if came:
            number = await self._attendance.add(topic, [attendee.member for attendee in came], ttl=self._ttl)
        if gone:
            number = await self._attendance.remove(topic, [attendee.member for attendee in gone])
        if here:
            self._told[topic] = here
        else:
            self._told.pop(topic, None)
        if (came or gone) and number + len(gone) <= MAX_ANNOUNCED:
            lines = [encode_push("join", {"info": attendee.info}, channel=topic) for attendee in came]
            lines += [encode_push("leave", {"info": attendee.info}, channel=topic) for attendee in gone]
            await self._attendance.announce(topic, b"\n".join(lines))
