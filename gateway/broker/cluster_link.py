"""The pub/sub reader of a cluster: one link to each server that has channels to hear."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from gateway.broker.link import PING_AFTER, RedisLink
from gateway.broker.nodes import ClusterNodes
from gateway.broker.port import Listener
from gateway.broker.server import Server
from gateway.errors import BrokerError, BrokerUnavailableError

__all__ = ["ClusterLink"]

logger = logging.getLogger(__name__)

RELEARN = 5.0
"""Seconds after which the cluster is asked who has what, though nothing seems to be wrong: a master that became a
replica says nothing of it."""

RETRY = 0.25
"""Seconds between two times of asking while a channel is not heard."""

GRACE = 1.0
"""Seconds in which a channel that has moved must be heard at its new place; then everybody is told that it is not."""


class ClusterLink:
    """Hears channels wherever their slots are; implements `gateway.broker.port.Link`.

    A server's loss is told to the listener as the loss of the whole link is, and its end by `Listener.restored`. A slot
    that moves is told by `Listener.missed` alone, once its channels are heard from their new server.

    Args:
        nodes: The servers.
        listener: Who hears it.
        ping_after: Seconds of silence after which a server is asked whether it is there.

    """

    def __init__(self, nodes: ClusterNodes, listener: Listener, *, ping_after: float = PING_AFTER) -> None:
        self._nodes = nodes
        self._listener = listener
        self._ping_after = ping_after
        self._wanted: dict[str, asyncio.Future[None]] = {}
        """Channels to hear; the future is done once one is heard for the first time."""
        self._places: dict[str, _Node] = {}
        """Where each of them is subscribed, or will be as soon as that server answers."""
        self._links: dict[Server, _Node] = {}
        self._unsure: dict[str, float] = {}
        """Channels that were heard and are not, since when; loop time."""
        self._healed: list[str] = []
        """Channels heard again, of which the listener is to be told."""
        self._missing = False
        """The listener was told of a loss."""
        self._closed = False
        self._news = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._keep())

    @property
    def up(self) -> bool:
        """Whether a server is heard, or all of them that have channels to hear."""
        return any(node.link.up for node in self._links.values())

    @property
    def connects(self) -> int:
        """How often a connection was made that heard everything it was for, to those servers that are heard now."""
        return sum(node.link.connects for node in self._links.values())

    async def subscribe(self, channel: str) -> None:
        """Hear a channel; returns once its server has said so. While that is away it waits.

        Raises:
            BrokerUnavailableError: The link is closed.

        """
        if self._closed:
            raise BrokerUnavailableError("the link is closed")
        heard = self._wanted.get(channel)
        if heard is None:
            heard = self._wanted[channel] = asyncio.get_running_loop().create_future()
            self._place(channel)
        # Shielded: another caller may wait for the same.
        await asyncio.shield(heard)

    async def unsubscribe(self, channel: str) -> None:
        """Stop hearing a channel: nothing of it is delivered after the call; whoever waits for it is let go."""
        heard = self._wanted.pop(channel, None)
        if heard is None:
            return
        if not heard.done():
            heard.set_result(None)
        self._leave(channel)
        self._unsure.pop(channel, None)
        self._settle()

    async def aclose(self) -> None:
        """End the link; nothing is called after it returns."""
        self._closed = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        for node in self._links.values():
            await node.link.aclose()
        if self._closing:
            await asyncio.wait(self._closing)
        self._nodes.server.outage.forget(self)
        for heard in self._wanted.values():
            if not heard.done():
                heard.set_exception(BrokerUnavailableError("the link is closed"))
                heard.exception()  # looked at, as there may be nobody who waits
        self._wanted.clear()

    # What the links of the servers tell

    def acknowledged(self, node: "_Node", channel: str) -> None:
        """Note that a channel is heard at a server."""
        heard = self._wanted.get(channel)
        if heard is None or self._places.get(channel) is not node:
            return
        if not heard.done():
            heard.set_result(None)
        if self._unsure.pop(channel, None) is not None:
            if not self._healed:
                asyncio.get_running_loop().call_soon(self._heal)
            self._healed.append(channel)
        self._settle()

    def displaced(self, node: "_Node", channel: str) -> None:
        """Note that a server does not serve a channel any more."""
        if self._places.get(channel) is node:
            del self._places[channel]
            self._doubt(channel)
            self._wake()

    def lost(self, node: "_Node") -> None:
        """Note that a server is heard no more."""
        channels = [channel for channel, place in self._places.items() if place is node]
        for channel in channels:
            self._doubt(channel)
        if any(channel in self._unsure for channel in channels) or not self.up:
            self._tell_loss()
        self._wake()

    def received(self, channel: str, payload: bytes) -> None:
        """Hand a publication on."""
        if not self._closed:
            self._listener.received(channel, payload)

    def drained(self) -> None:
        """Hand on that there is no more for now."""
        if not self._closed:
            self._listener.drained()

    # Inside

    def _doubt(self, channel: str) -> None:
        heard = self._wanted.get(channel)
        if heard is not None and heard.done():
            self._unsure.setdefault(channel, asyncio.get_running_loop().time())

    def _wake(self) -> None:
        self._nodes.doubt()
        self._news.set()

    def _tell_loss(self) -> None:
        if not self._missing and not self._closed:
            self._missing = True
            self._listener.lost()

    def _settle(self) -> None:
        if self._missing and not self._unsure and self.up and not self._closed:
            self._missing = False
            self._healed.clear()
            self._listener.restored()

    def _heal(self) -> None:
        healed = [channel for channel in self._healed if channel in self._wanted]
        self._healed.clear()
        if healed and not self._missing and not self._closed:
            self._listener.missed(healed)

    def _place(self, channel: str) -> None:
        """Subscribe a channel where it belongs, as far as that is known."""
        server = self._nodes.now(channel)
        if server is None:
            self._news.set()
            return
        place = self._places.get(channel)
        if place is not None and place.server is server:
            return
        if place is not None:
            self._leave(channel)
            self._doubt(channel)
        node = self._node(server)
        self._places[channel] = node
        node.link.add(channel)

    def _leave(self, channel: str) -> None:
        place = self._places.pop(channel, None)
        if place is not None:
            place.link.drop(channel)

    def _node(self, server: Server) -> "_Node":
        node = self._links.get(server)
        if node is None:
            node = self._links[server] = _Node(server, self, ping_after=self._ping_after)
        return node

    async def _keep(self) -> None:
        """Know who has what, and follow it, for as long as the link lives."""
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            try:
                await self._nodes.learn()
            except BrokerUnavailableError as error:
                self._nodes.server.outage.away(self, str(error))
                if not self.up:
                    self._tell_loss()
            except BrokerError:
                logger.exception("hearing nothing")
                self._tell_loss()
            else:
                self._nodes.server.outage.back(self)
                self._follow()
            if any(since < loop.time() - GRACE for since in self._unsure.values()):
                self._tell_loss()
            waiting = self._unsure or self._missing or len(self._places) < len(self._wanted)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY if waiting else RELEARN):
                    await self._news.wait()

    def _follow(self) -> None:
        """Have every channel subscribed at its server, a link to all servers, and none to others."""
        for channel in self._wanted:
            self._place(channel)
        for server in self._nodes.masters:
            self._node(server)
        for server in [server for server in self._links if not self._nodes.has(server)]:
            node = self._links.pop(server)
            node.gone = True
            task = asyncio.create_task(node.link.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._settle()


class _Node:
    """The link to one server; what it hears is the whole link's."""

    def __init__(self, server: Server, whole: ClusterLink, *, ping_after: float) -> None:
        self.server = server
        self.gone = False
        """The server is none of the cluster's masters any more."""
        self._whole = whole
        self.link = RedisLink(server, self, chart=self, ping_after=ping_after)

    def received(self, channel: str, payload: bytes) -> None:
        """Hand a publication on."""
        self._whole.received(channel, payload)

    def drained(self) -> None:
        """Hand on that there is no more for now."""
        self._whole.drained()

    def lost(self) -> None:
        """Tell that the server is heard no more."""
        if not self.gone:
            self._whole.lost(self)

    def restored(self) -> None:
        """Nothing to do: each channel is acknowledged by itself."""

    def missed(self, channels: Sequence[str]) -> None:
        """Nothing to do: one server moves nothing."""

    def acknowledged(self, channel: str) -> None:
        """Tell that a channel is heard here."""
        self._whole.acknowledged(self, channel)

    def displaced(self, channel: str) -> None:
        """Tell that a channel is served here no more."""
        self._whole.displaced(self, channel)
