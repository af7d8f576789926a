"""One connection's interest in one topic: a cursor, not a queue."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.recovery import Missed

if TYPE_CHECKING:
    from gateway.audience import Audience
    from gateway.snapshot import Snapshot
    from gateway.topic import HubTopic
    from gateway.view import View

__all__ = ["Reader", "Subscriber"]

# Most readers never need one, and an empty deque has 760 bytes; no room, so that nobody fills them by mistake.
_NO_PARTS: deque[bytes] = deque(maxlen=0)
_NO_PAGE: deque[Missed] = deque(maxlen=0)


class Reader(Protocol):
    """What a subscriber's connection is to the hub."""

    client: str
    user: str
    pending: list[bytes] | None  # what one fan-out gathers for it; None where it reads one topic

    @property
    def issued_at(self) -> float | None:
        """When its token says that it was made, Unix time in s; None where it does not say."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes finished websocket frames; the socket's own method where it can be: every event passes here."""

    def write_all(self, frames: Sequence[bytes]) -> None:
        """Write frames of several topics at once."""

    def push(self, line: bytes) -> None:
        """Write one push."""

    def fell_behind(self, subscriber: "Subscriber") -> None:
        """Bring a subscriber up, as soon as the socket takes more."""

    def caught_up(self, subscriber: "Subscriber") -> None:
        """Note that a subscriber is served by the flush again, or gone."""

    def dropped(self, subscriber: "Subscriber") -> None:
        """Note that the gateway ended a subscription."""

    def unsubscribed(self, subscriber: "Subscriber", line: bytes) -> None:
        """Note that a backend ended a subscription, and tell the client with this push."""

    def close(self, code: int, reason: str) -> None:
        """Say good-bye with a code."""

    def tell(self) -> None:
        """Say whether the broker is away, where the client believes otherwise."""


class Subscriber:
    """A reader's place in a topic."""

    __slots__ = ("audience", "cursor", "live", "mirror", "page", "parts", "reader", "stale", "topic", "write")

    def __init__(
        self,
        reader: Reader,
        topic: "HubTopic",
        *,
        mirror: bool,
        cursor: int,
        audience: "Audience | None" = None,
    ) -> None:
        """Make a subscriber that has everything up to ``cursor``."""
        self.reader: Reader = reader
        self.write: Callable[[bytes], None] = reader.write  # here too, so that a flush need not look at the connection
        self.audience: Audience | None = audience  # those who see the topic by the same rules; None sees everything
        self.topic: HubTopic = topic
        self.mirror: bool = mirror  # it can take snapshots
        self.cursor: int = cursor  # the last offset written to its connection
        self.live: bool = False  # served by the flush
        self.stale: bool = False  # needs a snapshot: what it has cannot be continued
        self.parts: deque[bytes] = _NO_PARTS  # frames of a snapshot that is under way
        self.page: deque[Missed] = _NO_PAGE  # read from the store for it, not yet written

    @property
    def view(self) -> "View | None":
        """The rules by which it sees the topic; None shows it everything."""
        return None if self.audience is None else self.audience.view

    @property
    def summarised(self) -> bool:
        """Whether it reads the topic's summary only."""
        return self.audience is not None and self.audience.view.summary

    def restart(self, snapshot: "Snapshot") -> None:
        """Go on from a snapshot instead; its frames are written one by one."""
        self.page = _NO_PAGE
        self.parts = deque(snapshot.frames())
        self.cursor = snapshot.offset
