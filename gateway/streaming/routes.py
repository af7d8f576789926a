"""Where streams are asked for."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from gateway.codec import decode_event
from gateway.dialects import DIALECTS, Dialect, Translator
from gateway.errors import CommandError, ErrorCode
from gateway.hub import Hub
from gateway.streaming.dialect_form import DialectForm
from gateway.streaming.forms import EventStream, Form, JsonLines, Shared
from gateway.streaming.polling import durable, long_poll
from gateway.streaming.reader import StreamReader
from gateway.streaming.request import StreamRequest, below_topics, read_flag, read_request
from gateway.streaming.response import StreamResponse, patiently
from gateway.streaming.resuming import shown_snapshot, translator_at
from gateway.types import Position

__all__ = ["routes"]

MAX_RESUMING = 4
"""Histories that are read at a time for dialects' readers that come back; the others wait."""

_EXPOSED = "etag, stream-cursor, stream-next-offset, stream-up-to-date"
_PREFLIGHT = {
    "access-control-allow-methods": "GET, HEAD",
    "access-control-allow-headers": "authorization, last-event-id, x-api-key",
    "access-control-max-age": "600",
}


def routes() -> list[Route]:
    """Give the routes of ``/topics/{topic}/events`` and ``/topics/{topic}/stream``."""
    streams = _Streams()
    return [
        _TopicRoute("/topics/{topic:path}/events", streams.events, methods=["GET", "HEAD", "OPTIONS"]),
        _TopicRoute("/topics/{topic:path}/stream", streams.stream, methods=["GET", "HEAD", "OPTIONS"]),
    ]


class _TopicRoute(Route):
    """Matches the path as it was sent: a topic's own ``/`` is ``%2F`` there, so ``a%2Fevents`` is a topic."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        if match != Match.NONE and below_topics(scope)[1:] != [self.path.rpartition("/")[2]]:
            return Match.NONE, {}
        return match, found


class _Streams:
    def __init__(self) -> None:
        lines, events = Shared(), Shared()
        self._forms: dict[str, Callable[[], Form]] = {
            "sse": lambda: EventStream(events),
            "ndjson": lambda: JsonLines(lines),
        }
        self._resuming = asyncio.Semaphore(MAX_RESUMING)

    async def events(self, request: Request) -> Response | StreamResponse:
        if request.method == "OPTIONS":
            return _options(request)
        asked = read_request(request)
        answer: Response | StreamResponse
        if "dialect" in request.query_params:
            answer = await self._in_dialect(request, asked)
        elif read_flag(request, "poll", absent=False):
            answer = await long_poll(request, asked)
        else:
            answer = self._plain(request, asked)
        answer.headers.update(_cross_origin(request))
        return answer

    async def stream(self, request: Request) -> Response | StreamResponse:
        if request.method == "OPTIONS":
            return _options(request)
        answer = await durable(request, read_request(request))
        answer.headers.update(_cross_origin(request))
        return answer

    def _plain(self, request: Request, asked: StreamRequest) -> StreamResponse:
        name = request.query_params.get("format") or (
            "ndjson" if "application/x-ndjson" in request.headers.get("accept", "") else "sse"
        )
        make = self._forms.get(name)
        if make is None:
            raise CommandError(ErrorCode.BAD_REQUEST, f"expected sse or ndjson as format, got {name!r:.80}")
        form = make()
        reader = _reader(request, asked, form, mirror=asked.mirror)
        state = request.app.state
        return StreamResponse(state.hub, reader, form, admission=state.admission, asked=asked.asked, known=asked.known)

    async def _in_dialect(self, request: Request, asked: StreamRequest) -> Response | StreamResponse:
        name = request.query_params["dialect"]
        dialect = DIALECTS.get(name)
        if dialect is None:
            raise CommandError(
                ErrorCode.BAD_REQUEST, f"expected one of {', '.join(DIALECTS)} as dialect, got {name!r:.80}"
            )
        hub: Hub = request.app.state.hub
        begun: list[dict[str, Any]] = []
        position = asked.asked
        if asked.known and position is None:
            raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the position cannot be continued; ask without one")
        if position is None:
            translator = Translator(dialect, asked.topic)
            snapshot = await patiently(lambda: hub.snapshot(asked.topic), within=hub.settings.command_timeout)
            begun = translator.join(shown_snapshot(decode_event(snapshot.text), asked.view))
            position = Position(epoch=snapshot.epoch, offset=snapshot.offset)
            if not translator.begun:
                return Response(status_code=204)
        elif asked.header:
            translator = await self._resumed(hub, asked, position, dialect)
            if translator.ended:
                return Response(status_code=204)
        else:
            translator = Translator(dialect, asked.topic)
        form = DialectForm(translator, begun=begun, skip=asked.skip)
        reader = _reader(request, asked, form, mirror=False)
        known = asked.known if asked.header else ""
        admission = request.app.state.admission
        response = StreamResponse(hub, reader, form, admission=admission, asked=position, known=known, strict=True)
        response.headers.update(dialect.headers)
        return response

    async def _resumed(self, hub: Hub, asked: StreamRequest, position: Position, dialect: type[Dialect]) -> Translator:
        async with self._resuming:
            translator = await patiently(
                lambda: translator_at(
                    hub.broker, asked.topic, position, told=asked.told, dialect=dialect, view=asked.view
                ),
                within=hub.settings.command_timeout,
            )
        if translator is None:
            raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the position cannot be continued; ask without one")
        return translator


def _reader(request: Request, asked: StreamRequest, form: Form, *, mirror: bool) -> StreamReader:
    state = request.app.state
    return StreamReader(
        state.hub,
        state.wheel,
        form,
        topic=asked.topic,
        identity=asked.identity,
        mirror=mirror,
        view=asked.view,
    )


def _options(request: Request) -> Response:
    headers = {"allow": "GET, HEAD, OPTIONS", **_cross_origin(request)}
    return Response(status_code=204, headers=headers | (_PREFLIGHT if len(headers) > 1 else {}))


def _cross_origin(request: Request) -> dict[str, str]:
    """Let the page that asks read the answer: the guard of origins has let no other one come this far."""
    origin = request.headers.get("origin")
    if origin is None:
        return {}
    return {"access-control-allow-origin": origin, "access-control-expose-headers": _EXPOSED, "vary": "origin"}
