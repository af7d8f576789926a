"""The connections of one gateway process, as notices from other processes are about them."""

import asyncio
import contextlib
from collections.abc import Mapping

from gateway.errors import BrokerError, UnsubscribeCode
from gateway.frames import encode_push
from gateway.presence import Presence
from gateway.subscriber import Reader
from gateway.topic import HubTopic
from gateway.types import Topic

__all__ = ["Household"]


class Household:
    """Does to this process's connections what notices ask for; implements `gateway.control.House`.

    Args:
        readers: The connections, as they are.
        topics: What they read, by name, as it is.
        presence: What the store is told of them.

    """

    def __init__(self, readers: Mapping[Reader, None], topics: Mapping[str, HubTopic], presence: Presence) -> None:
        self._readers = readers
        self._topics = topics
        self._presence = presence

    def disconnect(self, user: str, *, client: str, keep: frozenset[str], code: int, reason: str, at: int) -> None:
        """Close the connections of a user: that one client, or all but those to keep and those with newer tokens."""
        for reader in list(self._readers):
            if reader.user != user or reader.client in keep:
                continue
            newer = reader.issued_at is not None and reader.issued_at * 1000 >= at
            if reader.client == client or (not client and not newer):
                reader.close(code, reason)

    def unsubscribe(self, user: str, topic: Topic, *, client: str) -> None:
        """End a user's subscriptions to a topic: of one client, or of all where it is ""."""
        found = self._topics.get(topic)
        if found is None:
            return
        body = {"code": int(UnsubscribeCode.SERVER), "reason": "server unsubscribe"}
        line = encode_push("unsubscribe", body, channel=topic)
        for subscriber in found.subscribers:
            reader = subscriber.reader
            if reader.user == user and client in {"", reader.client}:
                found.leave(subscriber, now=asyncio.get_running_loop().time())
                reader.unsubscribed(subscriber, line)

    def census(self) -> dict[str, int]:
        """Count the readers of this process by topic."""
        return {topic.name: topic.readers for topic in self._topics.values() if topic.readers}

    def population(self) -> tuple[int, int]:
        """Count the connections of this process, and their users."""
        return len(self._readers), len({reader.user for reader in self._readers})

    async def deleted(self, topic: Topic) -> None:
        """Write again who reads a topic: the list went with its history."""
        with contextlib.suppress(BrokerError):  # it is written again in a while anyway
            await self._presence.renew(topic)
