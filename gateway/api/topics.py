"""A topic as a whole over HTTP: ``DELETE /topics/{topic}``, ``GET /topics/{topic}/export`` (PROTOCOL.md 10, 11)."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Scope

from gateway.answers import json_answer
from gateway.erasure import Erasure
from gateway.errors import BrokerUnavailableError, CommandError, ErrorCode
from gateway.export import Export
from gateway.grants import Identity, deny
from gateway.hub import Hub
from gateway.session import topic_of
from gateway.streaming.request import below_topics, read_flag
from gateway.types import Topic

__all__ = ["topic_routes"]

RETRY = 0.05
"""Seconds between two tries of a request while the broker is away; the command timeout ends them."""

_Answer = TypeVar("_Answer")


def topic_routes() -> list[Route]:
    """Give the routes; they go before that of ``/topics/{topic}`` itself."""
    return [
        _TopicRoute("/topics/{topic:path}", _delete, methods=["DELETE"]),
        _TopicRoute("/topics/{topic:path}/export", _export, methods=["GET"]),
    ]


class _TopicRoute(Route):
    """Matches the path as it was sent: a topic's own ``/`` is ``%2F`` there, so ``a%2Fexport`` is a topic."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        wanted = ["export"] if self.path.endswith("/export") else []
        # In full only: another method on the same path is for the routes behind.
        if match != Match.FULL or below_topics(scope)[1:] != wanted:
            return Match.NONE, {}
        return match, found


async def _delete(request: Request) -> Response:
    hub, topic, _ = _asked(request, "delete")
    deletion = await _within(hub, lambda: Erasure(hub.broker).erase(topic))
    return json_answer({"topic": topic, "deleted": bool(deletion.epoch), "epoch": deletion.epoch})


async def _export(request: Request) -> Response:
    hub, topic, identity = _asked(request, "export")
    if identity.redaction(topic) is not None:
        deny()  # what is exported is the whole
    export = Export(
        hub.broker,
        topic,
        values=read_flag(request, "values", absent=False),
        patience=hub.settings.command_timeout,
    )
    history = await _within(hub, export.first)
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", topic)
    headers = {
        "cache-control": "no-store",
        "content-disposition": f'attachment; filename="{name}.jsonl"',
        "x-accel-buffering": "no",
    }
    return StreamingResponse(export.lines(history), media_type="application/x-ndjson", headers=headers)


def _asked(request: Request, verb: str) -> tuple[Hub, Topic, Identity]:
    topic = topic_of(below_topics(request.scope)[0])
    identity: Identity = request.app.state.authority.http(request)
    identity.require(verb, topic)
    hub: Hub | None = getattr(request.app.state, "hub", None)
    if hub is None:
        raise CommandError(ErrorCode.INTERNAL, "the application has not started: run it with lifespan on")
    return hub, topic, identity


async def _within(hub: Hub, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
    try:
        async with asyncio.timeout(hub.settings.command_timeout):
            while True:
                try:
                    return await call()
                except BrokerUnavailableError:
                    await asyncio.sleep(RETRY)
    except TimeoutError as error:
        raise CommandError(ErrorCode.INTERNAL, "the broker is away; try again", temporary=True) from error
