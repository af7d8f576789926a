"""The readers' SDK: topics of a gateway as exact mirrors, across reconnects."""

import asyncio
import contextlib
import functools
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any, Self

from gateway.client_actions import ClientActions
from gateway.client_socket import ClientSocket, shown_url, websocket_url
from gateway.client_token import Token
from gateway.errors import CommandError, DisconnectError, ErrorCode, GatewayError, UnreachableError
from gateway.reader import Lens, Since, Update
from gateway.subscription import Subscription
from gateway.types import Position, parse_topic

__all__ = ["Client", "Subscription", "Update", "backoff", "may_return"]

logger = logging.getLogger(__name__)

BACKOFF_BASE = 0.5
BACKOFF_CAP = 20.0
"""Seconds; before try n a client waits anything from 0 to the smaller of cap and base times 2 to the n."""
ASKS_AT_ONCE = 3
"""A hole, the verdict on it and the snapshot that mends it are no failures."""
STEADY = 10.0
"""Seconds a connection must have lived for the next wait to start small again."""
COMMAND_PATIENCE = 30.0


class Client(ClientActions):
    """A connection to a gateway that keeps itself alive; an async context manager.

    Entering connects once and raises what hinders it; from then on the client comes back by itself, and each
    subscription goes on where it was.

    Args:
        url: The gateway's address, such as ``http://127.0.0.1:8000`` or ``wss://example.org``.
        token: What the gateway knows the caller by: a text, or an async function that makes one for each connection
            and before the last one expires; None where it asks for none.
        api_key: A key that may do everything, for backends and people who run the gateway; None for none. With a token
            beside it the token counts.
        patience: Seconds until a command without an answer is given up, and until entering is.

    Raises:
        ValueError: The URL is none.
        UnreachableError: On entering: nobody answers there, or not as a gateway.
        CommandError: On entering: the token or the API key was refused.
        DisconnectError: On entering: the gateway closed the connection.

    """

    def __init__(
        self, url: str, *, token: Token = None, api_key: str | None = None, patience: float = COMMAND_PATIENCE
    ) -> None:
        self.url = websocket_url(url)
        self.sure = True
        """False while the gateway itself does not hear its broker: what is shown may be behind."""
        self._token = token
        self._api_key = api_key
        self._patience = patience
        self._socket: ClientSocket | None = None
        self._changed = asyncio.Event()
        self._error: GatewayError | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        """How often each topic was asked for since its last event."""
        self._joined: set[str] = set()
        """Topics that this connection was asked for."""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(self._patience):
                socket = await self._open()
        except TimeoutError as error:
            raise self._no_answer() from error
        self._task = asyncio.create_task(self._live(socket))
        return self

    async def __aexit__(self, *_: object) -> None:
        for retry in self._retries.values():
            retry.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._fail(DisconnectError(1000, "the client was closed"))

    @property
    def failed(self) -> GatewayError | None:
        """Why the client has ended and will not come back; None while it lives."""
        return self._error

    async def rpc(self, method: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method of PROTOCOL 7.

        Args:
            method: Its name.
            data: Its arguments; with an ``id`` the call is repeated where its answer was lost or a temporary
                error came, for the gateway carries out an id once.

        Returns:
            The answer's ``data``.

        Raises:
            CommandError: It was refused; ``temporary`` says whether trying again can help.
            DisconnectError: The connection ended first; whether it was carried out is not known.
            UnreachableError: No answer within the client's patience.

        """
        reply = await self._command("rpc", {"method": method, "data": dict(data)}, repeatable="id" in data)
        answer: dict[str, Any] = reply.get("data") or {}
        return answer

    async def publish(self, topic: str, event: Mapping[str, Any]) -> None:
        """Publish an event of one's own (PROTOCOL 4.5); raises as `rpc` does, and is never repeated by itself."""
        await self._command("publish", {"channel": parse_topic(topic), "data": dict(event)}, repeatable=False)

    async def topics(self) -> list[dict[str, Any]]:
        """List the topics one may read, ``{"topic", "at"}`` (Unix time, ms), newest first; raises as `rpc`."""
        reply = await self._command("rpc", {"method": "topics", "data": {}}, repeatable=True)
        topics: list[dict[str, Any]] = reply["data"]["topics"]
        return topics

    async def top(self, topic: str) -> Position:
        """Give the position of a topic's last event; raises as `rpc`."""
        reply = await self._command("history", {"channel": parse_topic(topic)}, repeatable=True)
        return Position(epoch=reply.get("epoch", ""), offset=reply.get("offset", 0))

    def subscribe(
        self,
        topic: str,
        *,
        since: Since = None,
        mirror: bool = True,
        types: Sequence[str] | None = None,
        lens: Lens = None,
    ) -> Subscription:
        """Follow a topic.

        Args:
            topic: The topic; once per client at a time.
            since: None begins now (with a snapshot where a mirror is kept), ``"start"`` at the topic's first
                event, a `Mirror` where that stands (it is the one carried on), a `Position` there.
            mirror: Keep an exact mirror and take a snapshot where that is the shorter way. After a `Position`
                there is none before the first snapshot. False yields each event that the history holds.
            types: The event types, and groups of them, that the gateway is to send (PROTOCOL 3.8); None for all.
                A mirror holds what these tell.
            lens: Beside ``types``: ``{"rate": n}`` takes at most n flushes a second, ``{"finished": True}`` no deltas;
                ``"summary"`` instead of all that yields the topic's summaries (PROTOCOL 3.9) as ``data``, without a
                mirror. None takes everything at once.

        Raises:
            ValueError: The topic is no topic's name, or ``types`` names none.
            CommandError: The topic is subscribed already.

        """
        name = parse_topic(topic)
        if name in self._subscriptions:
            raise CommandError(ErrorCode.ALREADY_SUBSCRIBED, f"this client follows {name} already")
        if types is not None and (isinstance(types, str) or not types):
            raise ValueError(f"expected types to be a list of event types, got {types!r}")
        if lens == "summary":
            since, mirror, types = None, False, None
        subscription = Subscription(
            name, since=since, mirror=mirror, types=types, lens=lens, ask=self._ask, leave=self._leave
        )
        if self._error is not None:
            subscription.fail(self._error)
            return subscription
        self._subscriptions[name] = subscription
        self._ask(subscription)
        return subscription

    async def _open(self) -> ClientSocket:
        # Before the first push, which may come together with the reply to connect.
        self.sure = True
        socket = ClientSocket(self._pushed)
        await socket.open(self.url, token=self._token, api_key=self._api_key)
        return socket

    async def _live(self, socket: ClientSocket) -> None:
        try:
            await self._keep(socket)
        except Exception as error:
            logger.exception("the client failed")
            self._fail(DisconnectError(1011, f"the client failed: {error!r}"))

    async def _keep(self, socket: ClientSocket) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            since = loop.time()
            self._socket = socket
            self._joined.clear()
            self._changed.set()
            try:
                for subscription in list(self._subscriptions.values()):
                    if not subscription.paused:
                        self._ask(subscription)
                ended = await asyncio.shield(socket.closed)
            finally:
                self._socket = None
                self._changed.clear()
                await socket.aclose()
            if not may_return(ended):
                self._fail(ended)
                return
            logger.warning("the connection to %s has ended (%s); trying on", shown_url(self.url), ended)
            failures = 0 if loop.time() - since >= STEADY else failures
            while True:
                await asyncio.sleep(backoff(failures))
                failures += 1
                try:
                    socket = await self._open()
                except (UnreachableError, CommandError, DisconnectError) as error:
                    if not may_return(error):
                        self._fail(error)
                        return
                    logger.debug("%s; trying on", error)
                else:
                    logger.warning("%s is back", shown_url(self.url))
                    break

    def _fail(self, error: GatewayError) -> None:
        self._error = error
        self._changed.set()
        for subscription in self._subscriptions.values():
            if isinstance(error, DisconnectError) and error.code == 1000:
                subscription.end()
            else:
                subscription.fail(error)
        self._subscriptions.clear()

    async def _command(self, method: str, body: dict[str, Any], *, repeatable: bool) -> dict[str, Any]:
        failures = 0
        refused: GatewayError | None = None
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    socket = await self._connected()
                    try:
                        return await socket.ask(method, body)
                    except (CommandError, DisconnectError) as error:
                        if not repeatable or not may_return(error):
                            raise
                        refused = error
                    await asyncio.sleep(backoff(failures))
                    failures += 1
        except TimeoutError as error:
            # What the gateway itself has said tells more.
            raise refused or self._no_answer() from error

    def _no_answer(self) -> UnreachableError:
        return UnreachableError(url=self.url, reason=f"no answer within {self._patience:g} s", temporary=True)

    async def _connected(self) -> ClientSocket:
        while self._socket is None:
            if self._error is not None:
                raise self._error
            if self._task is None:
                raise RuntimeError("enter the client first: async with Client(…) as client")
            await self._changed.wait()
        return self._socket

    def _ask(self, subscription: Subscription) -> None:
        retry = self._retries.pop(subscription.topic, None)
        if retry is not None:
            retry.cancel()
        if self._socket is None or subscription.ended:
            return
        self._unsubscribe(subscription.topic)
        self._joined.add(subscription.topic)
        body = subscription.reader.request()
        self._socket.command(
            "subscribe",
            body,
            answer=functools.partial(self._answered, subscription, body),
            refusal=functools.partial(self._refused, subscription, body),
        )

    def _leave(self, subscription: Subscription) -> None:
        if subscription.ended:
            self._forget(subscription)
        self._unsubscribe(subscription.topic)

    def _unsubscribe(self, topic: str) -> None:
        if self._socket is None or topic not in self._joined:
            return
        self._joined.discard(topic)
        # Whatever the answer, the gateway holds no subscription afterwards.
        self._socket.command(
            "unsubscribe", {"channel": topic}, answer=lambda _body, _size: None, refusal=lambda _error: None
        )

    def _forget(self, subscription: Subscription) -> None:
        if self._subscriptions.get(subscription.topic) is subscription:
            del self._subscriptions[subscription.topic]
            self._failures.pop(subscription.topic, None)
            retry = self._retries.pop(subscription.topic, None)
            if retry is not None:
                retry.cancel()

    def _answered(self, subscription: Subscription, asked: dict[str, Any], reply: dict[str, Any], size: int) -> None:
        if subscription.ended or subscription.reader.asked is not asked:
            return
        try:
            updates = subscription.reader.replied(reply)
            subscription.refused = None
            subscription.joined.set()
        except GatewayError as error:
            self._give_up(subscription, error)
        else:
            self._deliver(subscription, updates, size)

    def _refused(self, subscription: Subscription, asked: dict[str, Any], error: CommandError) -> None:
        if subscription.ended or subscription.reader.asked is not asked:
            return
        if error.temporary:
            subscription.refused = error
            self._ask_later(subscription)
        elif error.code == ErrorCode.UNRECOVERABLE_POSITION:
            subscription.reader.unrecoverable()
            self._ask_later(subscription)
        else:
            self._give_up(subscription, error)

    def _pushed(self, push: dict[str, Any], size: int) -> None:
        message = push.get("message")
        if message is not None:
            data = message.get("data")
            if isinstance(data, dict) and data.get("type") == "broker":
                self._hear_broker(sure=bool(data.get("sure")))
            return
        subscription = self._subscriptions.get(push.get("channel", ""))
        if subscription is None:
            return
        if "unsubscribe" in push:
            code = push["unsubscribe"].get("code", 0)
            if code >= 2500:
                self._ask_later(subscription)
            else:
                reason = push["unsubscribe"].get("reason", "")
                self._give_up(subscription, CommandError(code, f"unsubscribed by the gateway: {reason}"))
        elif "pub" in push:
            try:
                updates = subscription.reader.pushed(push["pub"])
            except GatewayError as error:
                self._give_up(subscription, error)
            else:
                self._deliver(subscription, updates, size)

    def _hear_broker(self, *, sure: bool) -> None:
        if sure != self.sure:
            told = "hears its broker again" if sure else "does not hear its broker: what it shows may be behind"
            logger.warning("%s %s", shown_url(self.url), told)
        self.sure = sure

    def _deliver(self, subscription: Subscription, updates: list[Update], size: int) -> None:
        subscription.deliver(updates, size=size)
        if updates and not updates[-1].snapshot:
            self._failures.pop(subscription.topic, None)
        if subscription.reader.asks and not subscription.paused:
            self._ask_later(subscription)

    def _ask_later(self, subscription: Subscription) -> None:
        """Ask again: at once the first times, then with full jitter, so that nothing can spin."""
        subscription.reader.pause()
        failures = self._failures.get(subscription.topic, 0)
        self._failures[subscription.topic] = failures + 1
        if failures < ASKS_AT_ONCE:
            self._ask(subscription)
        elif subscription.topic not in self._retries:
            self._retries[subscription.topic] = asyncio.get_running_loop().call_later(
                backoff(failures - ASKS_AT_ONCE), self._ask, subscription
            )

    def _give_up(self, subscription: Subscription, error: Exception) -> None:
        subscription.fail(error)
        self._forget(subscription)
        self._unsubscribe(subscription.topic)


def backoff(failures: int) -> float:
    """Draw the seconds before another try, after so many that failed."""
    return random.uniform(0, min(BACKOFF_CAP, BACKOFF_BASE * 2 ** min(failures, 16)))


def may_return(error: GatewayError) -> bool:
    """Whether the same can succeed later."""
    match error:
        case CommandError() | UnreachableError():
            return error.temporary
        case DisconnectError():
            # 1009: the same frame would be refused again; the codes below 3000 are the network's own.
            return error.reconnect or (error.code < 3000 and error.code != 1009)
    return False
