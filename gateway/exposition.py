"""How the metrics of a process are asked for: over a port of their own, or over the gateway's."""

import asyncio
import logging
import threading
from collections.abc import Iterable
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.errors import CommandError, ErrorCode
from gateway.metrics import Metrics, Sources, registry_of
from gateway.settings import Settings

__all__ = ["Exposition", "routes"]

_logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that a loop may take to give the numbers; one that is busier has other troubles to tell of."""


class Exposition:
    """Serves the metrics of one process.

    Args:
        sources: Whose numbers they are.
        settings: The port, and how many workers there are.

    """

    def __init__(self, sources: Sources, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics(sources)
        self._here = registry_of(self._metrics.collect)
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int | None:
        """The port of its own; None where it has none."""
        return None if self._server is None else self._server.server_port

    def open(self) -> None:
        """Listen on the port of the metrics, where one is set: each worker takes the first that is free.

        Raises:
            OSError: There is none that is free.

        """
        first, host = self._settings.metrics_port, self._settings.metrics_host
        if not first:
            return
        loop = asyncio.get_running_loop()

        async def read() -> list[Metric]:
            return list(self._metrics.collect())

        def collect() -> Iterable[Metric]:
            # The numbers belong to the loop; the server has threads of its own.
            return asyncio.run_coroutine_threadsafe(read(), loop).result(PATIENCE)

        registry = registry_of(collect)
        last = first + self._settings.workers - 1
        for port in range(first, last + 1):
            try:
                self._server, self._thread = start_http_server(port, host, registry)
            except OSError:
                if port == last:
                    raise
            else:
                _logger.info("metrics: http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port)
                return

    async def aclose(self) -> None:
        """Listen no more."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        # Not in the loop: who asks right now waits for it.
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        await asyncio.to_thread(thread.join)

    def answer(self, accept: str) -> Response:
        """Give the metrics in the form that a client wants.

        Raises:
            CommandError: 108, this is one of several workers: nobody could tell whose numbers they are.

        """
        workers = self._settings.workers
        if workers > 1:
            raise CommandError(
                ErrorCode.NOT_AVAILABLE,
                f"{workers} workers share this port, each with numbers of its own; set GATEWAY_METRICS_PORT and ask "
                f"that port and the {workers - 1} after it",
            )
        encode, content_type = choose_encoder(accept)
        return Response(encode(self._here), headers={"content-type": content_type, "cache-control": "no-store"})


def routes() -> list[Route]:
    """Give ``/metrics``, for who has an API key where keys are configured."""
    return [Route("/metrics", _metrics)]


async def _metrics(request: Request) -> Response:
    request.app.state.authority.api(request)
    exposition: Exposition = request.app.state.exposition
    return exposition.answer(request.headers.get("accept", ""))
