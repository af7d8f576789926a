"""Readers of one view: what they share, and how they are told what is hidden."""

from typing import Any

import msgspec
import pytest

from gateway.audience import MAX_LENSES, SCAN_BYTES, Audiences, Strand
from gateway.errors import CommandError
from gateway.fanout import SLICE, Fanout
from gateway.frames import PIECE_BYTES, frame_payloads, publication_line
from gateway.redaction import Redaction
from gateway.ring import RingBudget
from gateway.subscriber import Subscriber
from gateway.topic import HubTopic
from gateway.types import Topic
from gateway.view import View
from tests.serving import eventually

LOGS = View(types=frozenset({"log"}))


class Recorder:
    """A reader without a socket: it keeps what is written to it."""

    def __init__(self) -> None:
        self.client = self.user = ""
        self.issued_at: float | None = None
        self.pending: list[bytes] | None = None
        self.writes: list[bytes] = []

    def write(self, frames: bytes) -> None:
        self.writes.append(frames)

    def write_all(self, frames: list[bytes]) -> None:
        self.writes.append(b"".join(frames))

    def fell_behind(self, subscriber: Subscriber) -> None:
        """Nothing: it stays behind."""

    @property
    def told(self) -> list[tuple[str, str, int]]:
        """The type, the first offset and the last of each publication."""
        found = []
        for payload in frame_payloads(b"".join(self.writes)):
            for line in payload.split(b"\n"):
                pub = msgspec.json.decode(line)["push"]["pub"]
                first = pub["tags"]["from"] if "tags" in pub else str(pub["offset"])
                found.append((pub["data"]["type"], first, pub["offset"]))
        return found


class World:
    """A topic with its fan-out."""

    def __init__(self) -> None:
        self.fanout = Fanout()
        self.audiences = Audiences(self.fanout)
        self.topic = HubTopic(Topic("t"), "gw:t", RingBudget(100_000_000))
        self.topic.restart("aaaaaaaa", 0)
        assert self.topic.release()

    def join(self, view: View = LOGS, reader: Recorder | None = None) -> tuple[Recorder, Subscriber]:
        reader = reader or Recorder()
        audience = self.audiences.of(self.topic, view)
        subscriber = Subscriber(
            reader,  # type: ignore[arg-type]
            self.topic,
            mirror=True,
            cursor=self.topic.ring.end,
            audience=audience,
        )
        self.topic.enter(subscriber)
        return reader, subscriber

    def publish(self, *kinds: str, **fields: Any) -> None:
        for kind in kinds:
            offset = self.topic.ring.end + 1
            data = msgspec.json.encode({"type": kind, **fields})
            line = publication_line(self.topic.prefix, offset, data)
            assert self.topic.hear(f"aaaaaaaa {offset} {offset} {kind}\n".encode() + line) == "new"
        self.fanout.add(self.topic)
        self.fanout.flush()

    def strand(self, view: View = LOGS) -> Strand:
        strand = self.topic.audiences[view]
        assert isinstance(strand, Strand)
        return strand


async def test_readers_of_one_view_share_one_frame() -> None:
    world = World()
    readers = [world.join()[0] for _ in range(5)]
    plain = Recorder()
    world.topic.enter(Subscriber(plain, world.topic, mirror=False, cursor=0))  # type: ignore[arg-type]
    world.publish("agent_delta", "agent_delta", "log")
    assert len({id(reader.writes[0]) for reader in readers}) == 1
    assert readers[0].told == [("log", "1", 3)]
    assert [offset for _, _, offset in plain.told] == [1, 2, 3]


async def test_reader_who_came_later_is_told_from_its_own_place() -> None:
    world = World()
    early, _ = world.join()
    world.publish("agent_delta")
    late, _ = world.join()
    world.publish("agent_delta", "log")
    assert early.told == [("log", "1", 3)]
    assert late.told == [("log", "2", 3)]
    world.publish("log")
    assert early.writes[-1] is late.writes[-1]


