"""A topic over HTTP: its snapshot, its conversation, its archive, its large values (PROTOCOL.md 8)."""

import asyncio
import re
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
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
from gateway.mirror import Mirror
from gateway.redaction import Redaction
from gateway.session import topic_of
from gateway.types import Topic
from gateway.view import View

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
    redaction = identity.redaction(topic)
    match below:
        case []:
            identity.require("read", topic)
            answer = partial(_snapshot, hub, topic, redaction, messages=request.query_params.get("messages") == "1")
        case ["archive"]:
            identity.require("history", topic)
            start, limit = _count(request, "from", 0), _count(request, "limit", 1000)
            answer = partial(_archive, hub, topic, redaction, start=start, limit=limit)
        case ["blobs", blob]:
            identity.require("read", topic)
            answer = partial(_blob, hub, topic, redaction, name=blob)
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


async def _snapshot(hub: Hub, topic: Topic, redaction: Redaction | None, *, messages: bool) -> Response:
    if redaction is not None:
        snapshot = await _redacted(hub, topic, redaction)
        if messages:
            snapshot["messages"] = Mirror.restore(snapshot).messages()
        return json_answer(snapshot)
    if not messages:
        return json_text((await hub.snapshot(topic)).text)
    whole, conversation = await hub.conversation(topic)
    return json_text(b'%b,"messages":%b}' % (whole.text[:-1], encode_json(conversation)))


async def _redacted(hub: Hub, topic: Topic, redaction: Redaction) -> dict[str, Any]:
    whole: dict[str, Any] = msgspec.json.decode((await hub.snapshot(topic)).text)
    return View(redaction=redaction).snapshot(whole)


async def _archive(hub: Hub, topic: Topic, redaction: Redaction | None, *, start: int, limit: int) -> Response:
    page = await Archive(hub.broker).page(topic, start=start, limit=limit)
    if redaction is not None:
        shown = [redaction.redact_entry(entry) for entry in page["events"]]
        page["events"] = [entry for entry in shown if entry is not None]
    return json_answer(page)


async def _blob(hub: Hub, topic: Topic, redaction: Redaction | None, *, name: str) -> Response:
    if not _HASH.match(name):
        raise HTTPException(404)
    # What is taken out may be a large value: then the reader has no business with it, whoever told it the hash.
    if redaction is not None and name not in _referred((await _redacted(hub, topic, redaction))["mirror"]["context"]):
        raise HTTPException(404)
    found = await hub.broker.blobs(topic, [name])
    if name not in found:
        raise HTTPException(404)
    # Named after what is in it, so it never changes.
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(found[name], media_type="text/plain; charset=utf-8", headers=headers)


def _referred(context: dict[str, Any]) -> set[str]:
    """Give the hashes that a conversation refers to; what its texts say, anybody may have written."""
    found: set[str] = set()
    for item in (*context["events"], *context["tool_calls"]):
        blobs = item.get("blobs") if isinstance(item, dict) else None
        if isinstance(blobs, dict):
            found |= {blob["hash"] for blob in blobs.values() if isinstance(blob, dict) and "hash" in blob}
    return found


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
