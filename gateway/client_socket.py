"""One websocket to a gateway, from its connect command to its close."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus, InvalidURI, WebSocketException

from gateway.client_token import Token, present
from gateway.errors import CommandError, DisconnectCode, DisconnectError, ErrorCode, UnreachableError

__all__ = ["Answer", "ClientSocket", "shown_url", "websocket_url"]

logger = logging.getLogger(__name__)

PATH = "/connection/websocket"
OPEN_PATIENCE = 10.0
"""Seconds for the TCP connection, the handshake and the connect command together."""
PING_PATIENCE = 10.0
"""Seconds beyond the promised ping interval after which silence means a dead connection."""
RENEWED_AT = 0.8
"""The part of a token's life after which a fresh one is shown."""
RENEW_PAUSE = 1.0
"""Seconds between two tries at least."""
MAX_FRAME = 1024 * 1024
"""Bytes; a gateway's own frames end at 128 KiB (PROTOCOL 2.4)."""

_UNAUTHORIZED = 401
_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}

Answer = Callable[[dict[str, Any], int], None]
"""Called with a reply's body and its size in bytes."""
Refusal = Callable[[CommandError], None]


class ClientSocket:
    """A connection that speaks PROTOCOL 2 and 3.

    Args:
        pushed: Called with each push and its size in bytes, in the order of arrival.

    """

    def __init__(self, pushed: Callable[[dict[str, Any], int], None]) -> None:
        self.closed: asyncio.Future[DisconnectError] = asyncio.get_running_loop().create_future()
        """Why it ended."""
        self._pushed = pushed
        self._pending: dict[int, tuple[Answer, Refusal]] = {}
        self._last_id = 0
        self._out: list[bytes] = []
        self._out_waits = asyncio.Event()
        self._ping: float | None = None
        self._pong = False
        self._connection: ClientConnection
        self._task: asyncio.Task[None]
        self._renewing: asyncio.Task[None] | None = None
        """Shows fresh tokens, where one expires and another can be made."""

    async def open(self, url: str, *, token: Token, api_key: str | None = None) -> None:
        """Connect and introduce oneself.

        Args:
            url: The websocket's.
            token: Is made anew, where it is a function, before the gateway would end the connection with it.
            api_key: A key that may do everything; None for none.

        Raises:
            UnreachableError: Nobody answers as a gateway.
            CommandError: The connect command, or the API key, was refused.
            DisconnectError: The gateway closed the connection.

        """
        host = urlsplit(url).hostname or ""
        try:
            self._connection = await connect(
                url,
                compression=None,
                ping_interval=None,  # the gateway pings, in frames of its own (PROTOCOL 2.3)
                open_timeout=OPEN_PATIENCE,
                close_timeout=1,
                max_size=MAX_FRAME,
                additional_headers=None if api_key is None else {"X-API-Key": api_key},
                proxy=None if _is_loopback(host) else True,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if api_key is not None and status == _UNAUTHORIZED:
                raise CommandError(ErrorCode.UNAUTHORIZED, "invalid API key") from error
            raise UnreachableError(
                url=url, reason=f"HTTP status {status}", temporary=status in _TRANSIENT_STATUS
            ) from error
        except InvalidURI as error:
            raise UnreachableError(url=url, reason=str(error), temporary=False) from error
        except (OSError, TimeoutError, InvalidMessage) as error:
            raise UnreachableError(url=url, reason=_cause(error), temporary=True) from error
        except WebSocketException as error:
            raise UnreachableError(url=url, reason=_cause(error), temporary=False) from error
        self._task = asyncio.create_task(self._live())
        try:
            async with asyncio.timeout(OPEN_PATIENCE):
                shown = await present(token, url=url)
                reply = await self.ask("connect", {} if shown is None else {"token": shown})
        except TimeoutError as error:
            await self.aclose()
            raise UnreachableError(url=url, reason="no reply to the connect command", temporary=True) from error
        except CommandError as error:
            await self.aclose()
            if callable(token) and error.code == ErrorCode.TOKEN_EXPIRED:  # the next one need not have
                raise CommandError(error.code, error.message, temporary=True) from error
            raise
        except BaseException:
            await self.aclose()
            raise
        if callable(token) and reply.get("expires"):
            self._renewing = asyncio.create_task(self._renew(token, url, float(reply.get("ttl") or 0)))

    def command(self, method: str, body: dict[str, Any], *, answer: Answer, refusal: Refusal) -> None:
        """Send a command; its reply is answered in the order of arrival, or never where the connection ends."""
        if self.closed.done():
            return
        self._last_id += 1
        self._pending[self._last_id] = answer, refusal
        self._put(msgspec.json.encode({"id": self._last_id, method: body}))

    async def ask(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a command and wait for its reply.

        Raises:
            CommandError: It was refused.
            DisconnectError: The connection ended first; whether the command was carried out is not known.

        """
        replied: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def answer(reply: dict[str, Any], _: int) -> None:
            if not replied.done():
                replied.set_result(reply)

        def refusal(error: CommandError) -> None:
            if not replied.done():
                replied.set_exception(error)

        self.command(method, body, answer=answer, refusal=refusal)
        await asyncio.wait((replied, self.closed), return_when=asyncio.FIRST_COMPLETED)
        if replied.done():
            return replied.result()
        raise self.closed.result()

    async def aclose(self) -> None:
        """Close the connection; an orderly close first, at most a second long."""
        await self._connection.close()
        for task in (self._renewing, self._task):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _renew(self, token: Token, url: str, ttl: float) -> None:
        """Show a fresh token before each one expires; where none is to be had the gateway ends the connection."""
        while True:
            await asyncio.sleep(max(ttl * RENEWED_AT, RENEW_PAUSE))
            try:
                reply = await self.ask("refresh", {"token": await present(token, url=url)})
            except DisconnectError:
                return
            except (CommandError, UnreachableError) as error:
                logger.warning("the token could not be renewed (%s); trying on", error)
                ttl = 0.0
            else:
                if not reply.get("expires"):
                    return
                ttl = float(reply.get("ttl") or 0)

    async def _live(self) -> None:
        writing = asyncio.create_task(self._write())
        try:
            await self._read()
        except DisconnectError as error:
            self._end(error)
        except ConnectionClosed as error:
            close = error.rcvd or error.sent
            code, reason = (close.code, close.reason) if close else (1006, "the connection was lost")
            self._end(DisconnectError(code, reason))
        except (msgspec.MsgspecError, AttributeError, KeyError, TypeError, ValueError) as error:
            self._end(DisconnectError(1002, f"expected frames of PROTOCOL 2, got another: {error}"))
        finally:
            self._end(DisconnectError(1000, "closed"))
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                await writing
            self._connection.transport.abort()

    def _end(self, why: DisconnectError) -> None:
        if not self.closed.done():
            self.closed.set_result(why)
            self._pending.clear()

    async def _read(self) -> None:
        decoder = msgspec.json.Decoder(dict[str, Any])
        while True:
            try:
                patience = None if self._ping is None else self._ping + PING_PATIENCE
                async with asyncio.timeout(patience):
                    frame = await self._connection.recv()
            except TimeoutError as error:
                raise DisconnectError(DisconnectCode.NO_PONG, "the gateway fell silent") from error
            for line in (frame.encode() if isinstance(frame, str) else frame).split(b"\n"):
                if line.strip():
                    self._take(decoder.decode(line), len(line))

    def _take(self, message: dict[str, Any], size: int) -> None:
        if not message:
            if self._pong:
                self._put(b"{}")
        elif "id" in message:
            answer, refusal = self._pending.pop(message["id"])
            error = message.get("error")
            if error is None:
                (body,) = [value for key, value in message.items() if key != "id"] or [{}]
                if "connect" in message:
                    # Before the next frame is waited for: the wait for it is bounded by this.
                    self._ping, self._pong = body.get("ping") or None, bool(body.get("pong"))
                answer(body, size)
            else:
                refusal(CommandError(error["code"], error.get("message", ""), temporary=bool(error.get("temporary"))))
        elif "push" in message:
            push = message["push"]
            if "disconnect" in push:
                raise DisconnectError(push["disconnect"]["code"], push["disconnect"].get("reason", ""))
            self._pushed(push, size)

    def _put(self, line: bytes) -> None:
        self._out.append(line)
        self._out_waits.set()

    async def _write(self) -> None:
        while True:
            await self._out_waits.wait()
            self._out_waits.clear()
            frame, self._out = b"\n".join(self._out), []
            await self._connection.send(frame, text=True)


def websocket_url(url: str) -> str:
    """Give the websocket's URL of a gateway whose address is an http, https, ws or wss URL.

    Raises:
        ValueError: It is no such URL.

    """
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"expected a gateway's address such as http://127.0.0.1:8000, got {url!r}")
    path = parts.path if parts.path.endswith(PATH) else parts.path.rstrip("/") + PATH
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


def shown_url(url: str) -> str:
    """Give a URL without what may be secret in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _cause(error: Exception) -> str:
    # "Multiple exceptions: [Errno 111] …" and "[Errno 111] Connect call failed" are asyncio's ways to say it.
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "nobody listens there"
    return str(error) or type(error).__name__
