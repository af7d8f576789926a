"""read.lua: a test per branch, on a real server."""

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.port import History
from gateway.broker.redis import RedisBroker
from gateway.types import START, Position
from tests.broker.author import Author, act, event
from tests.broker.conftest import TOPIC


@pytest_asyncio.fixture
async def author(broker: RedisBroker) -> Author:
    author = Author(broker, TOPIC)
    await author.start()
    return author


def offsets(history: History) -> list[int]:
    return [stored.offset for stored in history.events]


NOTHING = History(
    epoch="",
    top=0,
    floor=0,
    complete=True,
    snapshot=None,
    snapshot_position=None,
    events=(),
    upto=0,
    size=0,
    seq=0,
    hash="",
)


async def test_read_of_what_nobody_wrote_creates_nothing(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    assert await broker.read(TOPIC, START) == NOTHING
    assert await broker.read(TOPIC, START, seen=True) == NOTHING
    assert await redis.exists(*keys) == 0
    await redis.hset(keys[5], "hash", "written before the event that refers to it")
    assert await broker.read(TOPIC, START) == NOTHING


async def test_read_of_what_nobody_wrote_from_a_position_is_a_gap(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    history = await broker.read(TOPIC, Position(epoch="abcdefgh", offset=3), seen=True)
    assert (history.epoch, history.complete, history.upto) == ("", False, 0)
    assert await redis.exists(*keys) == 0


async def test_read_gives_both_streams_in_order(author: Author) -> None:
    await author.add(event("a", kind="d", message="m"), "b", event("c", kind="d", message="m"), "d")
    history = await author.broker.read(TOPIC, START)
    assert offsets(history) == [1, 2, 3, 4, 5]
    assert [stored.data for stored in history.events][1:] == [
        b'{"text":"%b"}' % text for text in (b"a", b"b", b"c", b"d")
    ]
    assert (history.top, history.upto, history.floor, history.complete) == (5, 5, 0, True)
    assert offsets(await author.broker.read(TOPIC, Position(epoch=history.epoch, offset=3))) == [4, 5]
    at_top = await author.broker.read(TOPIC, author.position)
    assert (offsets(at_top), at_top.complete, at_top.upto) == ([], True, 5)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 8, 9])
async def test_read_in_pages_is_the_whole(author: Author, limit: int) -> None:
    for number in range(4):
        await author.add(event("a", kind="d", message="m"), str(number))
    position, seen = START, []
    while True:
        page = await author.broker.read(TOPIC, position, limit=limit)
        assert page.complete
        assert len(page.events) <= limit
        assert all(position.offset < offset <= page.upto for offset in offsets(page))
        seen += offsets(page)
        position = Position(epoch=page.epoch, offset=page.upto)
        if page.upto == page.top:
            break
    assert seen == list(range(1, 10))


async def test_read_over_dropped_deltas_is_complete_to_the_top(author: Author) -> None:
    for text in "abc":
        await author.delta(text)
    await author.end_message("abc")
    history = await author.broker.read(TOPIC, Position(epoch=author.position.epoch, offset=2))
    assert (offsets(history), history.upto, history.complete) == ([5], 5, True)
    first = await author.broker.read(TOPIC, START, limit=1)
    assert (offsets(first), first.upto) == ([1], 1)


async def test_read_without_events_gives_the_facts(author: Author) -> None:
    history = await author.broker.read(TOPIC, START, limit=0)
    assert (history.events, history.upto, history.top, history.complete) == ((), 0, 1, True)
    assert history.size == len(b'{"text":"start"}')


# Positions that may not go on.


async def snapshot_at(author: Author, position: Position, data: bytes = b"state") -> None:
    history = await author.broker.read(TOPIC, START, limit=0)
    await author.broker.trim(TOPIC, data, position=position, size=history.size)


async def test_read_below_the_floor_starts_from_the_snapshot(author: Author) -> None:
    await author.add("a")
    at = author.position
    await author.add("b")
    await snapshot_at(author, at, b"line\nbreak")
    for position in (START, Position(epoch=at.epoch, offset=1)):
        history = await author.broker.read(TOPIC, position)
        assert (history.complete, history.floor) == (False, 2)
        assert (history.snapshot, history.snapshot_position) == (b"line\nbreak", at)
        assert (offsets(history), history.upto) == ([3], 3)
    history = await author.broker.read(TOPIC, at)
    assert (history.complete, history.snapshot, offsets(history)) == (True, None, [3])


async def test_read_from_another_history_is_a_gap_from_the_start(author: Author) -> None:
    history = await author.broker.read(TOPIC, Position(epoch="unknown0", offset=1))
    assert (history.complete, history.snapshot, history.snapshot_position) == (False, None, None)
    assert offsets(history) == [1]


async def test_read_from_an_offset_of_no_epoch_is_a_gap(author: Author) -> None:
    assert not (await author.broker.read(TOPIC, Position(epoch="", offset=1))).complete


async def test_read_above_the_top_by_a_client_is_only_judged(author: Author) -> None:
    claim = Position(epoch=author.position.epoch, offset=9)
    history = await author.broker.read(TOPIC, claim)
    assert (history.complete, history.epoch) == (False, author.position.epoch)


async def test_read_above_the_top_by_one_who_has_seen_it_opens_an_epoch(author: Author) -> None:
    seen = Position(epoch=author.position.epoch, offset=9)
    history = await author.broker.read(TOPIC, seen, seen=True)
    assert not history.complete
    assert history.epoch != author.position.epoch
    # Who is not past the rollback goes on.
    await act(author.broker, TOPIC, "1")
    later = await author.broker.read(TOPIC, author.position, seen=True)
    assert (later.complete, later.epoch, offsets(later)) == (True, history.epoch, [2])


async def test_read_of_another_epoch_never_opens_one(author: Author) -> None:
    await author.broker.read(TOPIC, Position(epoch="unknown0", offset=99), seen=True)
    assert (await author.broker.read(TOPIC, START)).epoch == author.position.epoch


@pytest.mark.parametrize("seen", [True, False])
async def test_read_on_another_server(author: Author, redis: Redis, keys: tuple[str, ...], *, seen: bool) -> None:
    await redis.hset(keys[0], "server", "other:-1")
    history = await author.broker.read(TOPIC, author.position, seen=seen)
    assert history.complete
    # Else a reader could go on in what a rolled back history still calls by its old name.
    assert history.epoch != author.position.epoch


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
async def test_read_of_a_broken_history_begins_it_anew(
    author: Author, redis: Redis, keys: tuple[str, ...], gone: int
) -> None:
    await author.add("a")
    await snapshot_at(author, author.position)
    await author.add("b")
    await author.delta("c")
    await redis.delete(keys[gone])
    history = await author.broker.read(TOPIC, author.position)
    assert (history.complete, history.top, history.floor, history.events) == (False, 0, 0, ())
    assert history.epoch not in {"", author.position.epoch}
    assert (await author.broker.read(TOPIC, START)).epoch == history.epoch
    assert await redis.ttl(keys[0]) > 0
    # The run, which would have gone the short way, hears of it.
    answer = await author.add("d")
    assert type(answer).__name__ == "Restore"
