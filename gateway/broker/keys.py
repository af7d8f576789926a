"""Names of everything that lies in Redis (STORE.md 1)."""

import binascii
import zlib

from gateway.types import Topic

__all__ = ["SHARDS", "SLOTS", "Keys", "shard_of", "slot_of"]

SHARDS = 64
"""Of the indexes; a part of the stored format."""

SLOTS = 16384
"""Of a Redis Cluster."""


class Keys:
    """The names under one prefix.

    Args:
        prefix: What all of them begin with, so that several gateways can share a server; 1 to 64 characters.

    Raises:
        ValueError: The prefix is empty, too long or has a brace, which would move the keys' hash tag.

    """

    def __init__(self, prefix: str) -> None:
        if not 1 <= len(prefix) <= 64 or "{" in prefix or "}" in prefix:
            raise ValueError(f"expected a key prefix of 1 to 64 characters without braces, got {prefix!r}")
        self.prefix = prefix

    def of(self, topic: Topic) -> tuple[str, str, str, str, str, str]:
        """Give a topic's six keys in the order of the scripts: state, events, open, snap, archive, blobs."""
        state = self.channel(topic)
        return (state, f"{state}:events", f"{state}:open", f"{state}:snap", f"{state}:archive", f"{state}:blobs")

    def channel(self, topic: Topic) -> str:
        """Name the channel of a topic's publications; it is the name of its state, too."""
        return f"{self.prefix}:{{{topic}}}"

    def control_channel(self, topic: Topic) -> str:
        """Name the channel of the wake-ups for a topic's run."""
        return f"{self.prefix}:{{{topic}}}:ctl"

    def readers(self, topic: Topic) -> str:
        """Name the list of a topic's readers, which is no part of its history, and the channel of its changes."""
        return f"{self.prefix}:{{{topic}}}:readers"

    def deletion(self, topic: Topic) -> tuple[str, ...]:
        """Give all that a topic has: its six keys and the list of its readers."""
        return (*self.of(topic), self.readers(topic))

    @property
    def control(self) -> str:
        """Name the list of notices to all gateway processes, and the channel on which they hear of them."""
        return f"{self.prefix}:{{0}}:control"

    @property
    def nodes(self) -> str:
        """Name the table of the gateway processes that are alive."""
        return f"{self.prefix}:{{0}}:nodes"

    def topics(self, shard: int) -> str:
        """Name a shard of the index of topics by last activity."""
        return f"{self.prefix}:{{{shard}}}:topics"

    def due(self, shard: int) -> str:
        """Name a shard of the index of topics by due time, and the channel of its wake-ups."""
        return f"{self.prefix}:{{{shard}}}:due"


def shard_of(topic: Topic) -> int:
    """Give the shard of the indexes that a topic belongs to."""
    return zlib.crc32(topic.encode()) % SHARDS


def slot_of(key: str) -> int:
    """Give the slot of a key or channel in a Redis Cluster: by its hash tag, or by all of it where it has none."""
    _, brace, rest = key.partition("{")
    tag, closed, _ = rest.partition("}")
    return binascii.crc_hqx((tag if brace and closed and tag else key).encode(), 0) % SLOTS
