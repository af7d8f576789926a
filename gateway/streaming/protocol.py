"""uvicorn's HTTP protocol with what a response that never ends needs of its socket.

Run uvicorn with ``http="gateway.streaming.protocol:StreamingProtocol"``. Under uvicorn's own classes, or another ASGI
server, streams work too; a slow reader then shows later, and a shutdown waits for the server's own patience.
"""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.streaming.outlet import EXTENSION
from gateway.transport import limit_unsent
from gateway.writer import HIGH_WATER, LOW_WATER

__all__ = ["StreamingProtocol"]


class StreamingProtocol(H11Protocol):
    """Offers itself as `gateway.streaming.outlet.Socket` to every request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self._application = self.app
        self.app = self._with_socket
        self._shutting_down: Callable[[], None] | None = None

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
        scope.setdefault("extensions", {})[EXTENSION] = self
        try:
            await self._application(scope, receive, send)
        finally:
            self._shutting_down = None
