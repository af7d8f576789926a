"""The gateway as an ASGI application."""

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.actions import Actions
from gateway.archive import Archive
from gateway.broker.port import Broker
from gateway.broker.redis import RedisBroker
from gateway.codec import encode_json
from gateway.dashboard import routes as dashboard_routes
from gateway.endpoint import WebsocketEndpoint
from gateway.errors import BrokerUnavailableError, CommandError, ErrorCode
from gateway.hub import Hub
from gateway.origin import OriginGuard
from gateway.session import topic_of
from gateway.settings import Settings, SettingsError
from gateway.streaming import routes as streaming_routes
from gateway.sweeper import Sweeper
from gateway.types import Topic
from gateway.wheel import Wheel

__all__ = ["QueryRedaction", "SecurityHeaders", "app_from_env", "create_app", "static_directory"]

HTTP_RETRY = 0.05
"""Seconds between two tries of a request while the broker is away; the command timeout ends them."""

_HASH = re.compile(r"[0-9a-f]{64}\Z")

_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_STATUS = {
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.UNKNOWN_TOPIC: 404,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.INTERNAL: 503,
}


def create_app(settings: Settings, *, broker: Broker | None = None) -> Starlette:
    """Make the application of one gateway process.

    Args:
        settings: Its settings.
        broker: The store; None connects to ``settings.redis_url`` for as long as the application runs.
            One that is given stays the caller's to close.

    Raises:
        SettingsError: Neither a broker nor an address of one is given.

    """
    if broker is None and not settings.redis_url:
        raise SettingsError("GATEWAY_REDIS_URL: expected the address of a Redis or Valkey, got nothing")
    redact_queries()
    endpoints = _Endpoints(settings, broker)
    return Starlette(
        routes=[
            WebSocketRoute("/connection/websocket", _Door(endpoints)),
            Route("/healthz", endpoints.healthz),
            Route("/readyz", endpoints.readyz),
            *streaming_routes(),
            Route("/topics/{topic:path}", endpoints.topic),
            Route("/", endpoints.index),
            *dashboard_routes(static_directory()),
            Mount("/static", StaticFiles(directory=static_directory())),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(OriginGuard, host=settings.host, allowed=settings.allowed_origins.split(",")),
        ],
        exception_handlers={CommandError: _command_error, HTTPException: _http_error},
        lifespan=endpoints.lifespan,
    )


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

    def __init__(self, settings: Settings, broker: Broker | None) -> None:
        self._settings = settings
        self._given = broker
        self._hub: Hub | None = None
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
        wheel = Wheel(settings, hub.tick)
        app.state.hub = hub
        app.state.wheel = wheel
        self.websocket = WebsocketEndpoint(hub, Actions(broker), wheel)
        hub.start()
        self._hub = hub
        serving = [asyncio.create_task(wheel.run()), asyncio.create_task(Sweeper(broker).serve())]
        try:
            yield
        finally:
            for task in serving:
                task.cancel()
            for task in serving:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await hub.aclose()
            if self._given is None:
                await broker.aclose()

    @property
    def hub(self) -> Hub:
        if self._hub is None:
            raise CommandError(ErrorCode.INTERNAL, "the application has not started: run it with lifespan on")
        return self._hub

    async def healthz(self, request: Request) -> Response:
        return _json({"ok": True})

    async def readyz(self, request: Request) -> Response:
        trouble = self.hub.trouble
        if trouble:
            return _json({"error": {"code": int(ErrorCode.INTERNAL), "message": trouble}}, status=503)
        return _json({"ok": True})

    async def topic(self, request: Request) -> Response:
        name, *below = _raw_parts(request)
        topic = topic_of(name)
        match below:
            case []:
                answer = self._conversation if request.query_params.get("messages") == "1" else self._snapshot
            case ["archive"]:
                answer = partial(self._archive, start=_count(request, "from", 0), limit=_count(request, "limit", 1000))
            case ["blobs", blob]:
                answer = partial(self._blob, name=blob)
            case _:
                raise HTTPException(404)
        try:
            async with asyncio.timeout(self._settings.command_timeout):
                while True:
                    try:
                        return await answer(topic)
                    except BrokerUnavailableError:
                        await asyncio.sleep(HTTP_RETRY)
        except TimeoutError as error:
            raise CommandError(ErrorCode.INTERNAL, "the broker is away; try again", temporary=True) from error

    async def _snapshot(self, topic: Topic) -> Response:
        return _json_text((await self.hub.snapshot(topic)).text)

    async def _conversation(self, topic: Topic) -> Response:
        snapshot, messages = await self.hub.conversation(topic)
        return _json_text(b'%b,"messages":%b}' % (snapshot.text[:-1], encode_json(messages)))

    async def _archive(self, topic: Topic, *, start: int, limit: int) -> Response:
        return _json(await Archive(self.hub.broker).page(topic, start=start, limit=limit))

    async def _blob(self, topic: Topic, *, name: str) -> Response:
        found = await self.hub.broker.blobs(topic, [name]) if _HASH.match(name) else {}
        if name not in found:
            raise HTTPException(404)
        # Named after what is in it, so it never changes.
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(found[name], media_type="text/plain; charset=utf-8", headers=headers)

    async def index(self, request: Request) -> Response:
        page = static_directory() / "index.html"
        if not page.is_file():
            raise HTTPException(404)
        return FileResponse(page)


class _Door:
    """An ASGI application of its own, as a route takes only functions and such."""

    def __init__(self, endpoints: _Endpoints) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._endpoints.websocket is None:
            raise RuntimeError("the application has not started: run it with lifespan on")
        await self._endpoints.websocket(scope, receive, send)


def _raw_parts(request: Request) -> list[str]:
    """Take the topic, and what is asked of it, from the path as it was sent: there, a ``/`` in a topic is ``%2F``."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    _, _, rest = raw.decode("latin-1").partition("?")[0].partition("/topics/")
    return [unquote(part) for part in rest.split("/")]


def _count(request: Request, name: str, absent: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return absent
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise CommandError(ErrorCode.BAD_REQUEST, f"expected an integer of 0 or more as {name}, got {text!r:.80}")
    return int(text)


def _json(value: Any, *, status: int = 200) -> Response:
    return _json_text(encode_json(value), status=status)


def _json_text(text: bytes, *, status: int = 200) -> Response:
    return Response(text, status_code=status, media_type="application/json", headers={"cache-control": "no-store"})


async def _command_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, CommandError):
        raise error
    status = _STATUS.get(ErrorCode(error.code), 400)
    return _json({"error": {"code": int(error.code), "message": error.message}}, status=status)


async def _http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _json({"error": {"code": error.status_code, "message": error.detail}}, status=error.status_code)
