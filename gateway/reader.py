"""What one subscribed topic's replies and pushes mean to a reader; decides, never waits."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from gateway.errors import SnapshotError
from gateway.events import Event, from_dict
from gateway.mirror import Mirror
from gateway.types import START, Position, Topic

__all__ = ["Lens", "Reader", "Since", "Update"]

Since: TypeAlias = Mirror | Position | Literal["start"] | None
"""Where reading begins: a mirror's position, a position, the topic's first event, or (None) now."""

Lens: TypeAlias = Mapping[str, Any] | Literal["summary"] | None
"""What the gateway is to show of a topic: ``types``, ``rate``, ``finished``, or its summary (PROTOCOL 3.8, 3.9)."""


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscription yields.

    Attributes:
        topic: The topic.
        data: The event; of a snapshot, the snapshot ``{"topic", "epoch", "offset", "mirror"}``.
        position: Where the topic stands with it.
        first: The first offset it stands for: less than ``position.offset`` where deltas were merged.
        snapshot: It replaces all that came before: the history between could not be delivered event by event.
        kept: The subscription's own mirror, None where it keeps none.

    """

    topic: Topic
    data: dict[str, Any]
    position: Position
    first: int
    snapshot: bool = False
    kept: Mirror | None = None

    @property
    def event(self) -> Event | None:
        """The event as a Struct of `gateway.events`; None for a snapshot, and for what is none of the gateway's own."""
        return None if self.snapshot else from_dict(self.data)

    @property
    def hidden(self) -> bool:
        """Whether it stands for events that this reader does not see: only the position moves (PROTOCOL 3.8)."""
        return not self.snapshot and self.data.get("type") == "hidden"

    @property
    def mirror(self) -> Mirror:
        """The subscription's mirror, at ``position`` until the next update is asked for.

        Raises:
            LookupError: It keeps none, or began at a bare position and has had no snapshot yet.

        """
        if self.kept is None:
            raise LookupError(f"no mirror of {self.topic} is kept: begin anywhere but at a bare position for one")
        return self.kept


