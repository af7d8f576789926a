"""Saying once that a server is away, and once that it is back, however many connections of this process notice."""

import logging
from typing import ClassVar
from weakref import WeakSet, WeakValueDictionary

__all__ = ["Outage"]

logger = logging.getLogger(__name__)


class Outage:
    """What the connections of this process to one server are missing; made by `Outage.of`.

    Args:
        name: The server, for messages.

    """

    _known: ClassVar[WeakValueDictionary[str, "Outage"]] = WeakValueDictionary()

    def __init__(self, name: str) -> None:
        self._name = name
        self._missing: WeakSet[object] = WeakSet()
        """Who tries in vain."""

    @classmethod
    def of(cls, name: str) -> "Outage":
        """Give the one of a server, the same for all who ask."""
        known = cls._known.get(name)
        if known is None:
            known = cls._known[name] = cls(name)
        return known

    def away(self, who: object, why: str) -> None:
        """Note that somebody cannot reach the server; the first one is told to people.

        Args:
            who: Keeps the connection, and calls `back` or `forget` later.
            why: A sentence without secrets.

        """
        if self._missing:
            logger.debug("%s; trying on", why)
        else:
            logger.warning("%s; trying on", why)
        self._missing.add(who)

    def back(self, who: object) -> None:
        """Note that somebody reaches the server; after the last one that did not, people are told."""
        if who in self._missing:
            self._missing.discard(who)
            if not self._missing:
                # As loud as the other: who has read that must read this too.
                logger.warning("Redis at %s is back", self._name)

    def forget(self, who: object) -> None:
        """Note that somebody does not try any more."""
        self._missing.discard(who)