async def test_hidden_tail_is_told_once_after_a_while() -> None:
    world = World()
    reader, subscriber = world.join()
    for _ in range(3):
        world.publish("agent_delta")
    assert reader.told == []
    await eventually(lambda: reader.told)
    assert reader.told == [("hidden", "1", 3)]
    assert subscriber.cursor == 3
    world.publish("log")
    assert reader.told[1:] == [("log", "4", 4)]
    world.audiences.close()


async def test_rates_have_one_timer_each_and_merge() -> None:
    world = World()
    rated = View(rate=50)
    readers = [world.join(rated)[0] for _ in range(3)]
    for text in "abcd":
        world.publish("agent_delta", message="m", text=text)
    assert [reader.writes for reader in readers] == [[], [], []]
    await eventually(lambda: readers[0].writes)
    assert readers[0].told == [("agent_delta", "1", 4)]
    assert len({id(reader.writes[0]) for reader in readers}) == 1
    assert world.audiences.pace(50) is world.audiences.pace(50)
    world.audiences.close()


async def test_slices_of_a_large_audience_miss_nothing() -> None:
    world = World()
    readers = [world.join()[0] for _ in range(SLICE * 2 + 10)]
    world.publish("log")
    assert readers[-1].writes == []
    # News that comes while slices are waiting.
    world.publish("agent_delta", "log")
    await eventually(lambda: all(reader.told and reader.told[-1][2] == 3 for reader in readers))
    for reader in readers:
        expected = 1
        for _, first, offset in reader.told:
            assert int(first) == expected
            expected = offset + 1
    assert not world.topic.behind


async def test_too_much_at_once_lets_readers_fall_behind() -> None:
    world = World()
    reader, subscriber = world.join()
    world.publish("log", message="x" * (PIECE_BYTES // 2))
    assert subscriber.live
    world.topic.audiences[LOGS].heard()
    for _ in range(3):
        offset = world.topic.ring.end + 1
        data = msgspec.json.encode({"type": "log", "message": "x" * (PIECE_BYTES // 2)})
        line = publication_line(world.topic.prefix, offset, data)
        assert world.topic.hear(f"aaaaaaaa {offset} {offset} log\n".encode() + line) == "new"
    world.fanout.add(world.topic)
    world.fanout.flush()
    assert subscriber in world.topic.behind
    assert len(reader.told) == 1


async def test_more_than_is_looked_through_lets_readers_fall_behind() -> None:
    world = World()
    _, subscriber = world.join(View(types=frozenset({"log"}), rate=1))
    while world.topic.ring.written <= SCAN_BYTES:
        world.publish("agent_delta", message="m", text="x" * 50_000)
    world.strand(View(types=frozenset({"log"}), rate=1)).step(0)
    assert subscriber in world.topic.behind
    assert subscriber.cursor == 0
    world.audiences.close()


async def test_another_history_begins_anew() -> None:
    world = World()
    reader, subscriber = world.join()
    world.publish("log", "log")
    world.topic.replace("aaaaaaaa", 1, now=0)
    assert subscriber.stale
    assert subscriber in world.topic.behind
    late, _ = world.join()
    world.publish("agent_delta", "log")
    assert late.told == [("log", "2", 3)]
    assert len(reader.told) == 2


async def test_audience_without_members_is_forgotten() -> None:
    world = World()
    _, subscriber = world.join()
    assert world.strand().members
    world.topic.leave(subscriber, now=0)
    assert world.topic.audiences == {}
    world.publish("log")


async def test_lenses_of_one_topic_are_bounded() -> None:
    world = World()
    for number in range(MAX_LENSES):
        world.join(View(types=frozenset({f"kind{number}"})))
    with pytest.raises(CommandError, match="256 lenses") as refused:
        world.join()
    assert refused.value.temporary
    world.join(View(types=frozenset({"kind0"})))
    world.join(View(redaction=Redaction(drop=frozenset({"log"}))))
