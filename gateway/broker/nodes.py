"""The servers that the store consists of, and which of them has a key."""

import asyncio
import logging
import random
from collections.abc import Collection
from typing import Any, Protocol

from gateway.broker.address import Address
from gateway.broker.keeper import WireKeeper
from gateway.broker.keys import SLOTS, slot_of
from gateway.broker.sentinel import asked, server_at
from gateway.broker.server import Server
from gateway.broker.wire import RedirectError, Wire
from gateway.errors import BrokerError, BrokerUnavailableError

__all__ = ["ClusterNodes", "Lane", "Nodes", "SingleNode", "nodes_of"]

logger = logging.getLogger(__name__)

RELEARN = 0.1
"""Seconds that lie between two times of asking a cluster who has what, at least."""


class Nodes(Protocol):
    """The servers of a store."""

    server: Server
    """The one, or what stands for all of them."""

    async def of(self, key: str) -> Server:
        """Give the server that has a key, or the channel of that name."""

    def now(self, key: str) -> Server | None:
        """Give it as far as it is known without asking."""

    def at(self, place: tuple[str, int]) -> Server:
        """Give the server at a host and port."""

    def doubt(self) -> None:
        """Ask again before the next answer: a server did not do what it should."""

    def moved(self, error: RedirectError) -> None:
        """Take a server's word for it that another one has a slot."""

    def has(self, server: Server) -> bool:
        """Tell whether a server belongs to the store, as far as it is known."""

    async def aclose(self) -> None:
        """Ask nothing more."""


class SingleNode:
    """One server has everything.

    Args:
        server: It.

    """

    def __init__(self, server: Server) -> None:
        self.server = server

    async def of(self, key: str) -> Server:
        """Give the one."""
        return self.server

    def now(self, key: str) -> Server | None:
        """Give the one."""
        return self.server

    def at(self, place: tuple[str, int]) -> Server:
        """Give the one."""
        return self.server

    def doubt(self) -> None:
        """Nothing to do: there is no other."""

    def moved(self, error: RedirectError) -> None:
        """Nothing to do: it sends nobody away."""

    def has(self, server: Server) -> bool:
        """Tell that the one belongs to it."""
        return True

    async def aclose(self) -> None:
        """Nothing to do: it asks nothing."""


