"""Events as lines of JSON."""

import msgspec

from gateway.reader import Update
from gateway.types import Topic

__all__ = ["Lines"]


class Lines:
    """Turns updates into lines ``{"topic", "epoch", "offset", "data"}``, which name their topics themselves."""

    def name(self, topic: Topic, name: str) -> None:
        """Take the name of a topic: no line has it."""

    def forget(self, topic: Topic) -> str:
        """Give a topic's last words: it has none."""
        return ""

    def show(self, update: Update) -> str:
        """Give the line of an update; ``from`` is in it where it stands for several events."""
        line = {
            "topic": update.topic,
            "epoch": update.position.epoch,
            "offset": update.position.offset,
            "data": {"type": "snapshot", **update.data} if update.snapshot else update.data,
        }
        if update.first != update.position.offset:
            line["from"] = update.first
        return msgspec.json.encode(line).decode() + "\n"

    def end(self) -> str:
        """Give what ends an unfinished line: none is."""
        return ""
