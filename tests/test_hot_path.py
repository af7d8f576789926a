"""What a publication costs between Redis and the sockets, counted: calls, frames, copies, allocations."""

import contextlib
import json
import re
import sys
import tracemalloc
from asyncio import selector_events
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

import gateway
from gateway.broker.link import _Ear
from gateway.broker.port import AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.fanout import Fanout
from gateway.frames import frame_payloads, publication_line
from gateway.ring import RingBudget
from gateway.subscriber import Subscriber
from gateway.topic import HubTopic
from gateway.types import START, Topic, new_id
from tests.serving import Gateway, Plain, serve

READERS = 30
CALLS_PER_READER = 0
CALLS_PER_FLUSH = 12
"""Of what is done once for all readers: the link's, the hub's, the topic's and the fan-out's own."""
CALLS_PER_EVENT = 6
"""On a topic with one reader, from Redis to the socket, beside the flush's own."""

HOT: tuple[CodeType, ...] = (_Ear.data_received.__code__, _Ear._drained.__code__, Fanout._turn.__code__)
"""Where the loop enters the live path."""
_WRITE: CodeType = selector_events._SelectorSocketTransport.write.__code__  # type: ignore[attr-defined]
_PACKAGE = str(Path(gateway.__file__).parent)
_CODING = re.compile("decode|encode|loads|dumps")


class Profile:
    """What ran on the live path.

    Attributes:
        calls: Python functions of the package that were entered, by name.
        writes: What the transports were given, one list a turn of the live path in which they were.
        coding: Encoders and decoders that were called, by name.

    """

    def __init__(self, entries: Sequence[CodeType] = HOT) -> None:
        self.calls: Counter[str] = Counter()
        self.writes: list[list[Any]] = []
        self.coding: Counter[str] = Counter()
        self._entries = entries
        self._depth = 0
        self._turn: list[Any] = []

    @property
    def flushes(self) -> int:
        return len(self.writes)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code in self._entries:
                self._depth += 1
            if not self._depth:
                return
            if code is _WRITE:
                self._turn.append(frame.f_locals["data"])
            elif code.co_filename.startswith(_PACKAGE):
                self.calls[code.co_qualname] += 1
            elif _CODING.search(code.co_name):
                self.coding[code.co_qualname] += 1
        elif event == "return" and code in self._entries:
            self._depth -= 1
            if not self._depth and self._turn:
                self.writes.append(self._turn)
                self._turn = []
        elif (
            event == "c_call"
            and self._depth
            and _CODING.search(argument.__name__)
            and not isinstance(argument.__self__, str | bytes)  # text that becomes bytes is no event taken apart
        ):
            self.coding[argument.__qualname__] += 1


async def append(broker: RedisBroker, topic: str, count: int) -> None:
    """Append events in one step."""
    entries = [Entry(kind="h", type="note", data=json.dumps({"type": "note", "n": n}).encode()) for n in range(count)]
    await broker.append(Topic(topic), AppendRequest(writer=new_id(), seq="1", entries=entries), position=START)


@contextlib.asynccontextmanager
async def reading(served: Gateway, topics: Sequence[str]) -> AsyncIterator[list[Plain]]:
    """Connect one reader for each topic named."""
    async with contextlib.AsyncExitStack() as stack:
        readers = []
        for topic in topics:
            readers.append(await stack.enter_async_context(served.plain()))
            await readers[-1].ask("subscribe", {"channel": topic})
        yield readers


async def arrived(reader: Plain, offset: int) -> None:
    """Wait until a reader has an event."""
    while (await reader.pub())["offset"] < offset:
        pass


@contextlib.asynccontextmanager
async def profiled(
    redis_url: str, key_prefix: str, topics: Sequence[str], *, publishes: int, burst: int = 1
) -> AsyncIterator[Profile]:
    """Publish to every topic in turn, each publish arriving before the next, and give what that did."""
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    profile = Profile()
    async with serve(redis_url, key_prefix) as served:
        for topic in dict.fromkeys(topics):
            await append(broker, topic, 1)  # an epoch that is known before the readers come
        async with reading(served, topics) as readers:
            with profile.on():
                for number in range(publishes):
                    for topic in dict.fromkeys(topics):
                        await append(broker, topic, burst)
                    for reader in readers:
                        await arrived(reader, 1 + (number + 1) * burst)
    await broker.aclose()
    yield profile


# One topic, many readers


async def test_readers_of_a_flush_are_given_one_object(redis_url: str, key_prefix: str) -> None:
    async with profiled(redis_url, key_prefix, ["t"] * READERS, publishes=5) as profile:
        assert profile.flushes == 5
        for written in profile.writes:
            assert len(written) == READERS
            assert len({id(data) for data in written}) == 1
        assert profile.calls["text_frame"] <= profile.flushes


async def test_events_of_one_append_are_one_frame(redis_url: str, key_prefix: str) -> None:
    async with profiled(redis_url, key_prefix, ["t"] * READERS, publishes=2, burst=8) as profile:
        assert profile.flushes == 2
        for written in profile.writes:
            assert len(written) == READERS
            assert len({id(data) for data in written}) == 1
            (payload,) = frame_payloads(written[0])
            assert payload.count(b"\n") == 7  # eight lines


