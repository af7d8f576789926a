"""A server that sentinels watch, wherever it is right now."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from gateway.broker.address import Address
from gateway.broker.server import Argument, ProtocolT, Server
from gateway.broker.wire import Wire
from gateway.errors import BrokerError, BrokerUnavailableError

__all__ = ["SentinelServer", "asked", "server_at"]

logger = logging.getLogger(__name__)


async def asked(server: Server, *command: Argument) -> Any:
    """Ask a server one thing, on a connection for that alone; it may be a sentinel or a replica, too.

    Raises:
        BrokerUnavailableError: It does not answer.
        BrokerError: Its answer is an error.

    """
    wire = await server.open(lambda: Wire(server))
    try:
        async with asyncio.timeout(server.timeout):
            for greeting in server.greeting:
                await wire.call(*greeting)
            return await wire.call(*command)
    except TimeoutError as error:
        raise BrokerUnavailableError(f"Redis at {server.name} did not answer in time", told=True) from error
    finally:
        wire.close()
        await wire.wait_closed()


class SentinelServer(Server):
    """The master of a service, asked for at every connect.

    Args:
        address: With the sentinels and the service.
        timeout: Seconds that a connection may take, and a call.

    """

    def __init__(self, address: Address, *, timeout: float) -> None:
        super().__init__(address.at(*address.places[0]), timeout=timeout, name=address.name)
        self.checked = True
        self._service = address.service
        self._sentinels = [Server(url, timeout=min(timeout, 1.0)) for url in address.sentinels()]
        """The one that answered last comes first. One that is silent must not take the time of the others."""

    async def open(self, factory: Callable[[], ProtocolT]) -> ProtocolT:
        """Connect a protocol to the master.

        Raises:
            BrokerUnavailableError: No sentinel knows a master, or it does not answer in time.

        """
        self.host, self.port = await self._master()
        return await super().open(factory)

    async def stands(self, place: tuple[str, int]) -> bool:
        """Tell whether the master is where it was; where no sentinel answers, it is taken to be."""
        with contextlib.suppress(BrokerUnavailableError):
            return await self._master() == place
        return True

    async def _master(self) -> tuple[str, int]:
        why = ""
        for sentinel in tuple(self._sentinels):
            try:
                found = await asked(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            except BrokerError as error:
                logger.debug("%s", error)
                why = why or f": {error}"
                continue
            if found is None:
                why = why or f": the sentinel at {sentinel.name} knows no {self._service}"
                continue
            self._sentinels.remove(sentinel)
            self._sentinels.insert(0, sentinel)
            return found[0].decode(), int(found[1])
        raise BrokerUnavailableError(f"cannot find the Redis that is {self.name}{why}", told=True)


def server_at(url: str, *, timeout: float) -> Server:
    """Make the one server of a URL.

    Raises:
        ValueError: The URL has another form, or is of a cluster.

    """
    address = Address.of(url)
    if address.kind == "cluster":
        raise ValueError("expected the URL of one server, got that of a cluster")
    return SentinelServer(address, timeout=timeout) if address.kind == "sentinel" else Server(url, timeout=timeout)
