"""Answers to `history` commands: pages of stored events (PROTOCOL.md 3.3)."""

from typing import Any

import msgspec

from gateway.broker.port import Broker
from gateway.errors import CommandError, ErrorCode
from gateway.recovery import Missed, judge, missed_after
from gateway.types import START, Position, Topic
from gateway.view import View

__all__ = ["MAX_HISTORY", "HistoryPages"]

MAX_HISTORY = 1000
"""Publications of one reply at most."""

MAX_BYTES = 120 * 1024
"""Bytes of events in one reply; a page may be shorter than asked, but not empty."""

_TRIES = 8
"""Reads from further and further back, until the asked number of events before a place is found."""


class HistoryPages:
    """Reads pages for clients."""

    def __init__(self, broker: Broker) -> None:
        """Make it over a store."""
        self._broker = broker

    async def read(
        self, topic: Topic, *, since: Position | None, limit: int, reverse: bool, view: View | None = None
    ) -> dict[str, Any]:
        """Answer one command.

        Args:
            topic: The topic.
            since: Events above it; in reverse, those before it. None = from the first, or from the last.
            limit: Events; 0 for none, negative for as many as fit.
            reverse: The newest first.
            view: The rules by which the reader sees the topic; None shows it everything.

        Raises:
            CommandError: 112, the position may not go on.
            BrokerUnavailableError: The broker is away.

        """
        count = MAX_HISTORY if limit < 0 else min(limit, MAX_HISTORY)
        asked = START if since is None else since
        history = await self._broker.read(topic, asked, limit=0 if reverse else count)
        if since is not None and judge(since, history) is None:
            raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, f"position {since} cannot be continued")
        if reverse and count:
            before = since.offset if since is not None else history.top + 1
            events = await self._before(topic, before, history.epoch, history.floor, count)
            if view is not None:
                events = view.shown(events)
        else:
            first = history.events[0].offset - 1 if since is None and history.events else asked.offset
            events = missed_after(first, history.events)
            if view is not None and events:
                events = _joined(first, view.through(events, end=events[-1].offset))
        return {"publications": _fitting(events), "epoch": history.epoch, "offset": history.top}

    async def _before(self, topic: Topic, before: int, epoch: str, floor: int, count: int) -> list[Missed]:
        """Find the last ``count`` events below an offset, newest first; compacted deltas leave holes in between."""
        events: list[Missed] = []
        reach = count
        for _ in range(_TRIES):
            start = max(floor, before - 1 - reach)
            events = []
            while True:
                history = await self._broker.read(topic, Position(epoch=epoch, offset=start), limit=MAX_HISTORY)
                if not history.complete:
                    raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the history was replaced", temporary=True)
                page = [event for event in missed_after(start, history.events) if event.offset < before]
                events.extend(page)
                if history.upto >= min(before - 1, history.top):
                    break
                start = history.upto
            if len(events) >= count or start <= floor or before - 1 - reach <= floor:
                break
            reach *= 4
        return [Missed(first=event.offset, offset=event.offset, data=event.data) for event in events[: -count - 1 : -1]]


def _joined(cursor: int, events: list[Missed]) -> list[Missed]:
    """Let each event stand for those before it that are not shown."""
    joined = []
    for event in events:
        joined.append(Missed(first=cursor + 1, offset=event.offset, data=event.data))
        cursor = event.offset
    return joined


def _fitting(events: list[Missed]) -> list[dict[str, Any]]:
    publications: list[dict[str, Any]] = []
    size = 0
    for event in events:
        size += len(event.data) + 64
        if publications and size > MAX_BYTES:
            break
        item: dict[str, Any] = {"offset": event.offset, "data": msgspec.Raw(event.data)}
        if event.first < event.offset:
            item["tags"] = {"from": str(event.first)}
        publications.append(item)
    return publications
