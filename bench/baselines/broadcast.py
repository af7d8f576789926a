"""`websockets`' own server and its `broadcast`, on uvloop.

python -m bench.baselines.broadcast PORT FEED-PORT
"""

import asyncio
import sys

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve

from bench.baselines.feed import Lines

connections: set[ServerConnection] = set()


def heard(line: bytes) -> None:
    broadcast(connections, line, text=True)


async def handler(connection: ServerConnection) -> None:
    connections.add(connection)
    try:
        await connection.wait_closed()
    finally:
        connections.discard(connection)


async def main() -> None:
    await asyncio.get_running_loop().create_server(lambda: Lines(heard), "127.0.0.1", int(sys.argv[2]))
    port = int(sys.argv[1])
    async with serve(handler, "127.0.0.1", port, compression=None, ping_interval=None, backlog=4096) as server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
