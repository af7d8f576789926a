"""The port: what a store of histories must do, and the laws it keeps."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from gateway.types import EntryKind, Position, Topic

__all__ = [
    "AppendAnswer",
    "AppendRequest",
    "Appended",
    "Attendance",
    "Bound",
    "Broker",
    "Busy",
    "Change",
    "Condition",
    "Conflict",
    "Deleted",
    "Deletion",
    "Ended",
    "Entry",
    "Fenced",
    "History",
    "Link",
    "Listener",
    "LogStep",
    "Noticeboard",
    "Restore",
    "Stale",
    "Standing",
    "Stored",
    "Trimmed",
    "Unmet",
    "Weight",
]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One event to append.

    Attributes:
        kind: ``d`` a delta of an open message, ``e`` the end of a message, ``x`` the end of the run, ``h`` other.
        type: The event's type, for the header that readers are sorted by.
        message: The message it belongs to; "" for none.
        data: The event as one line of JSON from our own encoder.

    """

    kind: EntryKind
    type: str
    data: bytes
    message: str = ""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What a state field must be: ``=`` equal, ``!`` absent, ``>`` its deadline is ahead, ``<`` it has passed."""

    field: str
    op: str
    value: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a state field becomes; "" deletes it."""

    field: str
    value: str


class LogStep(msgspec.Struct, frozen=True, kw_only=True):
    """How an append moves the topic's log: from (first, before) to (next, after); hashes as in STORE.md 8."""

    first: int
    before: str
    next: int
    after: str


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic append.

    Attributes:
        writer: Whose append sequence this is: a run id, or ``u/<user>/<client id>`` for a person's action.
        seq: The append's own mark; a retry carries the same one, another append another one.
        entries: One to 1,000 events.
        run: The run that appends, which must hold the topic; "" for none.
        token: Its lease's token.
        log: How the log moves; None where no logged event is among the entries.
        lease: Take the topic's lease for this many ms; None where it is held or not needed.
        conditions: All must hold.
        changes: Made together with the append.

    """

    writer: str
    seq: str
    entries: Sequence[Entry]
    run: str = ""
    token: str = ""
    log: LogStep | None = None
    lease: int | None = None
    conditions: Sequence[Condition] = ()
    changes: Sequence[Change] = ()


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """Stored, now or by an earlier try of the same append.

    Attributes:
        position: Of the last event.
        first: Offset of the first.
        people: Offset of the last people's action on the topic, 0 for none (not told with a repeated answer).
        repeated: An earlier try had stored it.

    """

    position: Position
    first: int
    people: int = 0
    repeated: bool = False


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """The history lost something; nothing was stored. The run writes it again from here (STORE.md 3).

    Attributes:
        position: The topic's top, in its new epoch.
        seq, hash: The log's next seq and its chain hash there.
        append_seq: The last append of this writer that the store knows; "" for none.
        holder: The run that holds the lease; "" for none.
        open: Messages that have deltas and no end.

    """

    position: Position
    seq: int
    hash: str
    append_seq: str
    holder: str
    open: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The run has its end, at this position; nothing was stored."""

    position: Position
    first: int


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """The lease is not this token's; nothing was stored. ``holder`` "" = nobody's."""

    position: Position
    holder: str


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """Another run holds the lease; nothing was stored. ``deadline``: Redis time, ms."""

    holder: str
    deadline: int
    position: Position


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """The log stands elsewhere; nothing was stored."""

    seq: int
    hash: str


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """A condition does not hold; nothing was stored. ``value`` "" = the field is absent."""

    field: str
    value: str
    position: Position


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The history is at its bound; nothing was stored. ``size``: its bytes."""

    size: int


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """The history that the run wrote to was deleted; nothing was stored, and nothing of the run ever will be.

    Attributes:
        position: The topic's top, in the epoch that it has now.

    """

    position: Position


AppendAnswer = Appended | Restore | Ended | Fenced | Busy | Conflict | Unmet | Bound | Deleted


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A history is deleted, now or by an earlier try.

    Attributes:
        epoch: The topic's new one, or the one that it has had since; "" where there was nothing to delete.
        gone: Names of the deleted histories, as the store keeps them; "" likewise.

    """

    epoch: str = ""
    gone: str = ""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A stored event, as bytes."""

    offset: int
    data: bytes


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a read found.

    Attributes:
        epoch: The topic's; "" where nobody has written it.
        top: Its last offset.
        floor: Reading from here or above is complete.
        complete: The asked position may go on. If not, the state is ``snapshot`` (or, without one, an empty
            state at the floor) followed by ``events``.
        snapshot: Bytes of a stored snapshot; None where the position may go on or there is none.
        snapshot_position: Where that snapshot stands.
        events: Stored events above the position (or above the snapshot), both streams merged, by offset.
        upto: The offset to which ``events`` is complete; less than ``top`` where the limit cut it.
        size: Bytes of the history.
        seq, hash: The log's next seq and chain hash.

    """

    epoch: str
    top: int
    floor: int
    complete: bool
    snapshot: bytes | None
    snapshot_position: Position | None
    events: tuple[Stored, ...]
    upto: int
    size: int
    seq: int
    hash: str


