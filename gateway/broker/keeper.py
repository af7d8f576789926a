"""One connection to a server, kept for all who want it."""

import asyncio
import logging

from gateway.broker.server import Server
from gateway.broker.wire import Wire
from gateway.errors import BrokerUnavailableError

__all__ = ["WireKeeper"]

logger = logging.getLogger(__name__)


class WireKeeper:
    """Keeps one wire to a server, made when it is first wanted and again when it has ended.

    All who want it while it is being made share that one attempt, and its failure.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._wire: Wire | None = None
        self._attempt: asyncio.Task[Wire] | None = None
        self._closed = False

    async def wire(self) -> Wire:
        """Give a wire that was up a moment ago.

        Raises:
            BrokerUnavailableError: There is none to be had now, or the keeper is closed.
            BrokerError: The server does not let us in.

        """
        if self._wire is not None and not self._wire.closed and not self._wire.idle:
            return self._wire
        if self._closed:
            raise BrokerUnavailableError(f"the broker on Redis at {self._server.name} is closed")
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._made())
            self._attempt.add_done_callback(self._attempted)
        attempt = self._attempt
        try:
            # Shielded: a caller that gives up takes the attempt from nobody else.
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled():
                raise BrokerUnavailableError(f"the broker on Redis at {self._server.name} is closed") from None
            raise

    async def _made(self) -> Wire:
        if self._wire is not None and not self._wire.closed:
            try:
                await self._wire.confirm()
            except BrokerUnavailableError as error:
                logger.debug("%s", error)
            else:
                if await self._server.stands(self._wire.place):
                    return self._wire
                self._wire.close()
        return await Wire.connect(self._server)

    def _attempted(self, attempt: asyncio.Task[Wire]) -> None:
        self._attempt = None
        if attempt.cancelled():
            return
        error = attempt.exception()
        if error is None:
            self._wire = attempt.result()
            self._server.outage.back(self)
        elif isinstance(error, BrokerUnavailableError):
            self._server.outage.away(self, str(error))

    def retire(self) -> None:
        """End the wire at once; later calls fail."""
        self._closed = True
        self._server.outage.forget(self)
        if self._attempt is not None:
            self._attempt.cancel()
        if self._wire is not None:
            self._wire.close()

    async def aclose(self) -> None:
        """End the wire; later calls fail."""
        self._closed = True
        if self._attempt is not None:
            attempt = self._attempt
            attempt.cancel()
            await asyncio.wait([attempt])
            self._attempted(attempt)
        self._server.outage.forget(self)
        if self._wire is not None:
            self._wire.close()
            await self._wire.wait_closed()
