"""Slices of large fan-outs, and topics that wait in line."""

import asyncio
from collections.abc import Sequence

import msgspec

from gateway.fanout import SLICE, Fanout
from gateway.frames import frame_payloads, publication_line
from gateway.ring import RingBudget
from gateway.subscriber import Subscriber
from gateway.topic import HubTopic
from gateway.types import Topic
from tests.serving import eventually


class Recorder:
    """A reader without a socket: it keeps what is written to it."""

    def __init__(self, client: str = "") -> None:
        self.client = client
        self.user = ""
        self.issued_at: float | None = None
        self.pending: list[bytes] | None = []
        self.writes: list[bytes] = []
        self.behind: list[Subscriber] = []

    def write(self, frames: bytes) -> None:
        self.writes.append(frames)

    def write_all(self, frames: Sequence[bytes]) -> None:
        self.writes.append(b"".join(frames))

    def push(self, line: bytes) -> None:
        raise AssertionError(line)

    def fell_behind(self, subscriber: Subscriber) -> None:
        self.behind.append(subscriber)

    def caught_up(self, subscriber: Subscriber) -> None:
        raise AssertionError(subscriber)

    def unsubscribed(self, subscriber: Subscriber, line: bytes) -> None:
        raise AssertionError

    def dropped(self, subscriber: Subscriber) -> None:
        raise AssertionError(subscriber)

    def tell(self) -> None:
        raise AssertionError

    def close(self, code: int, reason: str) -> None:
        raise AssertionError(code, reason)

    @property
    def offsets(self) -> list[tuple[str, int]]:
        found = []
        for write in self.writes:
            for payload in frame_payloads(write):
                for line in payload.split(b"\n"):
                    push = msgspec.json.decode(line)["push"]
                    found.append((push["channel"], push["pub"]["offset"]))
        return found


def topic(name: str, budget: RingBudget | None = None) -> HubTopic:
    made = HubTopic(Topic(name), f"gw:{name}", budget or RingBudget(10_000_000))
    made.restart("aaaaaaaa", 0)
    assert made.release()
    return made


def publish(target: HubTopic, first: int, last: int | None = None, size: int = 2) -> None:
    last = first if last is None else last
    data = b'{"x":"' + b"y" * size + b'"}'
    lines = [publication_line(target.prefix, offset, data) for offset in range(first, last + 1)]
    types = ",".join("x" for _ in lines)
    assert target.hear(f"aaaaaaaa {first} {last} {types}\n".encode() + b"\n".join(lines)) == "new"


def join(target: HubTopic, reader: Recorder, cursor: int = 0) -> Subscriber:
    subscriber = Subscriber(reader, target, mirror=False, cursor=cursor)
    target.enter(subscriber)
    return subscriber


async def test_readers_at_one_cursor_share_one_frame() -> None:
    fanout, target = Fanout(), topic("t")
    readers = [Recorder() for _ in range(5)]
    for reader in readers:
        join(target, reader)
    publish(target, 1, 3)
    fanout.add(target)
    fanout.flush()
    assert len({id(reader.writes[0]) for reader in readers}) == 1
    assert readers[0].offsets == [("t", 1), ("t", 2), ("t", 3)]
    assert all(len(reader.writes) == 1 for reader in readers)


async def test_connection_with_several_topics_gets_one_write() -> None:
    fanout, topics, reader, other = Fanout(), [topic(name) for name in "abc"], Recorder(), Recorder()
    for target in topics:
        join(target, reader)
        publish(target, 1)
        fanout.add(target)
    join(topics[1], other, cursor=1)
    fanout.flush()
    assert len(reader.writes) == 1
    assert reader.offsets == [("a", 1), ("b", 1), ("c", 1)]
    assert other.writes == []


async def test_large_fan_out_is_sliced_and_others_come_between() -> None:
    fanout, large, small = Fanout(), topic("large"), topic("small")
    readers = [Recorder() for _ in range(3 * SLICE + 10)]
    for reader in readers:
        join(large, reader)
    one = Recorder()
    join(small, one)
    publish(large, 1)
    fanout.add(large)
    fanout.flush()
    assert sum(bool(reader.writes) for reader in readers) == SLICE
    publish(small, 1)
    fanout.add(small)
    publish(large, 2)
    fanout.add(large)
    fanout.flush()  # waits for its turn
    assert one.writes == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert one.offsets == [("small", 1)]
    assert not readers[-1].writes
    await eventually(lambda: all(reader.offsets == [("large", 1), ("large", 2)] for reader in readers))
    assert len(readers[-1].writes) == 1  # its slice took whatever was new
    await eventually(lambda: not large.dirty)


async def test_reader_that_left_during_a_fan_out_hears_no_more() -> None:
    fanout, target = Fanout(), topic("t")
    readers = [Recorder() for _ in range(SLICE + 5)]
    subscribers = [join(target, reader) for reader in readers]
    publish(target, 1)
    fanout.add(target)
    fanout.flush()
    target.leave(subscribers[-1], now=0.0)
    target.fall_behind(subscribers[-2])
    await eventually(lambda: not target.dirty)
    assert readers[-3].offsets == [("t", 1)]
    assert readers[-1].writes == readers[-2].writes == []
    assert readers[-2].behind == [subscribers[-2]]


async def test_reader_too_far_behind_is_not_served_in_one_write() -> None:
    fanout, target, reader = Fanout(), topic("t"), Recorder()
    subscriber = join(target, reader)
    publish(target, 1, 100, size=2000)
    fanout.add(target)
    fanout.flush()
    assert reader.writes == []
    assert reader.behind == [subscriber]
    assert subscriber.cursor == 0
