"""A replica that was cut off, and takes its primary's place without what it has missed."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from redis.asyncio import Redis

from tests.faults.proxy import Proxy
from tests.servers import RedisServer

__all__ = ["Standby"]


class Standby:
    """A server that copies another through a proxy of its own; an async context manager.

    Entered, it holds everything that the primary has. Left without `promote`, it ends.

    Args:
        primary: What it copies.
        server: What it runs on; started here.

    """

    def __init__(self, primary: RedisServer, server: RedisServer) -> None:
        self.server = server
        self._proxy = Proxy(primary.port)
        self._primary = primary
        self._cut = contextlib.ExitStack()
        self._promoted = False

    async def __aenter__(self) -> Self:
        await self._proxy.__aenter__()
        await asyncio.to_thread(self.server.start)
        async with Redis(port=self.server.port) as redis, Redis(port=self._primary.port) as primary:
            await redis.replicaof("127.0.0.1", self._proxy.port)
            there = (await primary.info("replication"))["master_repl_offset"]
            while not await self._holds(redis, there):
                await asyncio.sleep(0.02)
        return self

    @staticmethod
    async def _holds(redis: Redis, offset: int) -> bool:
        replication, persistence = await redis.info("replication"), await redis.info("persistence")
        # Until its file is rewritten after the first copy, a kill -9 would lose that copy.
        kept = not persistence["aof_rewrite_in_progress"] and not persistence["aof_rewrite_scheduled"]
        return replication["master_link_status"] == "up" and replication["slave_repl_offset"] >= offset and kept

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cut.close()
        await self._proxy.__aexit__(kind, error, trace)
        if not self._promoted:
            self.server.kill()

    def cut_off(self) -> None:
        """Let it hear nothing more of its primary, which goes on."""
        self._cut.enter_context(self._proxy.cut())

    async def promote(self) -> None:
        """Make it a primary, with what it has."""
        async with Redis(port=self.server.port) as redis:
            await redis.replicaof("NO", "ONE")
        self._promoted = True
