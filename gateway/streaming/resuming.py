"""A dialect's reader that comes back, or joins: its translator brought to where it stands."""

from typing import Any

from gateway.broker.port import Broker
from gateway.codec import decode_event
from gateway.dialects import Dialect, Translator
from gateway.histories import PAGE
from gateway.mirror import Mirror
from gateway.recovery import Missed, missed_after
from gateway.types import START, Position, Topic
from gateway.view import View

__all__ = ["shown_snapshot", "translator_at"]


async def translator_at(
    broker: Broker, topic: Topic, position: Position, *, dialect: type[Dialect], view: View | None
) -> Translator | None:
    """Read a topic up to a position, and give what has translated the last run there; None where it cannot be known.

    Raises:
        BrokerUnavailableError: The broker cannot be asked.

    """
    here = await broker.read(topic, position, limit=0)
    if not here.complete or position.offset > here.top:
        return None
    translator = Translator(dialect, topic)
    history = await broker.read(topic, START, limit=PAGE)
    at = 0
    if not history.complete:
        if history.snapshot is None:
            return None
        mirror = Mirror.restore(decode_event(history.snapshot))
        if mirror.offset > position.offset:
            return None
        at = mirror.offset
        translator.join(shown_snapshot(mirror.snapshot(), view))
    while True:
        for event in missed_after(at, history.events):
            if event.first > position.offset:
                return translator
            if event.offset > position.offset:
                return None  # what the reader has of it was compacted since
            translator = _taken(translator, event, dialect, topic, view)
            at = event.offset
        if history.upto >= min(position.offset, history.top):
            return translator
        history = await broker.read(topic, Position(epoch=history.epoch, offset=max(history.upto, at)), limit=PAGE)
        if not history.complete:
            return None


def _taken(
    translator: Translator, event: Missed, dialect: type[Dialect], topic: Topic, view: View | None
) -> Translator:
    for shown in [event] if view is None else view.shown([event]):
        data = decode_event(shown.data)
        if translator.ended and data.get("type") == "agent_start" and data.get("parent") is None:
            translator = Translator(dialect, topic)
        translator.take(data, first=event.first, last=event.offset)
    return translator


def shown_snapshot(snapshot: dict[str, Any], view: View | None) -> dict[str, Any]:
    """Give what a view shows of a snapshot."""
    return snapshot if view is None else {**snapshot, "mirror": view.state(snapshot["mirror"])}
