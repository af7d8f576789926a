"""Keeps histories within their bound: topics that grow are looked at, folded and trimmed (STORE.md 4)."""

import asyncio
import logging
from collections import OrderedDict

from gateway.broker.port import Appended, Broker, Stale, Weight
from gateway.codec import encode_json
from gateway.errors import BrokerUnavailableError
from gateway.session_log import LogEntry, event_of
from gateway.topic_state import read_topic
from gateway.types import Topic

__all__ = ["MAX_FIELDS", "Trimmer"]

_logger = logging.getLogger(__name__)

MAX_FIELDS = 1000
"""Fields of a topic's state above which it is folded: trims drop those that answer for what is long past."""

_LOOKS = 8
"""How often a topic is looked at while it grows by as much as its bound."""

_LOOK_FIELDS = 500
"""Events after which a topic is looked at in any case: each may have added a field."""

_REMEMBERED = 10_000
"""Topics of which it is known how much they have grown; a forgotten one is looked at early."""

_WORTH = 4
"""To make room, a topic is folded only if at least this part of it would be freed."""


class Trimmer:
    """Folds topics that have passed their bound.

    Whoever appends looks, so that a topic is kept within its bound whether anybody reads it or not: at the first append
    of a process, then each time it has written an eighth of the bound there, or the topic's offset passes certain
    numbers, which any one of many writers sees. Two that fold at once are only waste.

    Args:
        broker: Whose appends are told to `grew`.
        max_bytes: Of the events above the snapshot; a larger snapshot raises it to its own size.
        max_events: Of the same.

    """

    def __init__(self, broker: Broker, *, max_bytes: int, max_events: int) -> None:
        self._broker = broker
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._look_bytes = max(1, max_bytes // _LOOKS)
        self._look_events = max(1, min(max_events // _LOOKS, _LOOK_FIELDS))
        self._grown: OrderedDict[Topic, int] = OrderedDict()
        """Bytes that this process has written since it looked last; written longest ago first."""
        self._full: dict[Topic, int] = {}
        """Sizes at which folding would have freed nothing; noted longest ago first."""
        self._looking: dict[Topic, asyncio.Task[None]] = {}
        self._folding = asyncio.Lock()
        """One fold at a time: it takes memory and the loop's time."""

    def grew(self, topic: Topic, answer: Appended, *, size: int) -> None:
        """Take note of an append.

        Args:
            topic: Where.
            answer: What the store said.
            size: Its bytes.

        """
        before = self._grown.pop(topic, None)
        grown = self._grown[topic] = (before or 0) + size
        if len(self._grown) > _REMEMBERED:
            self._grown.popitem(last=False)
        passed = (answer.first - 1) // self._look_events != answer.position.offset // self._look_events
        if topic not in self._looking and (before is None or passed or grown >= self._look_bytes):
            self._grown[topic] = 0
            task = asyncio.create_task(self._look(topic), name=f"gateway trimmer {topic}")
            self._looking[topic] = task
            task.add_done_callback(lambda _: self._looking.pop(topic, None))

    async def make_room(self, topic: Topic) -> None:
        """Fold a topic that takes nothing more, if that frees a part of it worth the work.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        async with self._folding:
            weight = await self._broker.weigh(topic)
            if weight.recent * _WORTH <= weight.size or self._full.get(topic) == weight.size:
                return
            if not await self._fold(topic, weight, freeing=True):
                self._full[topic] = weight.size
                if len(self._full) > _REMEMBERED:
                    del self._full[next(iter(self._full))]

    async def aclose(self) -> None:
        """Stop looking; a fold that is under way is given up."""
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _look(self, topic: Topic) -> None:
        try:
            if self._is_heavy(await self._broker.weigh(topic)):
                async with self._folding:
                    # Another process may have folded it meanwhile.
                    weight = await self._broker.weigh(topic)
                    if self._is_heavy(weight):
                        await self._fold(topic, weight, freeing=False)
        except BrokerUnavailableError as error:
            _logger.debug("topic %s was not looked at: %s", topic, error)
        except Exception:
            _logger.exception("topic %s could not be trimmed", topic)

    def _is_heavy(self, weight: Weight) -> bool:
        return (
            weight.recent > max(self._max_bytes, weight.snapshot)
            or weight.events > self._max_events
            or weight.fields > MAX_FIELDS
        )

    async def _fold(self, topic: Topic, weight: Weight, *, freeing: bool) -> bool:
        """Fold a topic at its top; ``freeing`` only if it is smaller then, which is returned."""
        log: dict[int, LogEntry] = {}
        state = await read_topic(self._broker, topic, log=log)
        snapshot = encode_json(state.mirror.snapshot())
        visible = {entry["seq"] for entry in state.mirror.context["events"]}
        shadowed = {seq: encode_json(event_of(entry)) for seq, entry in log.items() if seq not in visible}
        archived: int | Stale = weight.archive
        left = len(snapshot) + weight.archive + sum(len(data) for data in shadowed.values())
        if freeing and left >= state.size:
            return False
        if shadowed:
            # What the trim removes must be there before it: compaction never destroys.
            archived = await self._broker.archive(topic, shadowed, position=state.position)
        if not isinstance(archived, Stale):
            # The archive counts for the bound: it is as if the fold had found so much less.
            await self._broker.trim(topic, snapshot, position=state.position, size=state.size - archived)
        return left < state.size