class Trimmed(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot is stored and the floor raised."""

    position: Position


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot's position may not go on, or lies below the floor, or the topic is gone; nothing changed."""

    position: Position
    floor: int


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic takes in the store.

    Attributes:
        size: Bytes that count for the bound: events, open deltas, snapshot and archive.
        snapshot: Bytes of them that are the stored snapshot.
        archive: Bytes of them that are archived events.
        events: Stored events, deltas included.
        fields: Fields of the state.

    """

    size: int
    snapshot: int
    archive: int
    events: int
    fields: int

    @property
    def recent(self) -> int:
        """Bytes above the snapshot: what a trim at the top would free."""
        return self.size - self.snapshot - self.archive


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a topic that may be over without anybody having said so.

    Attributes:
        holder: The run that holds the lease; "" for none.
        deadline: When that lapses; Redis time, ms.
        length: Of that lease, ms.
        approvals: State fields of approvals, decided ones too: name -> value.

    """

    holder: str
    deadline: int
    length: int
    approvals: Mapping[str, str]


class Listener(Protocol):
    """Who hears a link. All five are called in the loop, never concurrently, and must not block or raise."""

    def received(self, channel: str, payload: bytes) -> None:
        """Take one publication: header line ``epoch first last type[,type…]``, then one push line per offset."""

    def drained(self) -> None:
        """Act on what was received: the socket holds no more for now. Called in the same loop tick."""

    def lost(self) -> None:
        """Mark everything as unsure: publications are being missed from now on."""

    def restored(self) -> None:
        """Read every topic again from its last offset: all channels are subscribed anew."""

    def missed(self, channels: Sequence[str]) -> None:
        """Read the topics of these channels again: they have moved, and are heard from another server now."""


class Link(Protocol):
    """One pub/sub connection that keeps itself alive."""

    @property
    def up(self) -> bool:
        """Whether every channel is subscribed right now."""

    async def subscribe(self, channel: str) -> None:
        """Hear a channel; returns once the server has said so.

        While the server is away it waits; a lost link asks again by itself.
        """

    async def unsubscribe(self, channel: str) -> None:
        """Stop hearing a channel."""

    async def aclose(self) -> None:
        """End the link; nothing is called after it returns."""


class Attendance(Protocol):
    """Who reads a topic right now: lists that are kept true by renewing them, and no part of any history."""

    async def add(self, topic: Topic, members: Sequence[str], *, ttl: float) -> int:
        """List readers of a topic for ``ttl`` seconds from now; gives how many are listed then."""

    async def remove(self, topic: Topic, members: Sequence[str]) -> int:
        """Take readers of a topic off the list; gives how many are left."""

    async def read(self, topic: Topic, *, limit: int) -> tuple[int, list[str]]:
        """Give how many readers of a topic are listed, and at most ``limit`` of them."""

    async def announce(self, topic: Topic, payload: bytes) -> None:
        """Publish on the topic's `channel`, for whoever hears it now."""

    def channel(self, topic: Topic) -> str:
        """Name the channel on which gateway processes tell each other who comes to a topic and who goes."""


class Noticeboard(Protocol):
    """What gateway processes tell each other. A notice that was posted reaches all of them, each once or more often."""

    @property
    def channel(self) -> str:
        """Name the channel on which a node hears that there is something new (b""), and what was said."""

    async def post(self, notice: bytes) -> None:
        """Keep a notice for a day, then tell all nodes to look."""

    async def after(self, place: str, *, limit: int) -> list[tuple[str, bytes]]:
        """Give the notices after a place ("" for all that are kept), each with its own place, in order."""

    async def say(self, payload: bytes) -> None:
        """Publish to the nodes that hear it now."""

    async def register(self, node: str, described: bytes) -> None:
        """Note what a node says about itself."""

    async def unregister(self, *nodes: str) -> None:
        """Forget nodes."""

    async def nodes(self) -> dict[str, bytes]:
        """Give what every node says about itself, those that died without a word included."""


class Broker(Protocol):
    """Keeps the histories and carries publications.

    Laws (DESIGN.md 3): storing, numbering and publishing are one step; an append repeated with the same
    (writer, seq) is stored once; nothing of a run is stored after its end; a fenced writer stores nothing.
    Every call is one attempt: it raises `BrokerUnavailableError` where the server is away or in no state to
    answer, and the caller repeats it, an append with the same seq.
    """

    @property
    def attendance(self) -> Attendance:
        """The lists of who reads what."""

    @property
    def notices(self) -> Noticeboard:
        """What gateway processes tell each other."""

    async def append(self, topic: Topic, request: AppendRequest, *, position: Position) -> AppendAnswer:
        """Append events in one atomic step.

        Args:
            topic: Where.
            request: What.
            position: The writer's position as of its last acknowledgement; START for none.

        """

    async def read(self, topic: Topic, position: Position, *, limit: int = 1000, seen: bool = False) -> History:
        """Read what lies above a position.

        Args:
            topic: Where.
            position: From where; START for all.
            limit: At most this many events; 0 for none, only the facts.
            seen: This process itself has seen the position, so one above the top proves a rollback.

        """

    async def trim(self, topic: Topic, snapshot: bytes, *, position: Position, size: int) -> Trimmed | Stale:
        """Store a snapshot of the state at a position and raise the floor to it.

        ``size`` is the history's bytes when the snapshot was folded.
        """

    async def weigh(self, topic: Topic) -> Weight:
        """Tell what a topic takes; a little out of date where others append."""

    async def archive(self, topic: Topic, events: Mapping[int, bytes], *, position: Position) -> int | Stale:
        """Keep logged events, by their seq, that the trim at a position will remove for good.

        One that is there stays as it is. Returns the bytes of all that is archived.
        """

    async def archived(self, topic: Topic, seqs: Sequence[int]) -> dict[int, bytes]:
        """Give those of these events that are archived."""

    async def store_blobs(
        self, topic: Topic, blobs: Mapping[str, bytes], *, run: str, position: Position
    ) -> Bound | Deleted | None:
        """Keep large values, by their hash, before the event that refers to them; Bound where they are too many.

        Deleted where the history at that position, to which the run writes, was deleted: none of them stays.
        """

    async def blobs(self, topic: Topic, hashes: Sequence[str]) -> dict[str, bytes]:
        """Give those of these values that are kept."""

    async def renew(
        self, topic: Topic, *, run: str, token: str, lease: int, position: Position
    ) -> Appended | Restore | Ended | Fenced | Deleted:
        """Move the lease's deadline to now + ``lease`` ms."""

    async def declare_lost(self, topic: Topic, *, run: str, data: bytes, position: Position) -> Appended | Busy | None:
        """Write ``agent_lost`` for a run whose deadline has passed; Busy where it lives, None where none holds.

        Nobody is declared dead before this process' own link has been steady for the length of the run's lease: the
        answer is Busy with the time at which it will have been.
        """

    async def delete(self, topic: Topic, *, epochs: str) -> Deletion | None:
        """Remove a history and all that belongs to it for good, and open a new epoch, in one step.

        The run that holds it is answered `Deleted` from then on, as is every run whose position is of that history.
        Repeated, it deletes nothing newer.

        Args:
            topic: Where.
            epochs: Which: one of these is its epoch, or one that it went on from; separated by spaces. "" for a topic
                that nobody has written, of which values may be left.

        Returns:
            None where it is another history than these.

        """

    def keep_deleted(self, topic: Topic, gone: str) -> None:
        """Delete a history again, should the server ever come back with it; ``gone`` as of `Deletion`."""

    async def standing(self, topic: Topic) -> Standing:
        """Tell what there is of a topic that may be over without anybody having said so."""

    async def topics(self, *, limit: int = 1000) -> list[tuple[Topic, int]]:
        """List the topics written last, each with the Unix time (ms) of its last activity, newest first."""

    async def due(self, *, until: int) -> list[Topic]:
        """List the topics whose due time (ms, Redis clock) is at or before ``until``."""

    async def set_due(self, topic: Topic, at: int | None) -> None:
        """Note when a topic wants work (ms, Redis clock); None takes the note away. A hint only (STORE.md 6)."""

    async def wake(self, topic: Topic) -> None:
        """Tell the workers on channel `wake_channel` that a topic wants work now."""

    def now(self) -> int:
        """Give the Unix time in ms on the server's clock, as last measured."""

    def channel(self, topic: Topic) -> str:
        """Name the channel of a topic's publications."""

    def control_channel(self, topic: Topic) -> str:
        """Name the channel of a topic's wake-ups."""

    def wake_channels(self) -> tuple[str, ...]:
        """Name the channels that workers hear: one a shard, payload = a topic."""

    def link(self, listener: Listener) -> Link:
        """Make a pub/sub connection; the caller closes it."""

    async def aclose(self) -> None:
        """Close all connections."""