class Reader:
    """The state of one subscription: from where to ask, what is new, and when to ask again.

    Args:
        topic: The topic.
        since: Where to begin.
        mirror: Take a snapshot wherever that is the shorter way; False wants each event and takes a snapshot only
            where the history was trimmed or replaced.
        types: The event types, and groups of them, that the gateway is asked for; None wants all.
        lens: What else the gateway is asked for (PROTOCOL 3.8), or ``"summary"``; None wants everything at once.

    """

    def __init__(
        self,
        topic: Topic,
        *,
        since: Since = None,
        mirror: bool = True,
        types: Sequence[str] | None = None,
        lens: Lens = None,
    ) -> None:
        self.topic = topic
        self.mirror = mirror
        self.lens = _with_types(lens, types)
        self.position: Position | None
        """After all that was received; None before the first reply of a reader that begins now."""
        if isinstance(since, Mirror):
            self.position = since.position
        else:
            self.position = START if since == "start" else since
        self.live = False
        """A reply has come and none is awaited: pushes count."""
        self.asks = False
        """The subscription must be given up and asked for again; `request` says how."""
        self.asked: dict[str, Any] = {}
        """The last request; a reply to another one is out of date."""
        self._recovers = False
        self._wants_snapshot = False
        self._hole_at: Position | None = None
        self._parts: list[str] | None = None
        self._parts_due = 0

    def request(self) -> dict[str, Any]:
        """Give the body of the subscribe command to send now; what comes before its reply is to be ignored."""
        self.live = self.asks = False
        self._parts = None
        body: dict[str, Any] = {"channel": self.topic}
        self._recovers = self.position is not None and not self._wants_snapshot and self.lens != "summary"
        if self.position is not None and self._recovers:
            body["recover"] = True
            if self.position != START:  # without a position it is from the start (PROTOCOL 3.2)
                body |= {"epoch": self.position.epoch, "offset": self.position.offset}
        data: dict[str, Any] = {}
        if self.mirror or self._wants_snapshot:
            data["mirror"] = True
        if self.lens:
            data["lens"] = self.lens
        if data:
            body["data"] = data
        self.asked = body
        return body

    def replied(self, reply: Mapping[str, Any]) -> list[Update]:
        """Take the subscribe reply.

        Raises:
            SnapshotError: What should be a snapshot is none.

        """
        self.live = True
        data = reply.get("data")
        summary = data.get("summary") if isinstance(data, dict) else None
        if isinstance(summary, dict):
            return [self._summed_up(summary)]
        snapshot = data.get("snapshot") if isinstance(data, dict) else None
        if isinstance(snapshot, dict):
            if "parts" in snapshot:
                self._parts, self._parts_due = [], snapshot["parts"]
                return []
            return [self._restored(snapshot)]
        top = Position(epoch=reply.get("epoch", ""), offset=reply.get("offset", 0))
        if self.position is None:
            if self.mirror:
                raise SnapshotError(f"expected a snapshot of {self.topic}, got a reply without")
            self.position = top
            return []
        if not self._recovers:
            raise SnapshotError(f"expected a snapshot of {self.topic}, got a reply without")
        if not reply.get("recovered"):
            self.unrecoverable()
            return []
        self.position = Position(epoch=top.epoch, offset=self.position.offset)
        updates = [update for publication in reply.get("publications", ()) for update in self.pushed(publication)]
        if self.live and self.position.offset != top.offset:
            self._hole()
        return updates

    def pushed(self, publication: Mapping[str, Any]) -> list[Update]:
        """Take one publication of the reply or of a push.

        Raises:
            SnapshotError: What should be a snapshot is none.

        """
        if not self.live:
            return []
        data: dict[str, Any] = publication.get("data") or {}
        offset = publication.get("offset", 0)
        if not offset:
            if data.get("type") == "summary":
                return [self._summed_up(data)]
            return self._pushed_snapshot(data) if data.get("type") == "snapshot" else []
        if self._parts is not None or self.position is None or offset <= self.position.offset:
            return []
        first = int(publication.get("tags", {}).get("from", offset))
        # The history of a topic that nobody had written gets its name only with a new reply.
        if first != self.position.offset + 1 or not self.position.epoch:
            self._hole()
            return []
        self.position = Position(epoch=self.position.epoch, offset=offset)
        self._hole_at = None
        return [Update(topic=self.topic, data=data, position=self.position, first=first)]

    def change(self, lens: Lens) -> None:
        """See the topic otherwise from now on: from where it stands, or with a snapshot where other types are shown."""
        before, self.lens = self.lens, lens
        if self.mirror and _shown(before) != _shown(lens):
            self._wants_snapshot = True
        self.asks = True
        self.live = False

    def unrecoverable(self) -> None:
        """Take the verdict that the position may not go on: ask for a snapshot."""
        self._wants_snapshot = True
        self.asks = True
        self.live = False

    def pause(self) -> None:
        """Ignore what comes until the next request."""
        self.live = False

    def _hole(self) -> None:
        # A hole at the place where the last one was is no accident of this connection: take a snapshot.
        if self._hole_at == self.position:
            self._wants_snapshot = True
        self._hole_at = self.position
        self.asks = True
        self.live = False

    def _pushed_snapshot(self, data: dict[str, Any]) -> list[Update]:
        if "part" not in data:
            return [self._restored(data)]
        if data["part"] == 1:
            self._parts, self._parts_due = [], data["parts"]
        if self._parts is None or data["part"] != len(self._parts) + 1 or data["parts"] != self._parts_due:
            self.unrecoverable()
            return []
        self._parts.append(data["text"])
        if len(self._parts) < self._parts_due:
            return []
        text = "".join(self._parts)
        try:
            snapshot = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SnapshotError(f"expected the parts of a snapshot of {self.topic} to be JSON: {error}") from error
        return [self._restored(snapshot)]

    def _summed_up(self, summary: dict[str, Any]) -> Update:
        position = Position(epoch=summary.get("epoch", ""), offset=summary.get("offset", 0))
        return Update(topic=self.topic, data=summary, position=position, first=position.offset)

    def _restored(self, snapshot: dict[str, Any]) -> Update:
        try:
            position = Position(epoch=snapshot["epoch"], offset=snapshot["offset"])
            data = {key: snapshot[key] for key in ("topic", "epoch", "offset", "mirror")}
        except (KeyError, TypeError) as error:
            raise SnapshotError(f"expected a snapshot of {self.topic}, got one without {error}") from error
        self.position = position
        self._parts = self._hole_at = None
        self._wants_snapshot = False
        if not self.mirror:
            # Subscribed as a mirror reader for this one snapshot; from here on event by event again.
            self.asks = True
            self.live = False
        return Update(topic=self.topic, data=data, position=position, first=position.offset, snapshot=True)


def _with_types(lens: Lens, types: Sequence[str] | None) -> Lens:
    return lens if types is None or isinstance(lens, str) else {**(lens or {}), "types": list(types)}


def _shown(lens: Lens) -> object:
    """Give what decides which events a lens shows."""
    if lens is None or isinstance(lens, str):
        return lens and (lens,), False
    types = lens.get("types")
    return types and tuple(types), bool(lens.get("finished"))
