"""One websocket: commands in, replies and pushes out."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import gateway
from gateway.actions import Actions
from gateway.admission import Admission, Credentials, lasting
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
from gateway.hub import Hub
from gateway.limits import Allowance
from gateway.reading import Reading
from gateway.requests import Requests
from gateway.session import MESSAGE_TOO_BIG, UNSUPPORTED_TEXT, Session, topic_of
from gateway.settings import Settings
from gateway.subscriber import Subscriber
from gateway.types import Topic, new_id
from gateway.wheel import Wheel
from gateway.writer import FrameWriter

__all__ = ["Connection"]

logger = logging.getLogger(__name__)

MAX_RUNNING = 64
"""Commands of one connection that may be under way; then the rest waits in its socket."""

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
        "_closed",
        "_code",
        "_connecting",
        "_credentials",
        "_draining",
        "_hub",
        "_lanes",
        "_paused",
        "_reading",
        "_requests",
        "_running",
        "_session",
        "_settings",
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
        trusted: bool = False,
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
            trusted: Its handshake had an API key.

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
        self._credentials = Credentials(admission, self, trusted=trusted)
        self._connecting: asyncio.Task[None] | None = None  # the key of its token is being fetched
        self._tasks = tasks
        self._reading = Reading(self, hub, self._session, admission=admission, credentials=self._credentials)
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
        self._reading.pause()

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
        self._reading.bring_up()

    def closed(self) -> None:
        """Let go of everything; tasks end soon."""
        if self._closed:
            return
        self._closed = True
        self._hub.measures.closes[self._code] += 1
        logger.debug("closed: %s", self._code, extra=self._who)
        self._session.close()
        self._wheel.remove(self)
        self._hub.readers.pop(self, None)
        self._credentials.close()
        self._admission.limits.connections_of_address.give_back(self._address)
        self._reading.close()
        self.write = _write_nothing
        self._wake()
        if self._draining is not None:
            self._draining.cancel()
        for task in self._running:
            task.cancel()

    def _wake(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    async def may_write(self) -> None:
        """Wait until the socket takes more, or is gone."""
        while self._paused and not self._closed:
            if self._writable is None:
                self._writable = asyncio.Event()
            await self._writable.wait()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that ends with the process at the latest."""
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

    @property
    def issued_at(self) -> float | None:
        """When its token says that it was made, Unix time in s; None where it does not say."""
        return self._credentials.identity.issued_at

    @property
    def is_paused(self) -> bool:
        """Whether its socket takes nothing right now."""
        return self._paused

    @property
    def is_closed(self) -> bool:
        """Whether it has let go."""
        return self._closed

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
        self._reading.fell_behind(subscriber)

    def caught_up(self, subscriber: Subscriber) -> None:
        """Note that a subscriber is at the head again."""
        if self._reading.caught_up(subscriber):
            self.tell()

    def dropped(self, subscriber: Subscriber) -> None:
        """Note that the gateway ended a subscription."""
        self._reading.replaced(subscriber)

    def unsubscribed(self, subscriber: Subscriber, line: bytes) -> None:
        """Note that a backend ended a subscription, and say so."""
        self.push(line)
        self._reading.dropped(subscriber)

    def announce(self, topic: Topic, frames: bytes) -> None:
        """Tell who comes and goes, unless the socket takes nothing."""
        if topic in self._reading and not self._paused:
            self._writer.write(frames)

    # What the admission tells (Expiring)

    def expired(self, topic: Topic | None) -> None:
        """End what a token allowed that has run out, and its grace too."""
        if topic is None:
            self.close(DisconnectCode.EXPIRED, "the token has expired")
        else:
            self._reading.end(topic, UnsubscribeCode.EXPIRED, "the subscription's token has expired")

    def tell(self) -> None:
        """Say whether the broker is away, where the client believes otherwise (PROTOCOL.md 3.6)."""
        sure = self._hub.sure
        if sure == self._told or self._paused or not self.connected or (sure and self._reading.is_behind):
            return
        self._told = sure
        self.push(encode_push("message", {"data": {"type": "broker", "sure": sure}}))

    # Commands

    @property
    def _who(self) -> dict[str, str]:
        """The fields of a log line about it."""
        return {"client": self.client, "user": self.user}

    def _dispatch(self, command: Command) -> None:
        if command.refusal is not None:
            self._counted(command, command.refusal)
            if command.id:
                self.push(encode_error(command, command.refusal))
        elif isinstance(command.request, ConnectRequest):
            self._begin(command, command.request)
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

    def _begin(self, command: Command, request: ConnectRequest) -> None:
        if not self._admission.authority.knows(request.token):
            self._connecting = self.spawn(self._connect_later(command, request))
        elif self._admitted(command, request.token):
            if self._credentials.identity.channels:
                self._connecting = self.spawn(self._connect_subscribed(command, request))
            else:
                self._welcome(command)

    async def _connect_later(self, command: Command, request: ConnectRequest) -> None:
        try:
            await self._admission.authority.ready(request.token)
        except CommandError as error:
            self._refuse_connect(command, error)
        else:
            if not self._closed and self._admitted(command, request.token):
                await self._connect_subscribed(command, request)
        finally:
            self._connecting = None

    async def _connect_subscribed(self, command: Command, request: ConnectRequest) -> None:
        """Answer with the subscriptions that the token names."""
        identity = self._credentials.identity
        try:
            async with asyncio.timeout(self._settings.command_timeout):
                subs = await self._reading.give(identity.channels, request.subs or {})
            if self._closed:
                self._reading.take_back()
                return
            self._admission.authority.check(identity)  # nobody could disconnect it meanwhile
        except (BrokerUnavailableError, TimeoutError):
            self._refuse_connect(command, _AWAY)
        except CommandError as error:
            self._refuse_connect(command, error)
        except DisconnectError as error:
            self._reading.take_back()
            self._counted(command, error)
            self.close(error.code, error.reason)
        else:
            # One step: the reply first, then live.
            self._welcome(command, subs)
            self._reading.begin()
        finally:
            self._connecting = None

    def _refuse_connect(self, command: Command, error: CommandError) -> None:
        self._reading.take_back()
        self._credentials.disconnect()
        self._session.refused()
        self._counted(command, error)
        self.push(encode_error(command, error))

    def _admitted(self, command: Command, token: str | None) -> bool:
        try:
            self._credentials.connect(token)
        except CommandError as error:
            self._refuse_connect(command, error)
        except DisconnectError as error:
            self._counted(command, error)
            self.close(error.code, error.reason)
        else:
            return True
        return False

    def _welcome(self, command: Command, subs: Mapping[str, Any] | None = None) -> None:
        self._counted(command)
        identity = self._credentials.identity
        self.user = identity.user
        self.connected = True
        logger.debug("connected", extra=self._who)
        self._hub.readers[self] = None
        reply = {
            "client": self.client,
            "version": gateway.__version__,
            "ping": max(1, round(self._settings.ping_interval)),
            "pong": True,
            **lasting(identity),
            **({"subs": subs} if subs else {}),
            "data": {
                "grants": sorted({verb for grant in identity.grants for verb in grant.verbs}),
                **({"user": identity.user} if identity.user else {}),
            },
        }
        self.push(encode_reply(command, reply))
        self.tell()

    def _run_in_lane(self, command: Command) -> None:
        request = command.request
        lane = getattr(request, "channel", None) or ""
        task = self.spawn(self._run(command, self._lanes.get(lane)))
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
        await self.may_write()
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
            logger.exception("command %s failed", command.method, extra=self._who)
            # Not the client's fault, so it may pass: a stock client without this word would unsubscribe for good.
            failed = CommandError(ErrorCode.INTERNAL, "internal server error", temporary=True)
            self._counted(command, failed)
            self.push(encode_error(command, failed))
        else:
            self._counted(command)

    async def _answer(self, command: Command) -> None:
        handlers: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            **self._requests.methods,
            "unsubscribe": self._unsubscribe,
            "refresh": self._refresh,
            "sub_refresh": self._reading.refresh_topic,
        }
        if isinstance(command.request, SubscribeRequest):
            await self._reading.subscribe(command.request, partial(self._reply, command))
            return
        self._reply(command, await handlers[command.method](command.request))

    def _reply(self, command: Command, result: dict[str, Any]) -> None:
        self.push(encode_reply(command, result))

    async def _unsubscribe(self, request: TopicRequest) -> dict[str, Any]:
        self._reading.leave(topic_of(request.channel))
        return {}

    async def _refresh(self, request: RefreshRequest) -> dict[str, Any]:
        identity = await self._reading.refresh(request)
        return {"client": self.client, "version": gateway.__version__, **lasting(identity)}


def _write_nothing(_frames: bytes) -> None:
    """Be the `Connection.write` of one that is closed."""
