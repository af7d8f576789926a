"""The pub/sub reader: one connection that hears channels and says when it cannot."""

import asyncio
import contextlib
import logging
import random
import re
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol, cast

import hiredis

from gateway.broker.port import Listener
from gateway.broker.sentinel import server_at
from gateway.broker.server import Server, packed
from gateway.broker.wire import explained, is_sharded
from gateway.errors import BrokerUnavailableError

__all__ = ["Chart", "RedisLink"]

logger = logging.getLogger(__name__)

PING_AFTER = 3.0
"""Seconds of silence after which the server is asked; when it stays silent for the timeout, the link is lost."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between two attempts to connect, doubled from the first to the longest, each drawn from its upper half."""
SLICE = 16 * 1024
"""Bytes that are parsed at a time."""

CHANNELS_PER_COMMAND = 500

_SUBSCRIBED = (b"subscribe", b"ssubscribe")
_ELSEWHERE = re.compile("MOVED|ASK|TRYAGAIN|CLUSTERDOWN")
"""What a server of a cluster says of a channel whose slot it does not serve now."""


class Chart(Protocol):
    """Who knows where the channels of a cluster are; called in the loop, must not block or raise."""

    def acknowledged(self, channel: str) -> None:
        """Note that a channel is heard now."""

    def displaced(self, channel: str) -> None:
        """Find a channel's new place: the server does not serve it, or does so no more."""


class RedisLink:
    """One pub/sub connection that keeps itself alive; implements `gateway.broker.port.Link`.

    Starts connecting when made, in the running loop. `Listener.lost` and `Listener.restored` alternate, `lost` being
    the first: it is also called when the first attempt to connect fails.

    Args:
        at: The URL of one server, or of one behind sentinels; or the server.
        listener: Who hears it.
        chart: Where the server is one of a cluster: who knows which server has which channel.
        timeout: Seconds the server may take to connect and to acknowledge.
        ping_after: Seconds of silence after which the server is asked whether it is there.

    Raises:
        ValueError: The URL has another form.

    """

    def __init__(
        self,
        at: str | Server,
        listener: Listener,
        *,
        chart: Chart | None = None,
        timeout: float = 5.0,
        ping_after: float = PING_AFTER,
    ) -> None:
        self._server = at if isinstance(at, Server) else server_at(at, timeout=timeout)
        self._listener = listener
        self._chart = chart
        self._ping_after = ping_after
        self._wanted: dict[str, asyncio.Future[None]] = {}
        """Channels to hear; the future is done once the server has said so for the first time."""
        self._ear: _Ear | None = None
        """The connection, as soon as it takes commands."""
        self._up = False
        self.connects = 0
        """How often a connection was made that heard everything."""
        self._closed = False
        self._task = asyncio.create_task(self._keep())

    @property
    def up(self) -> bool:
        """Whether every channel whose `subscribe` has returned is heard right now."""
        return self._up

    async def subscribe(self, channel: str) -> None:
        """Hear a channel; returns once the server has said so. While the server is away it waits.

        Raises:
            BrokerUnavailableError: The link is closed.

        """
        if self._closed:
            raise BrokerUnavailableError("the link is closed")
        # Shielded: another caller may wait for the same.
        await asyncio.shield(self.add(channel))

    def add(self, channel: str) -> asyncio.Future[None]:
        """Want a channel; the future is done once the server has said that it is heard."""
        acknowledged = self._wanted.get(channel)
        if acknowledged is None:
            acknowledged = self._wanted[channel] = asyncio.get_running_loop().create_future()
            if self._ear is not None:
                self._ear.subscribe([channel])
        return acknowledged

    async def unsubscribe(self, channel: str) -> None:
        """Stop hearing a channel: nothing of it is delivered after the call; whoever waits for it is let go."""
        self.drop(channel)

    def drop(self, channel: str) -> None:
        """Want a channel no more."""
        acknowledged = self._wanted.pop(channel, None)
        if acknowledged is None:
            return
        if not acknowledged.done():
            acknowledged.set_result(None)
        if self._ear is not None:
            self._ear.unsubscribe(channel)

    async def aclose(self) -> None:
        """End the link; nothing is called after it returns."""
        self._closed = True
        if self._ear is not None:
            self._ear.deaf = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._server.outage.forget(self)
        for acknowledged in self._wanted.values():
            if not acknowledged.done():
                acknowledged.set_exception(BrokerUnavailableError("the link is closed"))
                acknowledged.exception()  # looked at, as there may be nobody who waits
        self._wanted.clear()

    async def _keep(self) -> None:
        """Connect, hear until the connection ends, and again, for as long as the link lives."""
        pause = FIRST_PAUSE
        missing = False
        while True:
            try:
                async with self._connected() as (ear, place):
                    self._up = True
                    pause = FIRST_PAUSE
                    self._server.outage.back(self)
                    if missing:
                        missing = False
                        self._listener.restored()
                    for channel in self._wanted:
                        if ear.hears(channel):
                            self._acknowledged(channel)
                    await ear.watch(ping_after=self._ping_after, place=place)
            except BrokerUnavailableError as error:
                self._server.outage.away(self, str(error))
            except Exception:
                logger.exception("hearing nothing: a listener failed, or the link")
            if not missing:
                missing = True
                self._listener.lost()
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LONGEST_PAUSE)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple["_Ear", tuple[str, int]]]:
        """Connect and subscribe everything that is wanted."""
        ear = await self._server.open(
            lambda: _Ear(self._server, self._listener, acknowledged=self._acknowledged, displaced=self._displaced)
        )
        place = self._server.place
        try:
            await ear.enter()
            self._ear = ear
            ear.subscribe(self._wanted)
            await ear.settle()
            self.connects += 1
            yield ear, place
        finally:
            ear.close()
            self._up, self._ear = False, None
            loop = asyncio.get_running_loop()
            for channel, acknowledged in self._wanted.items():
                if acknowledged.done():
                    self._wanted[channel] = loop.create_future()

    def _acknowledged(self, channel: str) -> None:
        # Of a new connection nothing counts before it hears everything: then the link is up.
        acknowledged = self._wanted.get(channel) if self._up else None
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(None)
            if self._chart is not None:
                self._chart.acknowledged(channel)

    def _displaced(self, channel: str) -> None:
        if channel in self._wanted:
            self.drop(channel)
            if self._chart is not None:
                self._chart.displaced(channel)


