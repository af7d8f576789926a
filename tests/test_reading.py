"""What a connection reads, where only its own rules matter; the whole road is in test_connection and test_hub."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from gateway.errors import UnsubscribeCode
from gateway.frames import publication_line
from gateway.hub import Hub
from gateway.limits import Allowance
from gateway.reading import Reading
from gateway.ring import RingBudget
from gateway.session import Session
from gateway.subscriber import Subscriber
from gateway.topic import HubTopic
from gateway.types import Topic


class Host:
    """A connection whose socket can be full."""

    def __init__(self) -> None:
        self.client, self.user = "c", ""
        self.issued_at: float | None = None
        self.pending: list[bytes] | None = None
        self.is_paused = self.is_closed = False
        self.reading: Reading | None = None
        self.pushes: list[bytes] = []
        self.works: list[Coroutine[Any, Any, None]] = []

    @property
    def write(self) -> Callable[[bytes], None]:
        return self.pushes.append

    def write_all(self, frames: Sequence[bytes]) -> None:
        self.pushes += frames

    def push(self, line: bytes) -> None:
        self.pushes.append(line)

    def fell_behind(self, subscriber: Subscriber) -> None:
        assert self.reading is not None
        self.reading.fell_behind(subscriber)

    def caught_up(self, subscriber: Subscriber) -> None:
        assert self.reading is not None
        self.reading.caught_up(subscriber)

    def unsubscribed(self, subscriber: Subscriber, line: bytes) -> None:
        raise AssertionError

    def dropped(self, subscriber: Subscriber) -> None:
        assert self.reading is not None
        self.reading.dropped(subscriber)

    def tell(self) -> None:
        """Nothing."""

    def close(self, code: int, reason: str) -> None:
        raise AssertionError((code, reason))

    def announce(self, topic: Topic, frames: bytes) -> None:
        raise AssertionError(topic)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def may_write(self) -> None:
        """At once."""


class Places:
    """Stands for the hub, the admission and the credentials: notes what is given back."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.presence = self

    def leave(self, what: Any, *_more: Any) -> None:
        if isinstance(what, Subscriber):
            what.topic.leave(what, now=0.0)
            self.left.append(what.topic.name)

    def unwatch(self, topic: Topic, watcher: object) -> None:
        """Nothing."""

    def unsubscribe(self, topic: Topic) -> None:
        self.left.append(f"credentials of {topic}")


def made() -> tuple[Host, Reading, Places, Session]:
    host, places = Host(), Places()
    session = Session(max_frame=1000, max_topics=10, allowance=Allowance(rate=100, burst=100))
    reading = Reading(
        host, cast("Hub", places), session, admission=cast("Any", places), credentials=cast("Any", places)
    )
    host.reading = reading
    return host, reading, places, session


def subscribed(host: Host, reading: Reading, session: Session, name: str) -> Subscriber:
    topic = HubTopic(Topic(name), f"gw:{name}", RingBudget(1_000_000))
    topic.restart("aaaaaaaa", 0)
    assert topic.release()
    subscriber = Subscriber(host, topic, mirror=True, cursor=0)
    session.subscribe(name)
    reading._subscribers[topic.name] = subscriber
    reading._count()
    topic.enter(subscriber)
    return subscriber


async def test_reader_that_fills_its_socket_with_the_last_piece_stays_behind() -> None:
    host, reading, _, session = made()
    subscriber = subscribed(host, reading, session, "t")
    topic = subscriber.topic
    topic.fall_behind(subscriber)
    host.is_paused = True
    subscriber.cursor = topic.ring.end
    assert topic.catch_up(subscriber)
    assert not reading.caught_up(subscriber)
    assert reading.is_behind
    assert subscriber in topic.behind
    assert subscriber not in topic.live
    reading.close()


async def test_frames_are_gathered_only_for_who_reads_several_topics() -> None:
    host, reading, places, session = made()
    subscribed(host, reading, session, "a")
    assert host.pending is None
    subscribed(host, reading, session, "b")
    assert host.pending == []
    reading.leave(Topic("a"))
    assert host.pending is None
    assert "b" in reading
    assert places.left == ["a", "credentials of a"]


async def test_an_end_is_told_after_everything_was_given_back() -> None:
    host, reading, places, session = made()
    subscriber = subscribed(host, reading, session, "t")
    subscriber.topic.hear(b"aaaaaaaa 1 1 x\n" + publication_line(subscriber.topic.prefix, 1, b"{}"))
    reading.end(Topic("t"), UnsubscribeCode.EXPIRED, "over")
    assert host.pushes == [b'{"push":{"channel":"t","unsubscribe":{"code":2501,"reason":"over"}}}']
    assert places.left == ["t", "credentials of t"]
    assert not session.topics
    reading.leave(Topic("t"))
    assert places.left == ["t", "credentials of t"]


async def test_closing_leaves_every_topic_once() -> None:
    host, reading, places, session = made()
    for name in ("a", "b"):
        subscribed(host, reading, session, name)
    reading.close()
    reading.close()
    assert places.left == ["a", "b"]
    assert not reading.is_behind
