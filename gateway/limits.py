"""How much one caller may use of a gateway process — pure."""

from collections import OrderedDict

from gateway.settings import Settings

__all__ = ["Allowance", "Allowances", "Limits", "Tally"]

MAX_BUCKETS = 20_000
"""Callers whose requests are remembered; of more, those that have asked for nothing the longest are forgotten."""


class Allowance:
    """A token bucket: so many at once, so many a second in the long run."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, *, rate: float, burst: int) -> None:
        """Begin with a full bucket.

        Args:
            rate: How many come back each second; 0 counts nothing.
            burst: How many it holds.

        """
        self._rate = rate
        self._burst = burst
        self._left = float(burst)
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Take one, where there is one, at ``now``, in seconds of a clock that only goes on."""
        if not self._rate:
            return True
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Allowances:
    """A token bucket for each of many."""

    def __init__(self, *, rate: float, burst: int) -> None:
        """Begin with nobody.

        Args:
            rate: How many come back to each a second; 0 counts nothing.
            burst: How many each may take at once.

        """
        self.rate: float = rate
        self.refusals: int = 0
        self._burst = burst
        self._buckets: OrderedDict[str, Allowance] = OrderedDict()

    def __len__(self) -> int:
        """Say how many are remembered."""
        return len(self._buckets)

    def take(self, who: str, now: float) -> bool:
        """Take one of somebody's, as `Allowance.take`; "" is nobody."""
        if not self.rate or not who:
            return True
        bucket = self._buckets.get(who)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._buckets.popitem(last=False)
            bucket = self._buckets[who] = Allowance(rate=self.rate, burst=self._burst)
        self._buckets.move_to_end(who)
        taken = bucket.take(now)
        self.refusals += not taken
        return taken


class Tally:
    """Counts what each of many has, up to a limit; who has nothing is not remembered."""

    def __init__(self, limit: int) -> None:
        """Begin with nothing.

        Args:
            limit: How many each may have; 0 counts nothing.

        """
        self.limit: int = limit
        self.refusals: int = 0
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        """Say how many have something."""
        return len(self._counts)

    def take(self, who: str) -> bool:
        """Count one more, unless that is one too many; "" is nobody."""
        if not self.limit or not who:
            return True
        count = self._counts.get(who, 0)
        if count >= self.limit:
            self.refusals += 1
            return False
        self._counts[who] = count + 1
        return True

    def give_back(self, who: str, number: int = 1) -> None:
        """Count less."""
        left = self._counts.get(who, 0) - number
        if left > 0:
            self._counts[who] = left
        else:
            self._counts.pop(who, None)


class Limits:
    """What a gateway process counts of all its connections."""

    def __init__(self, settings: Settings) -> None:
        """Begin with nobody."""
        self.connections_of_user = Tally(settings.max_connections_per_user)
        self.connections_of_address = Tally(settings.max_connections_per_address)
        self.topics_of_user = Tally(settings.max_topics_per_user)
        self.requests = Allowances(rate=settings.request_rate, burst=settings.request_burst)
