"""The gateway as an ASGI application."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.actions import Actions
from gateway.admission import Admission
from gateway.answers import command_error, http_error, json_answer
from gateway.api import routes as api_routes
from gateway.auth import Authority, TokenGate
from gateway.broker.port import Broker
from gateway.broker.redis import RedisBroker
from gateway.dashboard import routes as dashboard_routes
from gateway.endpoint import WebsocketEndpoint
from gateway.errors import CommandError, ErrorCode
from gateway.exposition import Exposition
from gateway.exposition import routes as metrics_routes
from gateway.hub import Hub
from gateway.metrics import Sources
from gateway.origin import OriginGuard, origins_of
from gateway.prices import read_prices
from gateway.run_watch import RunWatch
from gateway.settings import Settings, SettingsError
from gateway.site import Site
from gateway.streaming import routes as streaming_routes
from gateway.sweeper import Sweeper
from gateway.topic_resources import routes as topic_routes
from gateway.wheel import Wheel

__all__ = ["QueryRedaction", "SecurityHeaders", "app_from_env", "create_app", "static_directory"]

_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def create_app(settings: Settings, *, broker: Broker | None = None) -> Starlette:
    """Make the application of one gateway process.

    Args:
        settings: Its settings.
        broker: The store; None connects to ``settings.redis_url`` for as long as the application runs.
            One that is given stays the caller's to close.

    Raises:
        SettingsError: Neither a broker nor an address of one is given, or a key or grant has another form.

    """
    if broker is None and not settings.redis_url:
        raise SettingsError("GATEWAY_REDIS_URL: expected the address of a Redis or Valkey, got nothing")
    redact_queries()
    authority = Authority(settings)
    admission = Admission(settings, authority)
    endpoints = _Endpoints(settings, broker, admission)
    app = Starlette(
        routes=[
            WebSocketRoute("/connection/websocket", _Door(endpoints)),
            Route("/healthz", endpoints.healthz),
            Route("/readyz", endpoints.readyz),
            *metrics_routes(),
            *api_routes(),
            *streaming_routes(),
            *topic_routes(),
            Route("/", endpoints.index),
            *dashboard_routes(endpoints.site),
            Mount("/static", endpoints.site),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(OriginGuard, host=settings.host, allowed=origins_of(settings.allowed_origins)),
            Middleware(TokenGate, authority=authority),
        ],
        exception_handlers={CommandError: command_error, HTTPException: http_error},
        lifespan=endpoints.lifespan,
    )
    app.state.authority = authority
    app.state.admission = admission
    return app


def app_from_env() -> Starlette:
    """Make the application from ``GATEWAY_*`` variables: the factory for uvicorn's workers.

    Raises:
        SettingsError: A variable has a wrong value, or GATEWAY_REDIS_URL is missing.

    """
    return create_app(Settings.from_env(os.environ))


def static_directory() -> Path:
    """Find the pages: ``static`` beside the package in a checkout, inside the package in a wheel."""
    package = Path(__file__).parent
    inside = package / "static"
    return inside if inside.is_dir() else package.parent / "static"


def redact_queries() -> None:
    """Keep query strings, where tokens may be, out of the server's logs."""
    for name in ("uvicorn.access", "uvicorn.error", "uvicorn.asgi"):
        log = logging.getLogger(name)
        if not any(isinstance(found, QueryRedaction) for found in log.filters):
            log.addFilter(QueryRedaction())


class QueryRedaction(logging.Filter):
    """Replaces what follows the question mark of a path in log arguments."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; it is always logged."""
        if isinstance(record.args, tuple):
            record.args = tuple(_redacted(value) for value in record.args)
        return True


def _redacted(value: object) -> object:
    if isinstance(value, str) and value.startswith("/") and "?" in value:
        return value.partition("?")[0] + "?…"
    return value


class SecurityHeaders:
    """Puts the headers on every response that keep pages from being framed, sniffed or scripted from elsewhere."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self.app: ASGIApp = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)


class _Endpoints:
    """What the routes do, and the life of what they share."""

    def __init__(self, settings: Settings, broker: Broker | None, admission: Admission) -> None:
        self._settings = settings
        self._admission = admission
        self._given = broker
        self._prices = read_prices(settings.prices)
        self._hub: Hub | None = None
        self.site = Site(static_directory())
        self.websocket: WebsocketEndpoint | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        redact_queries()  # once more: a server may have set its logs up after the application was made
        settings = self._settings
        broker = self._given or RedisBroker(
            settings.redis_url,
            key_prefix=settings.key_prefix,
            max_bytes=settings.max_bytes,
            max_history_bytes=settings.max_history_bytes,
            max_history_events=settings.max_history_events,
        )
        hub = Hub(broker, settings)

        def each_step() -> None:
            hub.tick()
            self._admission.turn()
            runs.look(hub.topics)

        wheel, runs, sweeper = Wheel(settings, each_step), RunWatch(), Sweeper(broker)
        app.state.hub = hub
        app.state.wheel = wheel
        self.websocket = WebsocketEndpoint(hub, Actions(broker, prices=self._prices), wheel, self._admission)
        hub.start()
        self._hub = hub
        self._admission.authority.revoked = hub.control.revoked
        serving = [asyncio.create_task(wheel.run()), asyncio.create_task(sweeper.serve())]
        sources = Sources(hub=hub, wheel=wheel, sweeper=sweeper, runs=runs, limits=self._admission.limits)
        exposition = app.state.exposition = Exposition(sources, settings)
        try:
            exposition.open()
            yield
        finally:
            await exposition.aclose()
            for task in serving:
                task.cancel()
            for task in serving:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self.websocket.aclose()
            await hub.aclose()
            await app.state.authority.aclose()
            if self._given is None:
                await broker.aclose()

    @property
    def hub(self) -> Hub:
        if self._hub is None:
            raise CommandError(ErrorCode.INTERNAL, "the application has not started: run it with lifespan on")
        return self._hub

    async def healthz(self, request: Request) -> Response:
        return json_answer({"ok": True})

    async def readyz(self, request: Request) -> Response:
        trouble = self.hub.trouble
        if trouble:
            return json_answer({"error": {"code": int(ErrorCode.INTERNAL), "message": trouble}}, status=503)
        return json_answer({"ok": True})

    async def index(self, request: Request) -> Response:
        return await self.site.page(request, "index.html")


class _Door:
    """An ASGI application of its own, as a route takes only functions and such."""

    def __init__(self, endpoints: _Endpoints) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._endpoints.websocket is None:
            raise RuntimeError("the application has not started: run it with lifespan on")
        await self._endpoints.websocket(scope, receive, send)
