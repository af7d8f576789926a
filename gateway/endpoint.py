"""The ASGI application of the websocket: accepts, and serves one connection until it ends."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gateway.actions import Actions
from gateway.connection import Connection
from gateway.hub import Hub
from gateway.wheel import Wheel
from gateway.writer import AsgiWriter, FrameWriter

__all__ = ["WebsocketEndpoint"]

_Message = MutableMapping[str, Any]


class WebsocketEndpoint:
    """The ASGI application of ``/connection/websocket``."""

    def __init__(self, hub: Hub, actions: Actions, wheel: Wheel) -> None:
        """Make it over what every connection uses."""
        self._hub = hub
        self._actions = actions
        self._wheel = wheel

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Serve one connection until it ends."""
        if (await receive())["type"] != "websocket.connect":
            return
        direct: FrameWriter | None = scope.get("extensions", {}).get("gateway.writer")
        await send({"type": "websocket.accept"})
        writer = AsgiWriter(send) if direct is None else direct
        connection = Connection(self._hub, self._actions, self._wheel, writer)
        connection.start()
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text: str | None = message.get("text")
                data = message.get("bytes") or b"" if text is None else text.encode()
                connection.received(data, text=text is not None)
                if isinstance(writer, AsgiWriter):
                    await writer.readable()
        finally:
            await connection.aclose()
            if isinstance(writer, AsgiWriter):
                await writer.aclose()
