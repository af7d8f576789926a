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
    """Offers itself as `gateway.streaming.outlet.Socket` to every request; cuts who sends the head of one too slowly.

    Attributes:
        head_timeout: Seconds for the head of a request, from the first on; set for the whole process.

    """

    head_timeout: ClassVar[float] = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self._application = self.app
        self.app = self._with_socket
        self._shutting_down: Callable[[], None] | None = None
        self._head: asyncio.TimerHandle | None = None  # cuts the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of another head than the first begin a new wait."""
        if self._head is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to the websocket's protocol."""
        self._have_head()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._have_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head = asyncio.get_running_loop().call_later(self.head_timeout, self.cut)

    def _have_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

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
