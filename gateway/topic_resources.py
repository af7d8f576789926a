"""A topic over HTTP: its snapshot, its conversation, its archive, its large values (PROTOCOL.md 8)."""

import asyncio
import re
from functools import partial
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.answers import json_answer, json_text
from gateway.archive import Archive
from gateway.codec import encode_json
from gateway.errors import BrokerUnavailableError, CommandError, ErrorCode
from gateway.grants import Identity
from gateway.hub import Hub
from gateway.session import topic_of
from gateway.types import Topic

__all__ = ["routes"]

RETRY = 0.05
"""Seconds between two tries of a request while the broker is away; the command timeout ends them."""

_HASH = re.compile(r"[0-9a-f]{64}\Z")


def routes() -> list[Route]:
    """Give the routes of ``/topics/{topic}`` and below."""
    return [Route("/topics/{topic:path}", _topic)]


async def _topic(request: Request) -> Response:
    name, *below = _raw_parts(request)
    topic = topic_of(name)
    identity: Identity = request.app.state.authority.http(request)
    hub: Hub | None = getattr(request.app.state, "hub", None)
    if hub is None:
        raise CommandError(ErrorCode.INTERNAL, "the application has not started: run it with lifespan on")
    match below:
        case []:
            identity.require("read", topic)
            answer = partial(_conversation if request.query_params.get("messages") == "1" else _snapshot, hub, topic)
        case ["archive"]:
            identity.require("history", topic)
            start, limit = _count(request, "from", 0), _count(request, "limit", 1000)
            answer = partial(_archive, hub, topic, start=start, limit=limit)
        case ["blobs", blob]:
            identity.require("read", topic)
            answer = partial(_blob, hub, topic, name=blob)
        case _:
            raise HTTPException(404)
    try:
        async with asyncio.timeout(hub.settings.command_timeout):
            while True:
                try:
                    return await answer()
                except BrokerUnavailableError:
                    await asyncio.sleep(RETRY)
    except TimeoutError as error:
        raise CommandError(ErrorCode.INTERNAL, "the broker is away; try again", temporary=True) from error


async def _snapshot(hub: Hub, topic: Topic) -> Response:
    return json_text((await hub.snapshot(topic)).text)


async def _conversation(hub: Hub, topic: Topic) -> Response:
    snapshot, messages = await hub.conversation(topic)
    return json_text(b'%b,"messages":%b}' % (snapshot.text[:-1], encode_json(messages)))


async def _archive(hub: Hub, topic: Topic, *, start: int, limit: int) -> Response:
    return json_answer(await Archive(hub.broker).page(topic, start=start, limit=limit))


async def _blob(hub: Hub, topic: Topic, *, name: str) -> Response:
    found = await hub.broker.blobs(topic, [name]) if _HASH.match(name) else {}
    if name not in found:
        raise HTTPException(404)
    # Named after what is in it, so it never changes.
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(found[name], media_type="text/plain; charset=utf-8", headers=headers)


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
