"""What a dialect is: the run's moments in another protocol's words."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from gateway.dialects.run_feed import Moment

__all__ = ["Dialect"]


class Dialect(ABC):
    """Translates one run for one reader.

    Attributes:
        headers: Of the response, beside those of every stream.
        names: Whether a server-sent event is named by its ``type``.
        done: What ends the stream, after the last event; "" where nothing does.

    """

    headers: ClassVar[Mapping[str, str]] = {}
    names: ClassVar[bool] = False
    done: ClassVar[str] = ""

    def __init__(self, topic: str) -> None:
        """Begin; ``topic`` is where the run is."""
        self.topic: str = topic

    @abstractmethod
    def render(self, moment: Moment) -> list[dict[str, Any]]:
        """Give the events that say this."""

    def preface(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Say, after the run's start, what was said before it: the folded conversation (PROTOCOL.md 5.8)."""
        return []

    def numbered(self, events: list[dict[str, Any]], *, first: int, last: int) -> list[dict[str, Any]]:
        """Number the events that stand for the topic's events from one offset to another, where the dialect does."""
        return events
