"""One HTTP response that reads a topic for as long as its client likes."""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from gateway.errors import BrokerUnavailableError, DisconnectCode, UnsubscribeCode
from gateway.grants import Identity
from gateway.hub import Hub
from gateway.presence import Attendee
from gateway.streaming.forms import Form
from gateway.streaming.outlet import Outlet
from gateway.streaming.pushes import read_publication, whole_snapshot
from gateway.subscriber import Subscriber
from gateway.types import Position, Topic, new_id
from gateway.view import View
from gateway.wheel import Wheel

__all__ = ["Joined", "StreamReader"]

logger = logging.getLogger(__name__)

RETRY = 0.25
"""Seconds until a reader that needs the store is brought up again while the broker is away."""


Joined: TypeAlias = tuple[Subscriber, dict[str, Any]]
"""A place in a topic, and the reply that a websocket would get."""


class StreamReader:
    """A cursor in the hub whose road out is a response: the reader of one topic, watched by the wheel."""

    def __init__(
        self,
        hub: Hub,
        wheel: Wheel,
        form: Form,
        *,
        topic: Topic,
        identity: Identity,
        mirror: bool = False,
        view: View | None = None,
    ) -> None:
        """Make a reader that has not begun.

        Args:
            hub: Where its topic is.
            wheel: Its timer.
            form: How it is written to.
            topic: What it reads.
            identity: Who it is.
            mirror: It takes snapshots, and is sent one where its position cannot be continued or it has none.
            view: The rules by which it sees the topic; None shows it everything.

        """
        self.client: str = new_id()
        self.user: str = identity.user
        self.connected: bool = True  # the wheel waits for no connect command
        self.heard_at: float = 0.0  # and, as nothing is pinged, for no pong
        self.pinged_at: float = 0.0
        self._hub = hub
        self._wheel = wheel
        self._form = form
        self._topic = topic
        self.identity: Identity = identity
        self.issued_at: float | None = identity.issued_at
        self._mirror = mirror
        self._view = view
        self._outlet: Outlet | None = None
        self._subscriber: Subscriber | None = None
        self._epoch: str = ""
        self.pending: list[bytes] | None = None  # one stream, one topic
        self._lost: Position | None = None  # where it stood when the gateway ended its subscription
        self._behind: bool = False
        self._working: asyncio.Task[None] | None = None
        self._paused: bool = False
        self._told: bool = True  # what the client believes of the broker
        self._draining: asyncio.TimerHandle | None = None
        self._closed: bool = False

    # Its life

    async def join(self, asked: Position | None) -> Joined:
        """Prepare its place; `begin` in the step in which this returns.

        Raises:
            BrokerUnavailableError: The broker cannot be asked.

        """
        return await self._hub.join(self, self._topic, asked=asked, mirror=self._mirror, view=self._view)

    def begin(self, outlet: Outlet, joined: Joined, *, known: str) -> None:
        """Write what `join` brought, and be live from here on.

        Args:
            outlet: The road out.
            joined: What `join` gave.
            known: The position that the client named, as text; "" for none.

        """
        self._outlet = outlet
        self._wheel.add(self)
        self._hub.readers[self] = None
        self._hub.presence.enter(self._topic, Attendee(client=self.client, user=self.user))
        self._enter(outlet, joined, known=known)
        self.tell()

    def _enter(self, outlet: Outlet, joined: Joined, *, known: str) -> None:
        subscriber, reply = joined
        form, position = self._form, Position(epoch=reply["epoch"], offset=reply["offset"])
        self._subscriber, self._epoch = subscriber, position.epoch
        form.top = subscriber.topic.ring.end
        snapshot = reply.get("data", {}).get("snapshot")
        events = [read_publication(bytes(publication)) for publication in reply.get("publications", ())]
        if isinstance(snapshot, msgspec.Raw):
            piece = whole_snapshot(bytes(snapshot), epoch=position.epoch, offset=position.offset)
            outlet.write(form.items([piece], epoch=position.epoch))
        elif snapshot is None and known and not reply.get("recovered"):
            gap = {"asked": known, "epoch": position.epoch, "offset": position.offset}
            outlet.write(form.word("gap", gap, position))
        elif snapshot is None and not known:
            # Who is cut off before the first event goes on from what the stream began with.
            before = events[0].first - 1 if events else position.offset
            outlet.write(form.opening(Position(epoch=position.epoch, offset=before)))
        elif snapshot is None and not events:
            # Proxies hold the head of a response back until there is something of its body (nginx over HTTP/2 does).
            outlet.write(form.alive())
        outlet.write(form.items(events, epoch=position.epoch))
        self._hub.enter(subscriber)
        if form.ended:
            outlet.end()
            self._let_go()
            return
        if self._paused and subscriber.live:
            subscriber.topic.fall_behind(subscriber)

    async def aclose(self) -> None:
        """Let go, and wait until nothing of it runs."""
        self._let_go()
        if self._working is not None:
            await asyncio.wait([self._working])

    def _let_go(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._draining is not None:
            self._draining.cancel()
        if self._working is not None:
            self._working.cancel()
        if self._outlet is not None:
            self._wheel.remove(self)
            self._hub.readers.pop(self, None)
            self._hub.presence.leave(self._topic, self.client)
        if self._subscriber is not None:
            self._hub.leave(self._subscriber)

    # What the outlet and the server tell

    def paused(self) -> None:
        """Keep only the cursor: the socket takes no more."""
        self._paused = True
        self._wheel.stuck(self)
        if self._subscriber is not None and self._subscriber.live:
            self._subscriber.topic.fall_behind(self._subscriber)

    def resumed(self) -> None:
        """Bring up what fell behind."""
        self._paused = False
        if not self._closed:
            self._wheel.freed(self)
            self.tell()
            self._work()

    def shutting_down(self) -> None:
        """End at a moment of the drain: not all clients come back at once."""
        if not self._closed and self._draining is None:
            delay = random.uniform(0, self._hub.settings.drain)
            loop = asyncio.get_running_loop()
            self._draining = loop.call_later(delay, self.close, DisconnectCode.SHUTDOWN, "shutdown")

    # What the wheel asks (Timed)

    @property
    def buffered(self) -> int:
        """Bytes that the socket has not taken."""
        return 0 if self._outlet is None else self._outlet.buffered

    def ping(self, now: float) -> None:
        """Show that the stream is alive, unless the socket takes nothing."""
        if not self._paused and not self._form.midway and self._outlet is not None:
            self._outlet.write(self._form.alive())

    # What the admission tells (Expiring)

    def expired(self, topic: Topic | None) -> None:
        """End the stream: no fresh token can be brought to it."""
        self.close(DisconnectCode.EXPIRED, "expired")

    def close(self, code: int, reason: str) -> None:
        """End the stream, saying why where that can be said; the client comes back with its position."""
        outlet = self._outlet
        if self._closed or outlet is None:
            return
        if self._paused:
            outlet.cut()
        else:
            if not self._form.midway:
                outlet.write(self._form.word("close", {"code": int(code), "reason": reason}))
            outlet.end()
        self._let_go()

    # What the hub does (Reader)

    def write(self, frames: bytes) -> None:
        """Write finished websocket frames in the reader's own form."""
        if self._outlet is None or self._subscriber is None:
            return
        self._form.top = self._subscriber.topic.ring.end
        self._outlet.write(self._form.frames(frames, epoch=self._subscriber.topic.epoch))
        if self._form.broken:
            self._outlet.cut()
            self._let_go()
        elif self._form.ended:
            self._outlet.end()
            self._let_go()

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Write frames one after the other."""
        for each in frames:
            self.write(each)

    def push(self, line: bytes) -> None:
        """Leave out what tells a websocket to subscribe again: the reader does that itself."""

    def fell_behind(self, subscriber: Subscriber) -> None:
        """Bring the reader up as soon as the socket takes more."""
        self._behind = True
        self._work()

    def caught_up(self, subscriber: Subscriber) -> None:
        """Note that the reader is at the head again, unless the piece that brought it there was too much."""
        self._behind = False
        if self._paused:
            subscriber.topic.fall_behind(subscriber)
        else:
            self.tell()

    def dropped(self, subscriber: Subscriber) -> None:
        """Ask again from where the reader stood: what follows goes on from there, or tells of the gap."""
        self._lost = Position(epoch=self._epoch, offset=subscriber.cursor)
        self._subscriber = None
        self._behind = False
        self._work()

    def unsubscribed(self, subscriber: Subscriber, line: bytes) -> None:
        """End the stream: it is nothing but this subscription."""
        self.close(UnsubscribeCode.SERVER, "server unsubscribe")

    def tell(self) -> None:
        """Say whether the broker is away, where the client believes otherwise."""
        sure = self._hub.sure
        if (
            self._outlet is None
            or sure == self._told
            or self._paused
            or self._form.midway
            or (sure and (self._behind or self._lost))
        ):
            return
        self._told = sure
        self._outlet.write(self._form.word("broker", {"sure": sure}))

    # Catching up

    def _work(self) -> None:
        if (self._behind or self._lost) and not self._paused and not self._closed and self._working is None:
            self._working = asyncio.get_running_loop().create_task(self._catch_up())
            self._working.add_done_callback(self._worked)

    async def _catch_up(self) -> None:
        while (self._behind or self._lost) and not self._paused:
            try:
                if self._lost is not None:
                    await self._join_again(self._lost)
                elif self._subscriber is not None:
                    await self._hub.advance(self._subscriber)
            except BrokerUnavailableError:
                await asyncio.sleep(RETRY)
            await asyncio.sleep(0)

    async def _join_again(self, lost: Position) -> None:
        joined = await self.join(lost)
        if self._outlet is not None and not self._closed:
            self._lost = None
            self._enter(self._outlet, joined, known=str(lost))
            self.tell()

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._working = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error("bringing a reader up failed", exc_info=error)
            self.close(DisconnectCode.SERVER_ERROR, "internal server error")
        else:
            self._work()  # it may have been resumed while the task ended
