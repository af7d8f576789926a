"""Answers of one news each: long polls, and reads of the Durable Streams protocol."""

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.admission import Admission
from gateway.answers import json_text
from gateway.codec import encode_json
from gateway.errors import CommandError, ErrorCode
from gateway.hub import Hub
from gateway.streaming.durable import DurableEvents, cursor_after, offset_of, position_of
from gateway.streaming.outlet import EXTENSION, Socket
from gateway.streaming.poll import News, Poll
from gateway.streaming.reader import StreamReader
from gateway.streaming.request import StreamRequest
from gateway.streaming.response import StreamResponse, patiently
from gateway.types import START, Position

__all__ = ["durable", "long_poll"]

WAIT = 20.0
"""Seconds that a poll waits by default for news."""

MAX_WAIT = 60.0


async def long_poll(request: Request, asked: StreamRequest) -> Response:
    """Answer ``?poll=1`` (PROTOCOL.md 9.6).

    Raises:
        CommandError: 100 the broker is away, 107 ``wait`` is no number of seconds.

    """
    news = await _news(request, asked, asked.asked, mirror=asked.mirror, wait=_wait(request))
    answer: dict[str, object] = {
        "topic": asked.topic,
        "epoch": news.position.epoch,
        "offset": news.position.offset,
        "events": [
            {"offset": event.offset, "data": msgspec.Raw(event.data)}
            | ({"from": event.first} if event.first < event.offset else {})
            for event in news.events
        ],
    }
    if news.snapshot:
        answer["snapshot"] = msgspec.Raw(news.snapshot)
    elif asked.known and not news.recovered:
        answer["gap"] = {"asked": asked.known}
    return json_text(encode_json(answer))


async def durable(request: Request, asked: StreamRequest) -> Response | StreamResponse:
    """Answer a read of the Durable Streams protocol (PROTOCOL.md 9.7).

    Raises:
        CommandError: 100 the broker is away, 102 nobody has written the topic, 107 another parameter, 112 the offset
            cannot be continued.

    """
    query = request.query_params
    live = query.get("live")
    if live not in {None, "long-poll", "sse"}:
        raise CommandError(ErrorCode.BAD_REQUEST, f"expected long-poll or sse as live, got {live!r:.80}")
    if live is not None and "offset" not in query:
        raise CommandError(ErrorCode.BAD_REQUEST, "expected an offset beside live")
    position = position_of(query)
    if request.method == "HEAD":
        news = await _news(request, asked, None, mirror=False, wait=0)
        _check_written(news)
        return Response(headers=_headers(news) | {"content-type": "application/json", "cache-control": "no-store"})
    now = position is None
    if position is None or (live and position == START):
        # Nobody waits for a stream that there is none of: it is told at once.
        news = await _news(request, asked, None, mirror=False, wait=0)
        _check_written(news)
        position = news.position if position is None else position
    if live == "sse":
        form = DurableEvents(cursor=query.get("cursor"))
        state = request.app.state
        reader = StreamReader(state.hub, state.wheel, form, topic=asked.topic, identity=asked.identity, view=asked.view)
        return StreamResponse(state.hub, reader, form, admission=state.admission, asked=position, known="", strict=True)
    news = await _news(request, asked, position, mirror=False, wait=WAIT if live else 0)
    _check_written(news)
    if not news.recovered:
        raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the offset cannot be continued: read from the start")
    headers = _headers(news)
    if live:
        headers["stream-cursor"] = cursor_after(query.get("cursor"))
        if not news.events:
            return Response(status_code=204, headers=headers | {"cache-control": "no-store"})
    if not now:
        headers["etag"] = f'"{offset_of(position)}:{headers["stream-next-offset"]}:{int(news.up_to_date)}"'
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
    # What one reader may see another may not: no shared cache keeps it.
    headers["cache-control"] = "no-store" if now else "private, no-cache"
    body = b"[%b]" % b",".join(event.data for event in news.events)
    return Response(body, headers=headers, media_type="application/json")


async def _news(
    request: Request, asked: StreamRequest, position: Position | None, *, mirror: bool, wait: float
) -> News:
    hub: Hub = request.app.state.hub
    admission: Admission = request.app.state.admission
    identity = asked.identity
    if identity.expires_at is not None:
        wait = min(wait, max(0.0, identity.expires_at - time.time()))
    poll = Poll(hub, identity=identity)
    socket: Socket | None = request.scope.get("extensions", {}).get(EXTENSION)
    if socket is not None:
        socket.begin(poll.finish)
    with admission.reading(request.scope, identity.user):
        news = await patiently(
            lambda: poll.take(asked.topic, asked=position, mirror=mirror, view=asked.view, wait=wait),
            within=wait + hub.settings.command_timeout,
        )
    admission.authority.check(identity)
    return news


def _headers(news: News) -> dict[str, str]:
    headers = {"stream-next-offset": offset_of(news.position)}
    if news.up_to_date:
        headers["stream-up-to-date"] = "true"
    return headers


def _check_written(news: News) -> None:
    if not news.position.epoch and not news.events:
        raise CommandError(ErrorCode.UNKNOWN_TOPIC, "nobody has written this topic")


def _wait(request: Request) -> float:
    text = request.query_params.get("wait", "")
    if not text:
        return WAIT
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT:
        raise CommandError(ErrorCode.BAD_REQUEST, f"expected 0 to {MAX_WAIT:g} seconds as wait, got {text!r:.80}")
    return seconds
