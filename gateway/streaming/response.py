"""The response that a stream is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from gateway.admission import Admission
from gateway.errors import BrokerUnavailableError, CommandError, ErrorCode
from gateway.hub import Hub
from gateway.streaming.forms import Form
from gateway.streaming.outlet import EXTENSION, Outlet, Socket
from gateway.streaming.reader import Joined, StreamReader
from gateway.types import Position

__all__ = ["STREAM_HEADERS", "StreamResponse", "patiently"]

STREAM_HEADERS: Mapping[str, str] = {
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would hold back what is less than one of its buffers
}
"""What keeps proxies from storing, compressing and collecting a stream."""

RETRY = 0.05
"""Seconds between two tries while the broker is away; the command timeout ends them."""

_Result = TypeVar("_Result")


class StreamResponse:
    """Streams a topic until the client or the gateway goes: an ASGI application for one request."""

    def __init__(
        self,
        hub: Hub,
        reader: StreamReader,
        form: Form,
        *,
        admission: Admission,
        asked: Position | None,
        known: str,
        strict: bool = False,
    ) -> None:
        """Make a response that has not started.

        Args:
            hub: Where the topic is.
            reader: What reads for the client.
            form: How the client is written to.
            admission: Where it counts, as a connection, while it lasts.
            asked: The position to go on from; None for none.
            known: The position that the client named, as text; "" for none.
            strict: A position that cannot be continued is refused, instead of told in the stream.

        """
        self.headers: MutableHeaders = MutableHeaders({"content-type": form.media_type, **STREAM_HEADERS})
        self._hub = hub
        self._reader = reader
        self._admission = admission
        self._asked = asked
        self._known = known
        self._strict = strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request.

        Raises:
            CommandError: 100 the broker is away, 101 or 109 the token holds no more, 111 too many connections,
                112 the position cannot be continued.

        """
        start = {"type": "http.response.start", "status": 200, "headers": self.headers.raw}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body", "body": b""})
            return
        with self._admission.reading(scope, self._reader.user):
            await self._stream(scope, receive, send, start)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, start: Message) -> None:
        try:
            joined = await self._join()
            self._admission.authority.check(self._reader.identity)
            socket: Socket | None = scope.get("extensions", {}).get(EXTENSION)
            outlet = Outlet(send, self._reader, socket)
            self._reader.begin(outlet, joined, known=self._known)
            self._admission.end_at(self._reader, self._reader.identity.expires_at)
            if socket is not None:
                socket.begin(self._reader.shutting_down)
            await send(start)
            await _until_one_ends(outlet.run(), _gone(receive))
        finally:
            self._admission.forget(self._reader, ())
            await self._reader.aclose()

    async def _join(self) -> Joined:
        joined = await patiently(lambda: self._reader.join(self._asked), within=self._hub.settings.command_timeout)
        if self._strict and not joined[1].get("recovered"):
            raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the position cannot be continued; ask without one")
        return joined


async def patiently(work: Callable[[], Awaitable[_Result]], *, within: float) -> _Result:
    """Do something again while the broker is away.

    Args:
        work: What raises `BrokerUnavailableError` then.
        within: Seconds until it is given up.

    Raises:
        CommandError: 100, it was given up.

    """
    try:
        async with asyncio.timeout(within):
            while True:
                try:
                    return await work()
                except BrokerUnavailableError:
                    await asyncio.sleep(RETRY)
    except TimeoutError as error:
        raise CommandError(ErrorCode.INTERNAL, "the broker is away; try again") from error


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until_one_ends(*works: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
