"""What gateway processes tell each other: whom to disconnect, what was deleted, how they are (PROTOCOL.md 10)."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

import gateway
from gateway.broker.port import Broker, Link
from gateway.errors import BrokerError, DisconnectError
from gateway.types import Topic, new_id

__all__ = ["PERIOD", "Control", "House", "Revocation", "announce_deleted"]

logger = logging.getLogger(__name__)

PERIOD = 5.0
"""Seconds after which a node looks for notices of which nobody told it, and says how it is; less where pings are."""

LIFE = 3
"""Periods after which a node that says nothing counts as dead."""

PAGE = 1000
"""Notices of one read."""

REMEMBERED = 20_000
"""Notices and revoked users that a node remembers."""

ASKED_FOR = 1.0
"""Seconds that other nodes have to answer a question."""

MAX_CHANNELS = 20_000
"""Topics that one node names in an answer, those with the most readers."""

FAREWELL = 1.0
"""Seconds that a gateway which ends takes at most to say so."""

Counts: TypeAlias = dict[str, int]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A user was sent away for good.

    Attributes:
        at: When; Unix time in ms.
        code: The close code that its connections were closed with.
        reason: The reason likewise.

    """

    at: int
    code: int
    reason: str


class House(Protocol):
    """What a node does with notices, and what it tells of itself."""

    def disconnect(self, user: str, *, client: str, keep: frozenset[str], code: int, reason: str, at: int) -> None:
        """Close the connections of a user: that one client, or all but those to keep.

        A notice may come late: who came with a token that was made since ``at``, Unix time in ms, stays.
        """

    def unsubscribe(self, user: str, topic: Topic, *, client: str) -> None:
        """End a user's subscriptions to a topic: of one client, or of all where it is ""."""

    def census(self) -> Counts:
        """Count the readers of this process by topic."""

    def population(self) -> tuple[int, int]:
        """Count the connections of this process, and their users."""

    async def deleted(self, topic: Topic) -> None:
        """Write again who reads a topic: the list went with its history."""


