"""A dialect's reader that comes back: its translator brought to where it stands."""

from collections.abc import AsyncIterator
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
    broker: Broker, topic: Topic, position: Position, *, told: str, dialect: type[Dialect], view: View | None
) -> Translator | None:
    """Read a topic up to a position, and give what has translated the last run there; None where it cannot be known.

    Args:
        broker: Where the topic is.
        topic: The topic.
        position: Where the reader stands.
        told: How much it had of the message that was open there, as `Translator.told` gave it.
        dialect: What it reads.
        view: The rules by which it sees the topic.

    Raises:
        BrokerUnavailableError: The broker cannot be asked.

    """
    here = await broker.read(topic, position, limit=0)
    if not here.complete or position.offset > here.top:
        return None
    translator = Translator(dialect, topic)
    async for event in _events(broker, topic, translator, view):
        if event is None:
            return None
        if event.offset > position.offset:
            if translator.told == told:
                return translator
            # Its deltas are gone, since the message has ended: they were the beginning of its whole.
            for shown in [event] if view is None else view.shown([event]):
                if translator.restore(decode_event(shown.data), told):
                    return translator
            continue
        for shown in [event] if view is None else view.shown([event]):
            data = decode_event(shown.data)
            if translator.ended and data.get("type") == "agent_start" and data.get("parent") is None:
                translator = Translator(dialect, topic)
            translator.take(data, first=event.first, last=event.offset)
    return translator if translator.told == told else None


async def _events(
    broker: Broker, topic: Topic, translator: Translator, view: View | None
) -> AsyncIterator[Missed | None]:
    """Read a topic from its start, or after a snapshot that the translator joins; None where it was just trimmed."""
    history = await broker.read(topic, START, limit=PAGE)
    at = 0
    if not history.complete:
        if history.snapshot is None:
            yield None
            return
        mirror = Mirror.restore(decode_event(history.snapshot))
        at = mirror.offset
        translator.join(shown_snapshot(mirror.snapshot(), view))
    while True:
        for event in missed_after(at, history.events):
            at = event.offset
            yield event
        if history.upto >= history.top:
            return
        history = await broker.read(topic, Position(epoch=history.epoch, offset=max(history.upto, at)), limit=PAGE)
        if not history.complete:
            yield None
            return


def shown_snapshot(snapshot: dict[str, Any], view: View | None) -> dict[str, Any]:
    """Give what a view shows of a snapshot."""
    return snapshot if view is None else {**snapshot, "mirror": view.state(snapshot["mirror"])}
