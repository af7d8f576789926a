"""The bare subclass: uvicorn's websocket protocol with frames written straight to the transports, and nothing else.

    python -m bench.baselines.subclass PORT lines FEED-PORT
    python -m bench.baselines.subclass PORT redis URL CHANNEL

Frames are made once, joined per loop tick and written to every connection. No session, no recovery, no bounds.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from bench.baselines.feed import Channels, Lines, frame

writes: dict[Any, Callable[[bytes], None]] = {}
pending: list[bytes] = []


def heard(line: bytes) -> None:
    if not pending:
        asyncio.get_running_loop().call_soon(flush)
    pending.append(frame(line))


def flush() -> None:
    frames = b"".join(pending)
    pending.clear()
    for write in writes.values():
        write(frames)


class Protocol(WebSocketsSansIOProtocol):
    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.accept":
            writes[self] = self.transport.write

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        writes.pop(self, None)


async def endpoint(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.receive_text()
    except WebSocketDisconnect:
        return


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    if sys.argv[2] == "redis":
        channels = Channels(sys.argv[3], lambda _, payload: heard(payload))
        await channels.connect()
        channels.subscribe(sys.argv[4])
    else:
        await asyncio.get_running_loop().create_server(lambda: Lines(heard), "127.0.0.1", int(sys.argv[3]))
    yield


app: Callable[..., Awaitable[None]] = Starlette(routes=[WebSocketRoute("/", endpoint)], lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        ws=Protocol,
        log_level="warning",
        ws_ping_interval=None,
        ws_per_message_deflate=False,
    )
