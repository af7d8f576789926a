"""A TCP proxy whose faults are context managers: what networks do to the connections of real parts.

Put it between any two of them: a run and Valkey, a gateway and Valkey, a reader and its gateway.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

__all__ = ["Proxy"]

CHUNK = 64 * 1024


class _Pipe:
    """One connection through the proxy: two sockets, a task for each direction."""

    def __init__(self, proxy: "Proxy", client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.dead = False
        """Half-open: what is sent goes nowhere, and neither end is told."""

    def abort(self) -> None:
        """Reset both ends."""
        for writer in (self.client, self.server):
            _reset(writer)

    async def forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, down: bool) -> None:
        """Carry one direction until it ends."""
        proxy, loop = self.proxy, asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                arrived = loop.time()
                await proxy.flowing.wait()
                delay = arrived + proxy.delay - loop.time()
                if delay > 0:
                    await asyncio.sleep(delay)
                if self.dead:
                    continue
                if down and proxy.allowance is not None:
                    data, proxy.allowance = data[: proxy.allowance], max(0, proxy.allowance - len(data))
                    sink.write(data)
                    if proxy.allowance == 0:
                        await sink.drain()
                        proxy.spent.set()
                        return
                    continue
                sink.write(data)
                proxy.pieces += not down
                await sink.drain()


class Proxy:
    """Listens on a port of its own and carries every connection to the target's; an async context manager.

    Args:
        target: The port on this machine that it stands before.

    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        """Where it listens."""
        self.delay = 0.0
        """Seconds that each piece waits."""
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.allowance: int | None = None
        """Bytes that the target may still send to its clients; None for any number."""
        self.spent = asyncio.Event()
        """The allowance has been used up, and the connection that did it was cut."""
        self.opened = 0
        """Connections so far."""
        self.pieces = 0
        """What has been carried from clients to the target so far, read by read."""
        self._refusing = False
        self._pipes: set[_Pipe] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.reset()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The address of a Valkey behind it."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def connections(self) -> int:
        """Connections that are open, half-open ones among them."""
        return len(self._pipes)

    def reset(self) -> None:
        """Reset every connection, once."""
        for pipe in list(self._pipes):
            pipe.abort()

    @contextlib.contextmanager
    def latency(self, seconds: float) -> Iterator[None]:
        """Let each piece wait, in both directions."""
        self.delay = seconds
        try:
            yield
        finally:
            self.delay = 0.0

    @contextlib.contextmanager
    def stall(self) -> Iterator[None]:
        """Carry nothing, and lose nothing: all of it arrives afterwards."""
        self.flowing.clear()
        try:
            yield
        finally:
            self.flowing.set()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Reset every connection and refuse new ones."""
        self._refusing = True
        self.reset()
        try:
            yield
        finally:
            self._refusing = False

    @contextlib.contextmanager
    def half_open(self) -> Iterator[None]:
        """Swallow what the open connections send, for ever, without a sign to either end; new ones are refused.

        Afterwards new ones work, while the old ones stay dead: each end has to find that out by itself.
        """
        for pipe in self._pipes:
            pipe.dead = True
        self._refusing = True
        try:
            yield
        finally:
            self._refusing = False

    @contextlib.asynccontextmanager
    async def drop_after(self, count: int) -> AsyncIterator[None]:
        """Let the target send this many more bytes, all connections together, then cut the one that sent the last.

        Leaving waits until that has happened.
        """
        self.allowance = count
        self.spent.clear()
        try:
            yield
            await self.spent.wait()
        finally:
            self.allowance = None

    async def _accepted(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carry(reader, client)
        except asyncio.CancelledError:
            client.transport.abort()  # the proxy is closing; streams log a cancelled handler as a failure
        finally:
            self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.opened += 1
        if self._refusing:
            _reset(client)
            return
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _reset(client)
            return
        pipe = _Pipe(self, client, server)
        self._pipes.add(pipe)
        up = asyncio.create_task(pipe.forward(reader, server, down=False))
        down = asyncio.create_task(pipe.forward(answers, client, down=True))
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            if pipe.dead:
                await asyncio.wait([up, down])  # one end has given up; the other is not told
        finally:
            for direction in (up, down):
                direction.cancel()
            await asyncio.wait([up, down])
            self._pipes.discard(pipe)
            # A close in good order where one end closed so; whatever is buffered may still leave.
            for writer in (client, server):
                if pipe.dead:
                    _reset(writer)
                else:
                    writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a router does that has forgotten it: with RST, whatever was on its way is lost."""
    with contextlib.suppress(OSError):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
