"""uvicorn's HTTP protocol with what a response that never ends needs of its socket.

Run uvicorn with ``http="gateway.streaming.protocol:StreamingProtocol"``. Under uvicorn's own classes, or another ASGI
server, streams work too; a slow reader then shows later, and a shutdown waits for the server's own patience.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.streaming.outlet import EXTENSION
from gateway.transport import limit_unsent
from gateway.writer import HIGH_WATER, LOW_WATER

__all__ = ["StreamingProtocol"]


class StreamingProtocol(H11Protocol):
    """Offers itself as `gateway.streaming.outlet.Socket` to every request; cuts who sends one too slowly.

    Attributes:
        head_timeout: Seconds for the head of a request, from the first on; set for the whole process.
        body_timeout: Seconds for its body, from the head on; likewise.

    """

    head_timeout: ClassVar[float] = 10.0
    body_timeout: ClassVar[float] = 30.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self._application = self.app
        self.app = self._with_socket
        self._shutting_down: Callable[[], None] | None = None
        self._head: asyncio.TimerHandle | None = None  # cuts the connection
        self._body: asyncio.TimerHandle | None = None  # likewise
        self._upgraded: bool = False  # to a websocket

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of another head than the first begin a new wait."""
        if self._head is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)
        # Whether it is being answered, or has been, does not matter: who trickles one byte after the other of a body
        # that nobody reads would keep the connection for ever.
        if self.conn.their_state is not h11.SEND_BODY:
            self._have_body()
        elif self._body is None and not self._upgraded and not self.transport.is_closing():
            self._body = asyncio.get_running_loop().call_later(self.body_timeout, self.cut)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to the websocket's protocol."""
        self._upgraded = True
        self._have_head()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; where that is the body of a request, whoever answers it has nobody to answer to."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._have_head()
        self._have_body()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head = asyncio.get_running_loop().call_later(self.head_timeout, self.cut)

    def _have_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _have_body(self) -> None:
        if self._body is not None:
            self._body.cancel()
            self._body = None

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    def begin(self, shutting_down: Callable[[], None]) -> None:
        """Let a slow reader show early, and call this when the server is asked to end."""
        self._shutting_down = shutting_down
        self.transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        limit_unsent(self.transport)

    def cut(self) -> None:
        """End the connection at once, whatever waits."""
        self.transport.abort()

    def shutdown(self) -> None:
        """Tell a stream, which would not end by itself."""
        super().shutdown()
        if self._shutting_down is not None:
            self._shutting_down()

    async def _with_socket(self, scope: Any, receive: Any, send: Any) -> None:
        self._have_head()
        scope.setdefault("extensions", {})[EXTENSION] = self
        try:
            await self._application(scope, receive, send)
        finally:
            self._shutting_down = None
