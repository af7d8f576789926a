"""The usual hub: Starlette, a queue and a task per client.

python -m bench.baselines.queues PORT FEED-PORT
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from bench.baselines.feed import Lines

queues: dict[WebSocket, asyncio.Queue[str]] = {}


def heard(line: bytes) -> None:
    text = line.decode()
    for queue in queues.values():
        queue.put_nowait(text)


async def send(websocket: WebSocket, queue: asyncio.Queue[str]) -> None:
    while True:
        await websocket.send_text(await queue.get())


async def endpoint(websocket: WebSocket) -> None:
    await websocket.accept()
    queue = queues[websocket] = asyncio.Queue()
    sender = asyncio.create_task(send(websocket, queue))
    try:
        while (await websocket.receive())["type"] != "websocket.disconnect":
            pass
    finally:
        del queues[websocket]
        sender.cancel()
        await asyncio.wait([sender])


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    await asyncio.get_running_loop().create_server(lambda: Lines(heard), "127.0.0.1", int(sys.argv[2]))
    yield


if __name__ == "__main__":
    uvicorn.run(
        Starlette(routes=[WebSocketRoute("/", endpoint)], lifespan=lifespan),
        port=int(sys.argv[1]),
        log_level="warning",
        ws_ping_interval=None,
        ws_per_message_deflate=False,
    )