class ClusterNodes:
    """The masters of a Redis Cluster, each with its slots.

    What the servers say when they are asked is the truth, for them; where it turns out wrong they are asked again.

    Args:
        address: With some of the nodes.
        timeout: Seconds that a connection may take, and a call.

    """

    def __init__(self, address: Address, *, timeout: float) -> None:
        self.server = Server(address.at(*address.places[0]), timeout=timeout, name=address.name)
        self._address = address
        self._timeout = timeout
        self._owners: list[Server | None] = [None] * SLOTS
        self._masters: dict[Server, None] = {}
        self._servers: dict[tuple[str, int], Server] = {}
        self._known: list[tuple[str, int]] = []
        """Places of masters and replicas, as last heard."""
        self._sure = False
        """Whether there is no doubt."""
        self._learned = -RELEARN
        """Loop time of the last answer."""
        self._learning: asyncio.Task[None] | None = None

    async def of(self, key: str) -> Server:
        """Give the master that has a key.

        Raises:
            BrokerUnavailableError: None of the nodes answers, or none has its slot.
            BrokerError: It is no cluster, or does not let us in.

        """
        if not self._sure:
            await self.learn()
        server = self.now(key)
        if server is None:
            self._sure = False
            raise BrokerUnavailableError(f"the cluster {self.server.name} has no server for slot {slot_of(key)}")
        return server

    def now(self, key: str) -> Server | None:
        """Give the master that has a key as far as it is known."""
        return self._owners[slot_of(key)]

    def at(self, place: tuple[str, int]) -> Server:
        """Give the server at a host and port."""
        server = self._servers.get(place)
        if server is None:
            server = self._servers[place] = Server(self._address.at(*place), timeout=self._timeout, whole=self.server)
        return server

    def doubt(self) -> None:
        """Ask again before the next answer."""
        self._sure = False

    def moved(self, error: RedirectError) -> None:
        """Note a slot's new master."""
        if not error.asking:
            self._owners[error.slot] = self.at(error.place)
            self._masters[self.at(error.place)] = None
            self._sure = False

    def has(self, server: Server) -> bool:
        """Tell whether a server is one of the masters."""
        return not self.masters or server in self.masters

    @property
    def masters(self) -> Collection[Server]:
        """The masters that have slots, as far as they are known."""
        return self._masters

    async def learn(self) -> None:
        """Ask who has what; all who want to know at once share the answer.

        Raises:
            BrokerUnavailableError: None of the nodes answers.
            BrokerError: It is no cluster, or does not let us in.

        """
        if self._learning is None:
            self._learning = asyncio.create_task(self._learn())
            self._learning.add_done_callback(self._over)
        learning = self._learning
        try:
            await asyncio.shield(learning)
        except asyncio.CancelledError:
            if learning.cancelled():
                raise BrokerUnavailableError(f"the broker on the cluster {self.server.name} is closed") from None
            raise

    async def aclose(self) -> None:
        """Ask nothing more."""
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.wait([self._learning])

    def _over(self, learning: asyncio.Task[None]) -> None:
        self._learning = None
        if not learning.cancelled():
            learning.exception()  # looked at, as those who wanted to know may be gone

    async def _learn(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._learned + RELEARN - loop.time()))
        # One that is cut off from the others has an old view: it must not be asked every time.
        places = random.sample(self._known, len(self._known))
        places += [place for place in self._address.places if place not in places]
        why: BrokerError | None = None
        for place in places:
            # Not the one that is used: this connection's end says nothing about those.
            asking = Server(self._address.at(*place), timeout=min(self._timeout, 1.0), whole=self.server)
            try:
                self._take(await asked(asking, "CLUSTER", "SLOTS"), place)
            except BrokerUnavailableError as error:
                logger.debug("%s", error)
                why = why or error
                continue
            except BrokerError as error:
                if "cluster support disabled" not in str(error):
                    raise
                raise BrokerError(f"Redis at {asking.name} is no cluster: give its address as redis://") from error
            self._learned, self._sure = loop.time(), True
            return
        self._learned = loop.time()
        raise BrokerUnavailableError(str(why), told=True) from why

    def _take(self, answer: Any, place: tuple[str, int]) -> None:
        if not answer:
            raise BrokerUnavailableError(f"the cluster {self.server.name} has no slots yet")
        owners: list[Server | None] = [None] * SLOTS
        known: dict[tuple[str, int], None] = {}
        for first, last, *nodes in answer:
            # Without a name of its own a node says "", nothing or ?: it is to be found where it was asked.
            places = [(place[0] if not host or host == b"?" else host.decode(), int(port)) for host, port, *_ in nodes]
            known |= dict.fromkeys(places)
            owners[first : last + 1] = [self.at(places[0])] * (last + 1 - first)
        self._owners, self._known = owners, list(known)
        self._masters = dict.fromkeys(server for server in owners if server is not None)
        kept = {server.place for server in self._masters}
        self._servers = {place: server for place, server in self._servers.items() if place in kept or server.wires}


class Lane:
    """Keeps one wire to each server of the store, for calls of one kind.

    Args:
        nodes: The servers.

    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._keepers: dict[Server, WireKeeper] = {}
        self._closed = False

    async def wire(self, key: str) -> Wire:
        """Give a wire to the server that has a key.

        Raises:
            BrokerUnavailableError: There is none to be had now, or the lane is closed.
            BrokerError: The server does not let us in.

        """
        self._check()
        return await self.to(await self._nodes.of(key))

    async def to(self, server: Server) -> Wire:
        """Give a wire to a server.

        Raises:
            BrokerUnavailableError: There is none to be had now, or the lane is closed.
            BrokerError: The server does not let us in.

        """
        self._check()
        keeper = self._keepers.get(server)
        if keeper is None:
            for old in [old for old in self._keepers if not self._nodes.has(old)]:
                self._keepers.pop(old).retire()
            keeper = self._keepers[server] = WireKeeper(server)
        try:
            return await keeper.wire()
        except BrokerUnavailableError:
            self._nodes.doubt()
            raise

    async def aclose(self) -> None:
        """End the wires; later calls fail."""
        self._closed = True
        for keeper in self._keepers.values():
            await keeper.aclose()

    def _check(self) -> None:
        if self._closed:
            raise BrokerUnavailableError(f"the broker on Redis at {self._nodes.server.name} is closed")


def nodes_of(url: str, *, timeout: float) -> SingleNode | ClusterNodes:
    """Make the servers of a store.

    Raises:
        ValueError: The URL has another form.

    """
    address = Address.of(url)
    if address.kind == "cluster":
        return ClusterNodes(address, timeout=timeout)
    return SingleNode(server_at(url, timeout=timeout))