async def test_a_reader_costs_no_call_but_the_socket_s_own(redis_url: str, key_prefix: str) -> None:
    async with profiled(redis_url, key_prefix, ["t"] * READERS, publishes=5) as profile:
        allowed = profile.flushes * (CALLS_PER_READER * READERS + CALLS_PER_FLUSH)
        assert profile.flushes < profile.calls.total() <= allowed, profile.calls


async def test_nothing_is_decoded_or_encoded_on_the_way(redis_url: str, key_prefix: str) -> None:
    async with profiled(redis_url, key_prefix, ["t"] * READERS, publishes=5) as profile:
        assert profile.writes
        assert not profile.coding


def test_profile_sees_what_it_looks_for() -> None:
    def live() -> None:
        json.loads('{"a":1}')
        msgspec.json.decode(b"{}")
        msgspec.json.Decoder().decode(b"{}")

    profile = Profile((live.__code__,))
    with profile.on():
        live()
        json.loads("{}")
    assert profile.coding["loads"] == 1
    assert profile.coding["json_decode"] == 1
    assert profile.coding["Decoder.decode"] == 1


# Many topics


async def test_an_event_with_one_reader_costs_six_calls_at_most(redis_url: str, key_prefix: str) -> None:
    topics = [f"t{number}" for number in range(READERS)]
    async with profiled(redis_url, key_prefix, topics, publishes=5) as profile:
        events = 5 * len(topics)
        assert sum(len(written) for written in profile.writes) == events
        assert profile.calls.total() <= events * CALLS_PER_EVENT + profile.flushes * CALLS_PER_FLUSH // 2, profile.calls
        assert not profile.coding


# Readers at several places, and what is allocated


class Silent:
    """A reader that keeps nothing but the first of what it is given."""

    def __init__(self, *, keep: bool) -> None:
        self.client = self.user = ""
        self.issued_at: float | None = None
        self.pending: list[bytes] | None = None
        self.writes: list[bytes] | None = [] if keep else None

    def write(self, frames: bytes) -> None:
        if self.writes is not None:
            self.writes.append(frames)

    def write_all(self, frames: Sequence[bytes]) -> None:
        self.write(b"".join(frames))

    def push(self, line: bytes) -> None:
        raise AssertionError(line)

    def fell_behind(self, subscriber: Subscriber) -> None:
        raise AssertionError(subscriber)

    def caught_up(self, subscriber: Subscriber) -> None:
        raise AssertionError(subscriber)

    def unsubscribed(self, subscriber: Subscriber, line: bytes) -> None:
        raise AssertionError

    def dropped(self, subscriber: Subscriber) -> None:
        raise AssertionError(subscriber)

    def close(self, code: int, reason: str) -> None:
        raise AssertionError(code)

    def tell(self) -> None:
        raise AssertionError


def heard(topic: HubTopic, offset: int) -> None:
    line = publication_line(topic.prefix, offset, b'{"x":"' + b"y" * 1000 + b'"}')
    assert topic.hear(b"aaaaaaaa %d %d x\n%b" % (offset, offset, line)) == "new"


def made(readers: Sequence[Silent], cursors: Sequence[int]) -> HubTopic:
    """Make a topic at offset 3 whose readers stand at these places."""
    topic = HubTopic(Topic("t"), "gw:t", RingBudget(10_000_000))
    topic.restart("aaaaaaaa", 0)
    assert topic.release()
    subscribers = [Subscriber(reader, topic, mirror=False, cursor=0) for reader in readers]
    for subscriber in subscribers:
        topic.enter(subscriber)
    for offset in (1, 2, 3):
        heard(topic, offset)
    for subscriber, cursor in zip(subscribers, cursors, strict=True):
        subscriber.cursor = cursor
    return topic


def test_readers_at_one_cursor_share_one_frame_among_many() -> None:
    readers = [Silent(keep=True) for _ in range(READERS)]
    cursors = [number % 3 for number in range(READERS)]  # in turn, so that none follows one of its own
    topic, fanout = made(readers, cursors), Fanout()
    fanout.add(topic)
    fanout.flush()
    frames: dict[int, set[int]] = {}
    for reader, cursor in zip(readers, cursors, strict=True):
        assert reader.writes is not None
        (write,) = reader.writes
        frames.setdefault(cursor, set()).add(id(write))
    assert [len(found) for found in frames.values()] == [1, 1, 1]


def test_a_flush_allocates_a_few_bytes_a_reader() -> None:
    count = 900  # one slice
    topic, fanout = made([Silent(keep=False) for _ in range(count)], [0] * count), Fanout()
    fanout.add(topic)
    tracemalloc.start()
    try:
        fanout.flush()  # what is made once
        heard(topic, 4)
        fanout.add(topic)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        fanout.flush()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A list of the readers, and the integers of their cursors are shared.
    assert peak - before < 16 * count + 8 * 1024
