"""The ASGI application of the websocket: accepts connections, and owns what they have under way."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gateway.actions import Actions
from gateway.admission import Admission
from gateway.auth import refuse
from gateway.connection import Connection
from gateway.errors import CommandError, ErrorCode
from gateway.hub import Hub
from gateway.wheel import Wheel
from gateway.writer import AsgiWriter, FrameWriter

__all__ = ["WebsocketEndpoint"]

_Message = MutableMapping[str, Any]


class WebsocketEndpoint:
    """The ASGI application of ``/connection/websocket``."""

    def __init__(self, hub: Hub, actions: Actions, wheel: Wheel, admission: Admission) -> None:
        """Make it over what every connection uses."""
        self._hub = hub
        self._actions = actions
        self._wheel = wheel
        self._admission = admission
        self._tasks: set[asyncio.Task[None]] = set()  # of all connections

    async def aclose(self) -> None:
        """End what the connections have under way, and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Accept a connection; under our own server that is all, under others it is served here until it ends."""
        try:
            trusted = self._admission.authority.websocket(scope)
        except CommandError as refusal:
            status = 401 if refusal.code == ErrorCode.UNAUTHORIZED else 429
            await refuse(scope, receive, send, status=status, error=refusal)
            return
        address = self._admission.address(scope)
        if not self._admission.limits.connections_of_address.take(address):
            error = CommandError(ErrorCode.TOO_MANY_REQUESTS, "too many connections from this address")
            await refuse(scope, receive, send, status=429, error=error)
            return
        direct: FrameWriter | None = scope.get("extensions", {}).get("gateway.writer")
        accepted = False
        try:
            if (await receive())["type"] != "websocket.connect":
                return
            await send({"type": "websocket.accept"})
            accepted = True
        finally:
            if not accepted:
                self._admission.limits.connections_of_address.give_back(address)
        if direct is not None:
            self._connection(direct, address, trusted=trusted).start()
            return
        writer = AsgiWriter(send)
        connection = self._connection(writer, address, trusted=trusted)
        connection.start()
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text: str | None = message.get("text")
                data = message.get("bytes") or b"" if text is None else text.encode()
                connection.received(data, text=text is not None)
                await writer.readable()
        finally:
            connection.closed()
            await writer.aclose()

    def _connection(self, writer: FrameWriter, address: str, *, trusted: bool) -> Connection:
        return Connection(
            self._hub,
            self._actions,
            self._wheel,
            writer,
            self._tasks,
            admission=self._admission,
            address=address,
            trusted=trusted,
        )
