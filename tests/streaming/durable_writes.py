"""A write side of Durable Streams in front of a gateway, so that the protocol's published suite can test our read side.

A stream is a topic. What is written becomes events ``{"body": …}``, which replies give back as what was written, a text
or JSON values; offsets, cursors, tags, statuses and all other headers of replies are the gateway's own.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gateway.broker.redis import RedisBroker
from tests.serving import PATIENCE, append

__all__ = ["writable"]

_HOP = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}


def writable(gateway: str, broker: RedisBroker) -> Starlette:
    """Give the application.

    Args:
        gateway: The URL of a gateway.
        broker: Its broker.

    """
    kinds: dict[str, str] = {}
    http = httpx.AsyncClient(base_url=gateway, trust_env=False, timeout=PATIENCE * 2)

    async def put(request: Request) -> Response:
        name, kind = _name(request), request.headers.get("content-type", "application/octet-stream")
        if name in kinds:
            return Response(status_code=200 if kinds[name] == kind else 409)
        kinds[name] = kind
        return await _write(request, name, status=201)

    async def post(request: Request) -> Response:
        name = _name(request)
        if name not in kinds:
            return Response(status_code=404)
        if not await request.body() or (await request.body() == b"[]" and "json" in kinds[name]):
            return Response(status_code=400)
        return await _write(request, name, status=204)

    async def _write(request: Request, name: str, *, status: int) -> Response:
        body = await request.body()
        bodies: list[Any] = []
        if "json" in kinds[name]:
            value = json.loads(body or "[]")
            bodies = value if isinstance(value, list) else [value]
        elif body:
            bodies = [body.decode("latin-1")]
        # A topic that nobody has written is none; an empty stream is one with an event without a body.
        events: list[dict[str, Any]] = [{"body": one} for one in bodies] or [{"created": True}]
        await append(broker, name, *events)
        head = await http.head(f"/topics/{name}/stream")
        headers = {"content-type": kinds[name], "stream-next-offset": head.headers["stream-next-offset"]}
        return Response(status_code=status, headers=headers | {"location": str(request.url)})

    async def delete(request: Request) -> Response:
        name = _name(request)
        if kinds.pop(name, None) is None:
            return Response(status_code=404)
        await http.post("/api/history_remove", json={"channel": name})
        return Response(status_code=204)

    async def get(request: Request) -> Response:
        name = _name(request)
        kind = kinds.get(name, "")
        path = f"/topics/{name}/stream?{request.url.query}"
        passed = {key: value for key, value in request.headers.items() if key in {"accept", "if-none-match", "origin"}}
        asked = http.build_request(request.method, path, headers=passed)
        reply = await http.send(asked, stream=True)
        headers = {key: value for key, value in reply.headers.items() if key not in _HOP}
        if headers.get("content-type", "").startswith("text/event-stream"):
            return StreamingResponse(_events(reply, kind), reply.status_code, headers)
        body = await reply.aread()
        await reply.aclose()
        if reply.status_code == 200:
            headers["content-type"] = kind
            body = _written(body, kind) if body else b""
        return Response(body, reply.status_code, headers)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with http:
            yield

    path = "/v1/stream/{name:path}"
    routes = [
        Route(path, put, methods=["PUT"]),
        Route(path, post, methods=["POST"]),
        Route(path, delete, methods=["DELETE"]),
        Route(path, get, methods=["GET", "HEAD", "OPTIONS"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def _name(request: Request) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", request.path_params["name"])


def _written(body: bytes, kind: str) -> bytes:
    """Give what was written, of a reply's events."""
    bodies = [event["body"] for event in json.loads(body) if "body" in event]
    if "json" in kind:
        return json.dumps(bodies, separators=(",", ":")).encode()
    return "".join(bodies).encode("latin-1")


async def _events(reply: httpx.Response, kind: str) -> AsyncIterator[bytes]:
    """Give server-sent events with what was written in their data."""
    text = ""
    try:
        async for piece in reply.aiter_text():
            *blocks, text = (text + piece).split("\n\n")
            for block in blocks:
                if not block.startswith("event: data\n"):
                    yield f"{block}\n\n".encode()
                    continue
                data = block.removeprefix("event: data\ndata: ")
                written = _written(data.encode(), kind)
                lines = b"".join(b"data:%b\n" % line for line in re.split(rb"\r\n|\r|\n", written))
                yield b"event: data\n%b\n" % lines
    finally:
        await reply.aclose()