class _Ear(asyncio.Protocol):
    """One connection that hears (RESP2: once subscribed it takes SUBSCRIBE, UNSUBSCRIBE and PING, or their like)."""

    def __init__(
        self,
        server: Server,
        listener: Listener,
        *,
        acknowledged: Callable[[str], None],
        displaced: Callable[[str], None],
    ) -> None:
        self.deaf = False
        """Set to call the listener no more."""
        self._server = server
        self._listener = listener
        self._acknowledged = acknowledged
        self._displaced = displaced
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader()
        self._names: dict[bytes, str] = {}
        """What is heard; anything else that still comes is dropped."""
        self._asked: dict[bytes, int] = {}
        """SUBSCRIBEs that are not acknowledged; with an UNSUBSCRIBE between two of them, only the last one counts."""
        self._prefix = ""
        """``S`` where channels are subscribed by slot: one at a time, as several may lie in different ones."""
        self._message = b"message"
        self._due: deque[tuple[bytes, bytes]] = deque()
        """With a prefix: what was asked and is not answered, and of which channel."""
        self._facts: dict[str, str] = {}
        """What the server said about itself."""
        self._entered: asyncio.Future[Any] | None = None
        self._settled = self._loop.create_future()
        self._over: asyncio.Future[str] = self._loop.create_future()
        """Why it is over."""
        self._batches = 0
        """How often something came."""
        self._drain_due = False

    async def enter(self) -> None:
        """Ask who is there, where that may be another than who was meant.

        Raises:
            BrokerUnavailableError: It is no master, or does not answer in time.

        """
        if not self._server.checked:
            return
        self._entered = self._loop.create_future()
        self._write(packed("INFO", "server") + packed("INFO", "replication"))
        await asyncio.wait([self._entered, self._over], timeout=self._server.timeout, return_when=FIRST_COMPLETED)
        if self._over.done() or not self._entered.done():
            raise BrokerUnavailableError(
                f"Redis at {self._server.name}: {self._reason('no answer in time')}", told=True
            )
        if self._facts.get("role") != "master":
            raise BrokerUnavailableError(f"Redis at {self._server.name} is a replica, not a master", told=True)
        if self._server.cluster and is_sharded(self._facts):
            self._prefix, self._message = "S", b"smessage"

    def subscribe(self, channels: Iterable[str]) -> None:
        """Ask for channels; each is acknowledged by itself."""
        names = list(channels)
        commands = []
        at_once = 1 if self._prefix else CHANNELS_PER_COMMAND
        for start in range(0, len(names), at_once):
            part = names[start : start + at_once]
            commands.append(packed(f"{self._prefix}SUBSCRIBE", *part))
            if self._prefix:
                self._due.append((b"ssubscribe", part[0].encode()))
            for name in part:
                encoded = name.encode()
                self._names[encoded] = name
                self._asked[encoded] = self._asked.get(encoded, 0) + 1
        self._write(b"".join(commands))

    def unsubscribe(self, channel: str) -> None:
        """Take a channel back."""
        encoded = channel.encode()
        self._names.pop(encoded, None)
        if self._prefix:
            self._due.append((b"sunsubscribe", encoded))
        self._write(packed(f"{self._prefix}UNSUBSCRIBE", channel))

    def hears(self, channel: str) -> bool:
        """Whether a channel was asked for and every asking is acknowledged."""
        encoded = channel.encode()
        return encoded in self._names and encoded not in self._asked

    async def settle(self) -> None:
        """Wait until the server has acknowledged all that was asked so far, and answers.

        Raises:
            BrokerUnavailableError: The connection ended, or the server did not answer in time.

        """
        self._ping()
        await asyncio.wait([self._settled, self._over], timeout=self._server.timeout, return_when=FIRST_COMPLETED)
        # An error ends it, though the answer to the ping may have come with it.
        if self._over.done() or not self._settled.done():
            raise BrokerUnavailableError(f"Redis at {self._server.name}: {self._reason('no acknowledgement in time')}")

    async def watch(self, *, ping_after: float, place: tuple[str, int]) -> None:
        """Ask whether the server is there, and the one that is meant, whenever it is silent; for as long as it is.

        Raises:
            BrokerUnavailableError: The connection ended, or the server did not answer in time.

        """
        while True:
            heard = self._batches
            await asyncio.wait([self._over], timeout=ping_after)
            if heard == self._batches and not self._over.done():
                self._ping()
                await asyncio.wait([self._over], timeout=self._server.timeout)
                if heard == self._batches:
                    break
                if not await self._server.stands(place):
                    self._end("it is the master no more")
            if self._over.done():
                break
        raise BrokerUnavailableError(f"Redis at {self._server.name}: {self._reason('no answer in time')}")

    def close(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _reason(self, otherwise: str) -> str:
        return self._over.result() if self._over.done() else otherwise

    def _ping(self) -> None:
        if self._prefix:
            self._due.append((b"pong", b""))
        self._write(packed("PING"))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def _end(self, reason: str) -> None:
        if not self._over.done():
            self._over.set_result(reason)
        self.close()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an isinstance check: uvloop's transports are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._write(b"".join(packed(*command) for command in self._server.greeting))

    def data_received(self, data: bytes) -> None:
        self._batches += 1
        if len(data) > SLICE:
            # hiredis moves what it has not parsed with every answer: in large pieces that is what costs.
            for start in range(0, len(data), SLICE):
                self._hear(data[start : start + SLICE])
        else:
            self._hear(data)

    def _hear(self, data: bytes) -> None:
        self._reader.feed(data)
        gets, names, message, received = self._reader.gets, self._names, self._message, self._listener.received
        try:
            while (item := gets()) is not False:
                if type(item) is list and item[0] == message:
                    name = names.get(item[1])
                    if name is not None and not self.deaf:
                        received(name, item[2])
                        if not self._drain_due:
                            # Not at the end of this call: the loop may have more of them for this tick.
                            self._drain_due = True
                            self._loop.call_soon(self._drained)
                else:
                    self._told(item)
        except hiredis.ProtocolError:
            self._end("what answers there is no Redis")

    def _told(self, item: Any) -> None:
        if isinstance(item, hiredis.ReplyError):
            self._refused(str(item))
        elif type(item) is bytes and self._entered is not None and not self._entered.done():
            self._facts |= dict(line.split(":", 1) for line in item.decode().splitlines() if ":" in line)
            if "role" in self._facts:
                self._entered.set_result(None)
        elif type(item) is list and item[0] in _SUBSCRIBED:
            channel = item[1]
            if self._prefix:
                self._due.popleft()
            self._asked[channel] -= 1
            if not self._asked[channel]:
                del self._asked[channel]
                self._acknowledged(channel.decode())
        elif type(item) is list and item[0] == b"sunsubscribe":
            if self._due and self._due[0] == (b"sunsubscribe", item[1]):
                self._due.popleft()
            else:
                # Nobody asked for it: the slot has left this server, which says nothing of it from now on.
                self._lose(item[1])
        elif item == b"PONG" or (type(item) is list and item[0] == b"pong"):
            if self._prefix:
                self._due.popleft()
            if not self._settled.done():
                # Answers come in order: what was asked before the ping is acknowledged.
                self._settled.set_result(None)

    def _refused(self, text: str) -> None:
        kind, channel = self._due[0] if self._due else (b"", b"")
        if kind == b"pong" or not _ELSEWHERE.match(text):
            self._end(f"it answered: {explained(text)}")
            return
        self._due.popleft()
        if kind == b"ssubscribe":
            self._asked[channel] -= 1
            if not self._asked[channel]:
                del self._asked[channel]
            self._lose(channel)

    def _lose(self, channel: bytes) -> None:
        name = self._names.get(channel)
        if name is not None and not self.deaf:
            self._displaced(name)

    def _drained(self) -> None:
        self._drain_due = False
        if not self.deaf:
            self._listener.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("the connection has ended" if exc is None else f"the connection has ended: {exc}")
