"""trim.lua: a test per branch, on a real server."""

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.port import Appended, Change, Restore, Stale, Trimmed
from gateway.broker.redis import RedisBroker
from gateway.types import START, Position
from tests.broker.author import Author, act, event, stored
from tests.broker.conftest import TOPIC


@pytest_asyncio.fixture
async def author(broker: RedisBroker) -> Author:
    author = Author(broker, TOPIC)
    await author.start()
    return author


async def trim(author: Author, position: Position, data: bytes = b"state") -> Trimmed | Stale:
    """Fold at a position, with nothing coming in between."""
    size = (await author.broker.read(TOPIC, START, limit=0)).size
    return await author.broker.trim(TOPIC, data, position=position, size=size)


async def test_trim_of_nothing(broker: RedisBroker, redis: Redis, keys: tuple[str, ...]) -> None:
    assert await broker.trim(TOPIC, b"x", position=START, size=0) == Stale(position=START, floor=0)
    assert await redis.exists(*keys) == 0


async def test_trim_stores_the_snapshot_and_drops_what_it_holds(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await author.add(event("a", kind="d", message="m"), "b", event("c", kind="d", message="m"), "d")
    at = Position(epoch=author.position.epoch, offset=3)
    assert await trim(author, at) == Trimmed(position=at)
    assert await redis.get(keys[3]) == f"{at.epoch} 3\nstate".encode()
    assert [await redis.xlen(key) for key in keys[1:3]] == [1, 1]
    history = await author.broker.read(TOPIC, at)
    assert [stored.offset for stored in history.events] == [4, 5]
    assert history.floor == 3


async def test_trim_counts_what_came_after_the_fold(author: Author) -> None:
    await author.add("a" * 100)
    folded = await author.broker.read(TOPIC, START)
    await author.add("b" * 50)
    await author.broker.trim(TOPIC, b"x" * 10, position=Position(epoch=folded.epoch, offset=2), size=folded.size)
    history = await author.broker.read(TOPIC, Position(epoch=folded.epoch, offset=2))
    assert history.size == 10 + sum(len(stored.data) for stored in history.events)


async def test_trim_of_an_open_message_counts_what_is_left_of_it(author: Author) -> None:
    for text in "abcd":
        await author.delta(text)
    await trim(author, Position(epoch=author.position.epoch, offset=3), b"x" * 10)
    left = await author.broker.read(TOPIC, author.position)
    assert left.size == 10 + 2 * len(b'{"text":"a"}')
    await author.end_message("abcd")
    assert (await author.broker.read(TOPIC, author.position)).size == 10 + len(b'{"text":"abcd"}')


async def test_trim_after_the_deltas_were_dropped_never_counts_below_nothing(author: Author) -> None:
    for _ in range(10):
        await author.delta("a" * 100)
    folded = await author.broker.read(TOPIC, START)
    await author.end_message("a")
    await author.broker.trim(TOPIC, b"x", position=Position(epoch=folded.epoch, offset=11), size=folded.size)
    assert (await author.broker.read(TOPIC, START)).size >= 1
    stored(await author.add("b"))


async def test_trim_of_what_is_kept_for_ever_sets_no_deadline(
    redis_url: str, key_prefix: str, redis: Redis, keys: tuple[str, ...], author: Author
) -> None:
    for key in keys[:2]:
        await redis.persist(key)
    mortal = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    await mortal.trim(TOPIC, b"x", position=author.position, size=0)
    assert [await redis.ttl(key) for key in (keys[0], keys[1], keys[3])] == [-1, -1, -1]
    await mortal.aclose()


async def test_trim_at_the_start_changes_nothing(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    assert await trim(author, START) == Trimmed(position=Position(epoch=author.position.epoch, offset=0))
    assert await redis.exists(keys[3]) == 0


@pytest.mark.parametrize("offset", [0, 1])
async def test_trim_below_the_floor_is_stale(author: Author, offset: int) -> None:
    await author.add("a")
    at = author.position
    await trim(author, at)
    position = Position(epoch=at.epoch, offset=offset) if offset else START
    assert await trim(author, position, b"older") == Stale(position=at, floor=2)
    assert (await author.broker.read(TOPIC, START)).snapshot == b"state"


async def test_trim_at_the_floor_changes_nothing(author: Author) -> None:
    await author.add("a")
    await trim(author, author.position)
    before = await author.broker.read(TOPIC, START)
    assert await trim(author, author.position, b"again") == Trimmed(position=author.position)
    assert await author.broker.read(TOPIC, START) == before


async def test_trim_of_another_history_is_stale(author: Author) -> None:
    assert await trim(author, Position(epoch="unknown0", offset=1)) == Stale(position=author.position, floor=0)


async def test_trim_from_above_the_top_is_stale_and_opens_an_epoch(author: Author) -> None:
    answer = await trim(author, Position(epoch=author.position.epoch, offset=5))
    assert isinstance(answer, Stale)
    assert answer.position.offset == 1
    assert answer.position.epoch != author.position.epoch


async def test_trim_of_an_older_epoch_stands_in_the_new_one(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    at = author.position
    await redis.hset(keys[0], mapping={"server": "other:-1", "c": "stale"})
    answer = await trim(author, at)
    assert isinstance(answer, Trimmed)
    assert answer.position.offset == 1
    assert answer.position.epoch != at.epoch
    assert (await author.broker.read(TOPIC, START)).snapshot_position == answer.position


@pytest.mark.parametrize("gone", [0, 1])
async def test_trim_of_a_broken_history_begins_it_anew(
    author: Author, redis: Redis, keys: tuple[str, ...], gone: int
) -> None:
    await author.delta("a")
    await redis.delete(keys[gone])
    answer = await author.broker.trim(TOPIC, b"x", position=author.position, size=0)
    assert isinstance(answer, Stale)
    assert (answer.position.offset, answer.floor) == (0, 0)
    assert isinstance(await author.add("b"), Restore)
    assert await redis.exists(keys[3]) == 0


async def test_trim_goes_on_in_slices_until_all_is_gone(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    for _ in range(25):
        await author.add(*["x"] * 1000)
    at = Position(epoch=author.position.epoch, offset=24_001)
    assert await trim(author, at) == Trimmed(position=at)
    # Whole nodes go, so a few below the floor may stay.
    assert 1000 <= await redis.xlen(keys[1]) < 1200
    history = await author.broker.read(TOPIC, at)
    assert (len(history.events), history.complete) == (1000, True)
    stored(await author.add("after"))


# What it forgets, and what it keeps.


async def fields(redis: Redis, keys: tuple[str, ...]) -> set[str]:
    names: list[bytes] = await redis.hkeys(keys[0])  # type: ignore[assignment]  # decoding is off
    return {name.decode() for name in names if name[1:2] == b":"}


async def test_trim_forgets_what_was_settled_before_the_floor_was_raised(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await act(author.broker, TOPIC, "send", changes=[Change(field="m:1", value="hello")])
    await author.add("ask", changes=[Change(field=f"a:run1/{call}", value="pending 0 null") for call in "12"])
    await act(author.broker, TOPIC, "decide", changes=[Change(field="a:run1/1", value="approve 0 null")])
    await author.end()
    await Author(author.broker, TOPIC, run="run2").start()
    all_of_them = {
        *("w:u/ann/send", "w:u/ann/decide", "w:run1", "w:run2", "r:run1", "r:run2", "m:1"),
        *("a:run1/1", "a:run1/2", "o:run1/1", "o:run1/2"),
    }
    assert await fields(redis, keys) == all_of_them
    # The first one finds the floor at 0: whoever retries still gets his answer.
    at = (await author.broker.read(TOPIC, START)).top
    await trim(author, Position(epoch=author.position.epoch, offset=at))
    assert await fields(redis, keys) == all_of_them
    assert stored(await act(author.broker, TOPIC, "send")).repeated

    await act(author.broker, TOPIC, "later")
    await trim(author, Position(epoch=author.position.epoch, offset=at + 1))
    assert await fields(redis, keys) == {"w:u/ann/later", "w:run2", "r:run2", "m:1", "a:run1/2", "o:run1/2"}


async def test_trim_keeps_what_is_the_holders(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    await author.add("ask", changes=[Change(field="a:run1/1", value="approve 0 null")])
    first = author.position
    await trim(author, first)
    await act(author.broker, TOPIC, "1")
    await trim(author, Position(epoch=first.epoch, offset=3))
    assert await fields(redis, keys) == {"w:run1", "r:run1", "a:run1/1", "o:run1/1", "w:u/ann/1"}
    assert stored(await author.add("ask", seq=author.seq)).repeated
    # It goes on from where it was, below the floor now.
    assert isinstance(await author.add("b"), Appended)


async def test_trim_passes_over_fields_that_are_none_of_the_scripts(author: Author) -> None:
    # As the fuzzer of the store found: a writer's field, and a run's, without a place.
    await author.add("a", changes=[Change(field="w:other", value="pending x"), Change(field="r:gone", value="end x")])
    at = author.position
    assert await trim(author, at) == Trimmed(position=at)
    assert await author.add("b") is not None
