"""Where the API is reached: ``POST /api/<method>``."""

from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.answers import json_answer
from gateway.api.methods import Methods
from gateway.api.topics import topic_routes
from gateway.codec import decode_event
from gateway.errors import CommandError, ErrorCode, EventRefusedError
from gateway.hub import Hub

__all__ = ["MAX_BODY", "routes"]

MAX_BODY = 4 * 1024 * 1024
"""Bytes of the largest body."""


def routes() -> list[Route]:
    """Give the routes of ``/api/{method}`` and of topics as a whole."""
    return [Route("/api/{method}", _answer, methods=["POST"]), *topic_routes()]


async def _answer(request: Request) -> Response:
    request.app.state.authority.api(request)
    methods = _methods(request)
    try:
        body = await _body(request)
    except EventRefusedError as error:
        refused = {"error": {"code": int(ErrorCode.BAD_REQUEST), "message": str(error)}}
        return json_answer(refused, status=400)
    # What a method says is told with status 200, as its clients expect it.
    return json_answer(await methods.answer(request.path_params["method"], body))


def _methods(request: Request) -> Methods:
    """Give the methods over this process's hub, made once."""
    state = request.app.state
    hub: Hub | None = getattr(state, "hub", None)
    if hub is None:
        raise CommandError(ErrorCode.INTERNAL, "the application has not started: run it with lifespan on")
    found: Methods | None = getattr(state, "api", None)
    if found is None:
        found = state.api = Methods(hub)
    return found


async def _body(request: Request) -> dict[str, Any]:
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > MAX_BODY:
                raise CommandError(ErrorCode.LIMIT_EXCEEDED, f"a body may have {MAX_BODY} bytes")
    except ClientDisconnect as error:
        raise CommandError(ErrorCode.BAD_REQUEST, "the body did not come whole") from error
    return decode_event(bytes(data)) if data else {}