class Control:
    """One node among the gateway processes on one store.

    A notice is stored, then announced; who misses the announcement finds it within a period. So a notice reaches every
    node that runs, and each node that starts within a day learns who was revoked and what was deleted.

    Args:
        broker: The store; it stays the caller's to close.
        house: What the notices are about.
        period: Seconds between two looks at the notices at most.

    """

    def __init__(self, broker: Broker, house: House, *, period: float = PERIOD) -> None:
        self.node: str = new_id()
        self._broker = broker
        self._board = broker.notices
        self._house = house
        self._period = period
        self._began = time.monotonic()
        self._since = 0
        """When this node began, on the broker's clock in ms: what is older is not about its connections."""
        self._place = ""
        """Of the last notice that was read."""
        self._seen: deque[str] = deque(maxlen=REMEMBERED)
        self._seen_set: set[str] = set()
        self._revoked: OrderedDict[str, Revocation] = OrderedDict()
        """By user."""
        self._news = asyncio.Event()
        self._reading = asyncio.Lock()
        self._answers: dict[str, Callable[[str, Counts], None]] = {}
        """Questions that are open, by their id."""
        self._task: asyncio.Task[None] | None = None
        self._saying: set[asyncio.Task[None]] = set()

    @property
    def channel(self) -> str:
        """Name the channel that is to be heard."""
        return self._board.channel

    # Its life

    def start(self, link: Link) -> None:
        """Hear the channel, and begin to look."""
        self._task = asyncio.create_task(self._keep(link))

    async def aclose(self) -> None:
        """Say that this node is gone, and end."""
        tasks = [*self._saying, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with contextlib.suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._board.unregister(self.node)

    def received(self, payload: bytes) -> None:
        """Take what came on the channel."""
        if not payload:
            self._news.set()
            return
        try:
            said = msgspec.json.decode(payload)
            if "ask" in said:
                self._say({"answer": said["ask"], "node": self.node, "channels": self._channels()})
            elif (take := self._answers.get(said["answer"])) is not None:
                take(said["node"], said["channels"])
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            logger.warning("something on the control channel is not ours: %s", error)

    def restored(self) -> None:
        """Look at everything again: announcements were missed, and the server may be one with an older clock."""
        self._place = ""
        self._news.set()

    # What others ask of it

    async def disconnect(
        self, user: str, *, client: str = "", keep: frozenset[str] = frozenset(), code: int, reason: str
    ) -> None:
        """Close a user's connections on all nodes; with a code that forbids to come back, older tokens are refused.

        Raises:
            BrokerUnavailableError: The broker is away; nothing is known about the outcome.

        """
        await self._post("disconnect", user=user, client=client, keep=sorted(keep), code=code, reason=reason)

    async def unsubscribe(self, user: str, topic: Topic, *, client: str = "") -> None:
        """End a user's subscriptions to a topic on all nodes.

        Raises:
            BrokerUnavailableError: The broker is away; nothing is known about the outcome.

        """
        await self._post("unsubscribe", user=user, topic=topic, client=client)

    def revoked(self, user: str, issued_at: float | None) -> Revocation | None:
        """Tell whether a token counts no more: its user was sent away for good after it was issued.

        Args:
            user: The token's user.
            issued_at: Its ``iat``, Unix time in s; None where it does not say, so that nothing is known.

        """
        found = self._revoked.get(user)
        return found if found is not None and issued_at is not None and issued_at * 1000 < found.at else None

    async def nodes(self) -> list[dict[str, Any]]:
        """Describe the nodes that are alive, this one as it is now.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        await self._register()
        alive = []
        for node, described in (await self._board.nodes()).items():
            found = msgspec.json.decode(described)
            if found.pop("until") >= self._broker.now():
                alive.append(found)
            else:
                await self._board.unregister(node)
        return sorted(alive, key=lambda found: (str(found["name"]), str(found["uid"])))

    async def channels(self) -> Counts:
        """Count the readers of every topic that has some, on all nodes that answer in time.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        expected = {found["uid"] for found in await self.nodes()}
        counts: dict[str, Counts] = {}
        complete = asyncio.Event()

        def take(node: str, found: Counts) -> None:
            counts[node] = found
            if expected <= counts.keys():
                complete.set()

        question = new_id()
        self._answers[question] = take
        try:
            await self._board.say(msgspec.json.encode({"ask": question}))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASKED_FOR):
                    await complete.wait()
        finally:
            del self._answers[question]
        total: Counts = {}
        for found in counts.values():
            for topic, number in found.items():
                total[topic] = total.get(topic, 0) + number
        return total

    # Inside

    async def _keep(self, link: Link) -> None:
        await link.subscribe(self.channel)
        registered = -self._period
        while True:
            self._news.clear()
            try:
                await self._read()
                if time.monotonic() - registered >= self._period:
                    await self._register()
                    registered = time.monotonic()
            except BrokerError as error:
                logger.debug("notices cannot be read: %s", error)
            except Exception:
                logger.exception("a notice could not be acted on")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._news.wait()

    async def _post(self, kind: str, **facts: Any) -> None:
        await _post(self._broker, kind, **facts)
        # What this node was asked, it has done when it answers.
        await self._read()

    async def _read(self) -> None:
        async with self._reading:
            while True:
                found = await self._board.after(self._place, limit=PAGE)
                if not self._since:
                    self._since = self._broker.now() - int(1000 * (time.monotonic() - self._began))
                for place, notice in found:
                    self._place = place
                    await self._act(msgspec.json.decode(notice))
                if len(found) < PAGE:
                    return

    async def _act(self, notice: Mapping[str, Any]) -> None:
        if notice["id"] in self._seen_set:
            return
        if len(self._seen) == REMEMBERED:
            self._seen_set.discard(self._seen[0])
        self._seen.append(notice["id"])
        self._seen_set.add(notice["id"])
        match notice["kind"]:
            case "disconnect":
                self._disconnect(notice)
            case "unsubscribe":
                if notice["at"] >= self._since:
                    self._house.unsubscribe(notice["user"], Topic(notice["topic"]), client=notice["client"])
            case "deleted":
                self._broker.keep_deleted(Topic(notice["topic"]), notice["gone"])
                await self._house.deleted(Topic(notice["topic"]))
            case kind:
                logger.debug("a notice of the kind %s is for newer gateways", kind)

    def _disconnect(self, notice: Mapping[str, Any]) -> None:
        user, client, keep = notice["user"], notice["client"], frozenset(notice["keep"])
        code, reason = notice["code"], notice["reason"]
        if not client and not DisconnectError(code, reason).reconnect:
            self._revoked[user] = Revocation(at=notice["at"], code=code, reason=reason)
            self._revoked.move_to_end(user)
            if len(self._revoked) > REMEMBERED:
                self._revoked.popitem(last=False)
        if notice["at"] >= self._since:
            self._house.disconnect(user, client=client, keep=keep, code=code, reason=reason, at=notice["at"])

    async def _register(self) -> None:
        clients, users = self._house.population()
        census = self._house.census()
        described = {
            "uid": self.node,
            "name": f"{socket.gethostname()}_{os.getpid()}",
            "version": gateway.__version__,
            "num_clients": clients,
            "num_users": users,
            "num_subs": sum(census.values()),
            "num_channels": len(census),
            "uptime": int(time.monotonic() - self._began),
            "until": self._broker.now() + int(LIFE * self._period * 1000),
        }
        await self._board.register(self.node, msgspec.json.encode(described))

    def _channels(self) -> Counts:
        census = self._house.census()
        if len(census) <= MAX_CHANNELS:
            return census
        return dict(sorted(census.items(), key=lambda item: item[1], reverse=True)[:MAX_CHANNELS])

    def _say(self, said: Mapping[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._said(msgspec.json.encode(said)))
        self._saying.add(task)
        task.add_done_callback(self._saying.discard)

    async def _said(self, payload: bytes) -> None:
        try:
            await self._board.say(payload)
        except BrokerError as error:
            logger.debug("a question stays without this node's answer: %s", error)


async def announce_deleted(broker: Broker, topic: Topic, gone: str) -> None:
    """Have all nodes delete a topic again, should its server ever come back with it.

    Args:
        broker: The store.
        topic: The topic.
        gone: What the deletion was answered with.

    Raises:
        BrokerUnavailableError: The broker is away; nothing is known about the outcome.

    """
    await _post(broker, "deleted", topic=topic, gone=gone)


async def _post(broker: Broker, kind: str, **facts: Any) -> None:
    notice = {"kind": kind, "id": new_id(), "at": broker.now(), **facts}
    await broker.notices.post(msgspec.json.encode(notice))
