"""One websocket: commands in, replies and pushes out."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import gateway
from gateway.actions import Actions
from gateway.admission import Admission, Credentials, lasting
from gateway.codec import encode_json
from gateway.errors import (
    BrokerUnavailableError,
    CommandError,
    DisconnectCode,
    DisconnectError,
    ErrorCode,
    UnsubscribeCode,
)
from gateway.frames import (
    METHODS,
    PING,
    Command,
    ConnectRequest,
    RefreshRequest,
    RpcRequest,
    SubscribeRequest,
    TopicRequest,
    encode_error,
    encode_push,
    encode_reply,
    text_frame,
)
from gateway.grants import Identity
from gateway.hub import Hub
from gateway.lens import read_lens
from gateway.limits import Allowance
from gateway.presence import Attendee
from gateway.requests import Requests
from gateway.session import MESSAGE_TOO_BIG, UNSUPPORTED_TEXT, Session, topic_of
from gateway.settings import Settings
from gateway.subscriber import Subscriber
from gateway.types import Position, Topic, new_id
from gateway.view import view_of
from gateway.wheel import Wheel
from gateway.writer import FrameWriter

__all__ = ["Connection"]

logger = logging.getLogger(__name__)

MAX_RUNNING = 64
"""Commands of one connection that may be under way; then the rest waits in its socket."""

RETRY = 0.25
"""Seconds until a reader that needs the store is brought up again while the broker is away."""

_CODES = frozenset(DisconnectCode) | {UNSUPPORTED_TEXT, MESSAGE_TOO_BIG}
"""Codes that are counted each by itself; backends may close with any."""

_PING_FRAME = text_frame(PING)
_AWAY = CommandError(ErrorCode.INTERNAL, "the broker is away; try again", temporary=True)


class Connection:
    """One connection: the receiver of its socket, the reader of its topics."""

    __slots__ = (
        "__weakref__",
        "_address",
        "_admission",
        "_behind",
        "_catching",
        "_closed",
        "_code",
        "_connecting",
        "_credentials",
        "_draining",
        "_hub",
        "_lanes",
        "_paused",
        "_requests",
        "_running",
        "_session",
        "_settings",
        "_subscribers",
        "_tasks",
        "_told",
        "_wheel",
        "_writable",
        "_writer",
        "client",
        "connected",
        "heard_at",
        "pending",
        "pinged_at",
        "user",
        "write",
    )

    def __init__(
        self,
        hub: Hub,
        actions: Actions,
        wheel: Wheel,
        writer: FrameWriter,
        tasks: set[asyncio.Task[None]],
        *,
        admission: Admission,
        address: str = "",
    ) -> None:
        """Make a connection that has not been accepted yet.

        Args:
            hub: Where its topics are.
            actions: What its commands can do.
            wheel: Its timer.
            writer: Its road out.
            tasks: Where its tasks are while they run; who gave it waits for them.
            admission: Who may do what.
            address: Where it comes from, counted among the connections of that address; given back at its end.

        """
        settings = hub.settings
        self.client: str = new_id()
        self.user: str = ""  # whose it is, once it is connected; "" for an anonymous one
        self.connected: bool = False  # the connect command has been answered
        self.heard_at: float = 0.0  # loop time of the last message
        self.pinged_at: float = 0.0  # loop time of the first ping not answered
        self._hub = hub
        self._wheel = wheel
        self._writer = writer
        self.write: Callable[[bytes], None] = writer.write
        self.pending: list[bytes] | None = None
        self._settings: Settings = settings
        self._session = Session(
            max_frame=settings.max_frame,
            max_topics=settings.max_topics,
            allowance=Allowance(rate=settings.command_rate, burst=settings.command_burst),
        )
        self._admission = admission
        self._address = address
        self._credentials = Credentials(admission, self)
        self._connecting: asyncio.Task[None] | None = None  # the key of its token is being fetched
        self._tasks = tasks
        self._subscribers: dict[Topic, Subscriber] = {}
        self._behind: dict[Subscriber, None] = {}
        self._catching: asyncio.Task[None] | None = None
        self._lanes: dict[str, asyncio.Task[None]] = {}  # the last command of each topic: they run in order
        self._running: dict[asyncio.Task[None], None] = {}
        self._paused: bool = False
        self._writable: asyncio.Event | None = None  # what waits for the socket to take more, waits for it
        self._told: bool = True  # what the client believes of the broker
        self._requests = Requests(hub, actions, self._credentials, client=self.client)
        self._draining: asyncio.TimerHandle | None = None
        self._code: str = "client"  # with which the gateway closed it
        self._closed: bool = False

    def start(self) -> None:
        """Take messages, and be watched."""
        self.heard_at = asyncio.get_running_loop().time()
        self._hub.measures.opened += 1
        self._wheel.add(self)
        self._writer.attach(self, max_frame=self._settings.max_frame, deflate_from=self._settings.deflate_from)
        if not self._closed:
            self.write = self._writer.direct

    # What the socket tells (Receiver)

    def received(self, data: bytes, *, text: bool) -> None:
        """Take one message."""
        self.heard_at = asyncio.get_running_loop().time()
        try:
            commands = self._session.receive(data, text=text, now=self.heard_at)
        except DisconnectError as error:
            self.close(error.code, error.reason)
            return
        for command in commands:
            self._dispatch(command)
        if len(self._running) >= MAX_RUNNING:
            self._writer.pause_reading()

    def paused(self) -> None:
        """Keep only cursors: the socket takes no more."""
        if self._closed:
            return
        self._paused = True
        self._writer.pause_reading()  # who takes no answers asks no questions
        self._wheel.stuck(self)
        for subscriber in self._subscribers.values():
            if subscriber.live:
                subscriber.topic.fall_behind(subscriber)

    def resumed(self) -> None:
        """Bring up what fell behind."""
        if self._closed:
            return
        self._paused = False
        self._wake()
        self._wheel.freed(self)
        self.heard_at = asyncio.get_running_loop().time()  # its pong may have waited in the socket
        self._take_more()
        self.tell()
        self._bring_up()

    def closed(self) -> None:
        """Let go of everything; tasks end soon."""
        if self._closed:
            return
        self._closed = True
        self._hub.measures.closes[self._code] += 1
        self._session.close()
        self._wheel.remove(self)
        self._hub.readers.pop(self, None)
        self._credentials.close()
        self._admission.limits.connections_of_address.give_back(self._address)
        for subscriber in self._subscribers.values():
            self._hub.leave(subscriber)
            self._absent(subscriber.topic.name)
        self._subscribers.clear()
        self.write = _write_nothing
        self._behind.clear()
        self._wake()
        if self._draining is not None:
            self._draining.cancel()
        for task in (*self._running, *([self._catching] if self._catching is not None else [])):
            task.cancel()

    def _count(self) -> None:
        if len(self._subscribers) < 2:
            self.pending = None
        elif self.pending is None:
            self.pending = []

    def _wake(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    async def _may_write(self) -> None:
        """Wait until the socket takes more, or is gone."""
        while self._paused and not self._closed:
            if self._writable is None:
                self._writable = asyncio.Event()
            await self._writable.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def shutting_down(self) -> None:
        """Close at a moment of the drain: not all clients come back at once."""
        if not self._closed and self._draining is None:
            delay = random.uniform(0, self._settings.drain)
            self._draining = asyncio.get_running_loop().call_later(
                delay, self.close, DisconnectCode.SHUTDOWN, "shutdown"
            )

    # What the wheel asks (Timed)

    @property
    def buffered(self) -> int:
        """Bytes that the socket has not taken."""
        return self._writer.buffered

    def ping(self, now: float) -> None:
        """Send a ping, unless the socket takes nothing."""
        if self._paused or not self.connected:
            return
        if self.pinged_at <= self.heard_at:
            self.pinged_at = now
        self._writer.write(_PING_FRAME)

    def close(self, code: int, reason: str) -> None:
        """Say good-bye with a code."""
        if not self._closed:
            self._code = str(code) if code in _CODES else "other"
        # RFC 6455, 5.5: a close frame has room for 123 bytes of reason.
        self._writer.close(code, reason.encode()[:123].decode(errors="ignore"))
        self.closed()

    # What the hub does (Reader)

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Write frames of several topics at once."""
        self._writer.write_all(frames)

    def push(self, line: bytes) -> None:
        """Write one push."""
        frame = text_frame(line)
        self._hub.measures.reply_bytes += len(frame)
        self._writer.write(frame)

    def fell_behind(self, subscriber: Subscriber) -> None:
        """Bring a subscriber up as soon as the socket takes more."""
        self._behind[subscriber] = None
        self._bring_up()

    def caught_up(self, subscriber: Subscriber) -> None:
        """Note that a subscriber is at the head again, unless the piece that brought it there filled the socket."""
        self._behind.pop(subscriber, None)
        if self._paused:
            subscriber.topic.fall_behind(subscriber)
        else:
            self.tell()

    def dropped(self, subscriber: Subscriber) -> None:
        """Note that the gateway ended a subscription."""
        self._behind.pop(subscriber, None)
        self._subscribers.pop(subscriber.topic.name, None)
        self._count()
        self._absent(subscriber.topic.name)
        self._release(subscriber.topic.name)

    def announce(self, topic: Topic, frames: bytes) -> None:
        """Tell who comes and goes, unless the socket takes nothing."""
        if topic in self._subscribers and not self._paused:
            self._writer.write(frames)

    def _absent(self, topic: Topic) -> None:
        self._hub.presence.unwatch(topic, self)
        self._hub.presence.leave(topic, self.client)

    def _release(self, topic: Topic) -> None:
        if topic in self._session.topics:
            self._session.release(topic)
            self._credentials.unsubscribe(topic)

    # What the admission tells (Expiring)

    def expired(self, topic: Topic | None) -> None:
        """End what a token allowed that has run out, and its grace too."""
        if topic is None:
            self.close(DisconnectCode.EXPIRED, "the token has expired")
        else:
            self._end(topic, UnsubscribeCode.EXPIRED, "the subscription's token has expired")

    def _end(self, topic: Topic, code: UnsubscribeCode, reason: str) -> None:
        """Unsubscribe from a topic, and say why."""
        self._leave(topic)
        self.push(encode_push("unsubscribe", {"code": int(code), "reason": reason}, channel=topic))

    def tell(self) -> None:
        """Say whether the broker is away, where the client believes otherwise (PROTOCOL.md 3.6)."""
        sure = self._hub.sure
        if sure == self._told or self._paused or not self.connected or (sure and self._behind):
            return
        self._told = sure
        self.push(encode_push("message", {"data": {"type": "broker", "sure": sure}}))

    def _bring_up(self) -> None:
        if self._behind and not self._paused and not self._closed and self._catching is None:
            self._catching = self._spawn(self._catch_up())
            self._catching.add_done_callback(self._caught)

    async def _catch_up(self) -> None:
        while self._behind and not self._paused:
            for subscriber in list(self._behind):
                if self._paused:
                    return
                if subscriber not in self._behind:
                    continue
                try:
                    await self._hub.advance(subscriber)
                except BrokerUnavailableError:
                    await asyncio.sleep(RETRY)
            await asyncio.sleep(0)

    def _caught(self, task: asyncio.Task[None]) -> None:
        self._catching = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error("bringing a reader up failed", exc_info=error)
            self.close(DisconnectCode.SERVER_ERROR, "internal server error")
        else:
            self._bring_up()  # it may have been resumed while the task ended

    # Commands

    def _dispatch(self, command: Command) -> None:
        if command.refusal is not None:
            self._counted(command, command.refusal)
            if command.id:
                self.push(encode_error(command, command.refusal))
        elif isinstance(command.request, ConnectRequest):
            self._begin(command, command.request.token)
        elif not self.connected and self._connecting is None:
            return  # it came together with a connect command that was refused
        elif command.method == "ping":
            self._counted(command)
            self.push(encode_reply(command, {}))
        elif command.method != "send":
            self._run_in_lane(command)

    def _counted(self, command: Command, refusal: CommandError | DisconnectError | None = None) -> None:
        method = command.method
        if isinstance(command.request, RpcRequest):
            method = command.request.method if self._requests.knows(command.request.method) else "unknown"
        elif method not in METHODS:
            method = "unknown"  # it names whatever the client likes
        outcome = "ok" if refusal is None else "closed"
        if isinstance(refusal, CommandError):
            outcome = str(int(refusal.code))
        self._hub.measures.commands[method, outcome] += 1

    def _take_more(self) -> None:
        if not self._paused and not self._closed and len(self._running) < MAX_RUNNING // 2:
            self._writer.resume_reading()

    def _begin(self, command: Command, token: str | None) -> None:
        if self._admission.authority.knows(token):
            self._connect(command, token)
        else:
            self._connecting = self._spawn(self._connect_later(command, token))

    async def _connect_later(self, command: Command, token: str | None) -> None:
        try:
            await self._admission.authority.ready(token)
        except CommandError as error:
            self._session.refused()
            self._counted(command, error)
            self.push(encode_error(command, error))
        else:
            if not self._closed:
                self._connect(command, token)
        finally:
            self._connecting = None

    def _connect(self, command: Command, token: str | None) -> None:
        try:
            self._credentials.connect(token)
        except CommandError as error:
            self._session.refused()
            self._counted(command, error)
            self.push(encode_error(command, error))
            return
        except DisconnectError as error:
            self._counted(command, error)
            self.close(error.code, error.reason)
            return
        self._counted(command)
        identity = self._credentials.identity
        self.user = identity.user
        self.connected = True
        self._hub.readers[self] = None
        reply = {
            "client": self.client,
            "version": gateway.__version__,
            "ping": max(1, round(self._settings.ping_interval)),
            "pong": True,
            **lasting(identity),
            "data": {"grants": sorted({verb for grant in identity.grants for verb in grant.verbs})},
        }
        self.push(encode_reply(command, reply))
        self.tell()

    def _run_in_lane(self, command: Command) -> None:
        request = command.request
        lane = getattr(request, "channel", None) or ""
        task = self._spawn(self._run(command, self._lanes.get(lane)))
        self._lanes[lane] = task
        self._running[task] = None

        def ended(done: asyncio.Task[None]) -> None:
            self._running.pop(done, None)
            if self._lanes.get(lane) is done:
                del self._lanes[lane]
            self._take_more()

        task.add_done_callback(ended)

    async def _run(self, command: Command, before: asyncio.Task[None] | None) -> None:
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
            if not self.connected:
                return
        if before is not None and not before.done():
            await asyncio.wait([before])
        await self._may_write()
        try:
            try:
                async with asyncio.timeout(self._settings.command_timeout):
                    await self._answer(command)
            except (BrokerUnavailableError, TimeoutError) as error:
                raise _AWAY from error
        except CommandError as error:
            self._counted(command, error)
            self.push(encode_error(command, error))
        except DisconnectError as error:
            self._counted(command, error)
            self.close(error.code, error.reason)
        except Exception:
            logger.exception("command %s failed", command.method)
            failed = CommandError(ErrorCode.INTERNAL, "internal server error")
            self._counted(command, failed)
            self.push(encode_error(command, failed))
        else:
            self._counted(command)

    async def _answer(self, command: Command) -> None:
        handlers: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            **self._requests.methods,
            "unsubscribe": self._unsubscribe,
            "refresh": self._refresh,
            "sub_refresh": self._refresh_topic,
        }
        if isinstance(command.request, SubscribeRequest):
            await self._subscribe(command, command.request)
            return
        result = await handlers[command.method](command.request)
        self.push(encode_reply(command, result))

    async def _subscribe(self, command: Command, request: SubscribeRequest) -> None:
        lens = read_lens(request.data)
        topic = self._session.subscribe(request.channel)
        entered = admitted = False
        try:
            await self._admission.authority.ready(request.token)
            identity = self._credentials.subscribe(topic, request.token)
            admitted = True
            view = view_of(lens, identity.redaction(topic))
            if request.join_leave:
                identity.require("presence", topic)
                await self._hub.presence.watch(topic, self)
            asked = Position(epoch=request.epoch or "", offset=request.offset or 0) if request.recover else None
            while True:
                await self._may_write()
                subscriber, reply = await self._hub.join(self, topic, asked=asked, mirror=request.mirror, view=view)
                if not self._paused:
                    break
            self._recheck(topic, identity)
            if request.refuse_unrecovered and reply.get("recovered") is False:
                raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the position cannot be continued")
            reply["data"] = {"grants": identity.verbs(topic), **reply.get("data", {})}
            if request.token:
                reply.update(lasting(identity))
            if request.join_leave:
                reply["join_leave"] = True
            # One step from here on: the reply first, then live.
            self._subscribers[topic] = subscriber
            self._count()
            entered = True
            self.push(encode_reply(command, reply))
            if self._closed:
                self._absent(topic)
            else:
                self._hub.enter(subscriber)
                # A board of a thousand topics would have to be listed on each of them.
                if not subscriber.summarised:
                    self._hub.presence.enter(topic, self._attendee(identity))
        finally:
            if not entered:
                self._hub.presence.unwatch(topic, self)
                if admitted:
                    self._release(topic)
                else:
                    self._session.release(topic)

    def _recheck(self, topic: Topic, identity: Identity) -> None:
        """Refuse a subscription where its token ran out, or another one came, while the topic was read for it."""
        if topic not in self._session.topics:
            raise CommandError(ErrorCode.TOKEN_EXPIRED, "the token has expired")
        now = self._credentials.of(topic)
        now.require("read", topic)
        if now.redaction(topic) != identity.redaction(topic):
            raise CommandError(ErrorCode.INTERNAL, "what may be seen has changed; try again", temporary=True)

    def _attendee(self, identity: Identity) -> Attendee:
        whole = self._credentials.identity
        found = {"conn_info": whole.info, "chan_info": identity.info if identity is not whole else None}
        told = {name: info for name, info in found.items() if info is not None}
        return Attendee(client=self.client, user=identity.user, told=encode_json(told).decode() if told else "")

    async def _unsubscribe(self, request: TopicRequest) -> dict[str, Any]:
        self._leave(topic_of(request.channel))
        return {}

    def _leave(self, topic: Topic) -> None:
        subscriber = self._subscribers.pop(topic, None)
        self._count()
        if subscriber is not None:
            self._behind.pop(subscriber, None)
            self._hub.leave(subscriber)
            self._absent(topic)
        self._release(topic)

    async def _refresh(self, request: RefreshRequest) -> dict[str, Any]:
        await self._admission.authority.ready(request.token)
        before = self._credentials.identity
        self._credentials.refresh(request.token)
        identity = self._credentials.identity
        for topic in list(self._subscribers):
            if self._credentials.of(topic) is not identity:
                continue  # it has a token of its own
            if not identity.may("read", topic):
                self._end(topic, UnsubscribeCode.SERVER, "permission denied")
            elif identity.redaction(topic) != before.redaction(topic):
                self._end(topic, UnsubscribeCode.INSUFFICIENT_STATE, "what may be seen has changed")
        return {"client": self.client, "version": gateway.__version__, **lasting(identity)}

    async def _refresh_topic(self, request: RefreshRequest) -> dict[str, Any]:
        await self._admission.authority.ready(request.token)
        topic = topic_of(request.channel or "")
        before = self._credentials.of(topic).redaction(topic)
        identity = self._credentials.refresh_topic(topic, request.token)
        if identity.redaction(topic) != before:
            self._end(topic, UnsubscribeCode.INSUFFICIENT_STATE, "what may be seen has changed")
        return lasting(identity)


def _write_nothing(_frames: bytes) -> None:
    """Be the `Connection.write` of one that is closed."""
