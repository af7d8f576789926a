"""A run's events out of a topic's, in one dialect — pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.dialects.dialect import Dialect
from gateway.dialects.run_feed import Moment, RunFeed
from gateway.mirror import Mirror

__all__ = ["Translator"]


class Translator:
    """Translates one run of a topic for one reader; it ends with the run."""

    def __init__(self, dialect: type[Dialect], topic: str) -> None:
        """Begin with no run: the first that starts is the one."""
        self.dialect: Dialect = dialect(topic)
        self._feed = RunFeed()

    @property
    def begun(self) -> bool:
        """Whether there is a run."""
        return bool(self._feed.run)

    @property
    def ended(self) -> bool:
        """Whether its run has ended: nothing follows."""
        return self._feed.ended

    def join(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Begin with the run that lives in a snapshot, in the middle; nothing where none does.

        Raises:
            SnapshotError: It is no snapshot.

        """
        mirror = Mirror.restore(snapshot)
        start, *others = self._feed.join(mirror.state()) or (None,)
        if start is None:
            return []
        before = [message for message in mirror.messages() if message["run"] != self._feed.run]
        events = [*self.dialect.render(start), *self.dialect.preface(before), *self._render(others)]
        # Numbers below those of what follows, however many there are.
        return self.dialect.numbered(events, first=mirror.offset, last=mirror.offset)

    def take(self, event: Mapping[str, Any], *, first: int, last: int) -> list[dict[str, Any]]:
        """Translate an event that stands for the offsets from ``first`` to ``last``."""
        return self.dialect.numbered(self._render(self._feed.take(event)), first=first, last=last)

    @property
    def told(self) -> str:
        """How much of the message that is open has been told; "" where none is."""
        return self._feed.told

    def restore(self, ended: Mapping[str, Any], told: str) -> bool:
        """Stand where so much of a message had been told, of which only the whole is left; False where it cannot be."""
        if ended.get("type") != "assistant_message" or ended.get("run") != self._feed.run:
            return False
        moments = self._feed.restore(ended, told)
        self._render(moments or ())
        return moments is not None

    def lose(self, *, at: int) -> list[dict[str, Any]]:
        """End the run, whose history is gone, at an offset."""
        return self.dialect.numbered(self._render(self._feed.lose()), first=at, last=at)

    def _render(self, moments: Iterable[Moment]) -> list[dict[str, Any]]:
        return [event for moment in moments for event in self.dialect.render(moment)]
