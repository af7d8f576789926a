"""Where streams are asked for."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from gateway.errors import CommandError, ErrorCode
from gateway.streaming.forms import EventStream, Form, JsonLines, Shared
from gateway.streaming.reader import StreamReader
from gateway.streaming.request import below_topics, read_request
from gateway.streaming.response import StreamResponse

__all__ = ["routes"]

_PREFLIGHT = {
    "access-control-allow-methods": "GET, HEAD",
    "access-control-allow-headers": "authorization, last-event-id, x-api-key",
    "access-control-max-age": "600",
}


def routes() -> list[Route]:
    """Give the route of ``/topics/{topic}/events``."""
    streams = _Streams()
    return [_TopicRoute("/topics/{topic:path}/events", streams.events, methods=["GET", "HEAD", "OPTIONS"])]


class _TopicRoute(Route):
    """Matches the path as it was sent: a topic's own ``/`` is ``%2F`` there, so ``a%2Fevents`` is a topic."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        if match != Match.NONE and below_topics(scope)[1:] != ["events"]:
            return Match.NONE, {}
        return match, found


class _Streams:
    def __init__(self) -> None:
        lines, events = Shared(), Shared()
        self._forms: dict[str, Callable[[], Form]] = {
            "sse": lambda: EventStream(events),
            "ndjson": lambda: JsonLines(lines),
        }

    async def events(self, request: Request) -> Response | StreamResponse:
        if request.method == "OPTIONS":
            headers = {"allow": "GET, HEAD, OPTIONS", **_cross_origin(request)}
            return Response(status_code=204, headers=headers | (_PREFLIGHT if len(headers) > 1 else {}))
        asked = read_request(request)
        form = self._form(request)
        state = request.app.state
        reader = StreamReader(
            state.hub, state.wheel, form, topic=asked.topic, identity=asked.identity, mirror=asked.mirror
        )
        response = StreamResponse(state.hub, reader, form, asked)
        response.headers.update(_cross_origin(request))
        return response

    def _form(self, request: Request) -> Form:
        name = request.query_params.get("format") or (
            "ndjson" if "application/x-ndjson" in request.headers.get("accept", "") else "sse"
        )
        make = self._forms.get(name)
        if make is None:
            raise CommandError(ErrorCode.BAD_REQUEST, f"expected sse or ndjson as format, got {name!r:.80}")
        return make()


def _cross_origin(request: Request) -> dict[str, str]:
    """Let the page that asks read the answer: the guard of origins has let no other one come this far."""
    origin = request.headers.get("origin")
    if origin is None:
        return {}
    return {"access-control-allow-origin": origin, "vary": "origin"}
