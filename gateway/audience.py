"""Readers of one topic who see it by the same rules."""

from typing import Protocol

from gateway.subscriber import Subscriber
from gateway.view import View

__all__ = ["Audience"]


class Audience(Protocol):
    """Those readers, and what is made for all of them at once; the fan-out serves it as it serves a topic."""

    view: View
    live: dict[Subscriber, None]
    """Served by every flush."""
    members: dict[Subscriber, None]
    """These, and those that their connection brings up."""

    @property
    def top(self) -> int:
        """What a reader's cursor is at when nothing is missing to it."""

    def heard(self) -> None:
        """Note that the topic has news, or other readers; called often, so it only puts itself in a line."""

    async def advance(self, subscriber: Subscriber) -> None:
        """Write the next piece to a subscriber that is behind and whose socket takes it.

        Raises:
            BrokerUnavailableError: The piece has to come from the store, and the broker cannot be asked.

        """
