"""The whole session log of a topic, what was shadowed and trimmed included (PROTOCOL.md 8)."""

from typing import Any

from gateway.broker.port import Broker
from gateway.codec import decode_event, encode_json
from gateway.session_log import LogEntry, entry_of
from gateway.topic_state import read_topic
from gateway.types import Topic

__all__ = ["MAX_ENTRIES", "MAX_PAGE_BYTES", "Archive"]

MAX_ENTRIES = 1000
"""Entries of one page at most."""

MAX_PAGE_BYTES = 1024 * 1024
"""Bytes of entries in one page; it may be shorter than asked, but not empty."""


class Archive:
    """Reads the log, wherever its events lie by now: in the archive, in the stored snapshot, in the history.

    Args:
        broker: Where the topics are.

    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def page(self, topic: Topic, *, start: int, limit: int = MAX_ENTRIES) -> dict[str, Any]:
        """Give ``{"topic", "epoch", "events", "next"}``: entries in log order, and the seq of the next page.

        Args:
            topic: The topic.
            start: The first seq.
            limit: Entries at most; at least one is given, where there is one.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        log: dict[int, LogEntry] = {}
        state = await read_topic(self._broker, topic, log=log)
        seqs = range(start, min(start + max(1, min(limit, MAX_ENTRIES)), state.seq))
        archived = await self._broker.archived(topic, [seq for seq in seqs if seq not in log])
        events: list[LogEntry] = []
        size = 0
        following: int | None = seqs.stop if seqs and seqs.stop < state.seq else None
        for seq in seqs:
            entry = log.get(seq)
            if entry is None and seq in archived:
                entry = entry_of(decode_event(archived[seq]))
            if entry is None:
                continue
            size += len(encode_json(entry))
            if events and size > MAX_PAGE_BYTES:
                following = seq
                break
            events.append(entry)
        return {"topic": topic, "epoch": state.position.epoch, "events": events, "next": following}
