"""What a topic takes, and what of it may be over: told from its state, on a real server."""

import pytest
from redis.asyncio import Redis

from gateway.broker.calls import MAX_ENTRIES, slices, standing, weight
from gateway.broker.port import Change, Standing, Weight
from gateway.broker.redis import RedisBroker
from gateway.types import START, Position
from tests.broker.author import Author, act, event
from tests.broker.conftest import TOPIC


async def test_weight_of_nothing(broker: RedisBroker, redis: Redis, keys: tuple[str, ...]) -> None:
    assert await broker.weigh(TOPIC) == Weight(size=0, snapshot=0, archive=0, events=0, fields=0)
    assert await redis.exists(*keys) == 0


async def test_weight_counts_both_streams_and_the_snapshot(broker: RedisBroker) -> None:
    author = Author(broker, TOPIC)
    await author.start()
    await author.add("a" * 100, event("b" * 50, kind="d", message="m"))
    before = await broker.weigh(TOPIC)
    size = (await broker.read(TOPIC, START, limit=0)).size
    assert (before.size, before.events, before.recent) == (size, 3, size)
    await broker.trim(TOPIC, b"s" * 70, position=Position(epoch=author.position.epoch, offset=2), size=size)
    after = await broker.weigh(TOPIC)
    assert after.events == 1
    # The stored snapshot has a line before it that says where it stands.
    assert after.snapshot > 70
    assert after.recent < 100
    assert after.fields >= before.fields


async def test_archive_is_a_part_of_the_weight(broker: RedisBroker) -> None:
    author = Author(broker, TOPIC)
    await author.start()
    size = (await broker.read(TOPIC, START, limit=0)).size
    total = await broker.archive(TOPIC, {0: b"x" * 300}, position=author.position)
    assert total == 300
    await broker.trim(TOPIC, b"s" * 70, position=author.position, size=size - total)
    found = await broker.weigh(TOPIC)
    assert (found.size, found.archive) == (370, 300)
    assert (await broker.read(TOPIC, START, limit=0)).size == 370


async def test_archive_goes_out_in_slices(broker: RedisBroker) -> None:
    author = Author(broker, TOPIC)
    await author.start()
    events = {seq: b"%d" % seq + b"x" * 1000 for seq in range(2500)}
    assert await broker.archive(TOPIC, events, position=author.position) == sum(len(data) for data in events.values())
    assert await broker.archived(TOPIC, list(events)) == events
    assert await broker.archived(TOPIC, []) == {}


async def test_standing_tells_of_the_holder_only_while_there_is_one(broker: RedisBroker) -> None:
    nobody = Standing(holder="", deadline=0, length=0, approvals={})
    assert await broker.standing(TOPIC) == nobody
    author = Author(broker, TOPIC)
    await author.start(lease=60_000)
    await author.add("ask", changes=[Change(field="a:run1/c 1", value="pending 5 null")])
    await act(broker, TOPIC, "other", changes=[Change(field="m:a", value="1")])
    found = await broker.standing(TOPIC)
    assert (found.holder, found.approvals) == ("run1", {"a:run1/c 1": "pending 5 null"})
    assert broker.now() + 50_000 < found.deadline <= broker.now() + 61_000
    await author.end()
    assert await broker.standing(TOPIC) == nobody


async def test_standing_finds_every_approval_among_many_fields(broker: RedisBroker) -> None:
    author = Author(broker, TOPIC)
    await author.start(lease=60_000)
    for start in range(0, 3000, 1000):
        changes = [Change(field=f"a:run1/{n}", value="pending 0 null") for n in range(start, start + 1000)]
        await author.add("ask", changes=changes)
    assert len((await broker.standing(TOPIC)).approvals) == 3000


@pytest.mark.parametrize("lease", [None, b""])
def test_standing_of_no_lease(lease: bytes | None) -> None:
    assert standing(lease, {}) == Standing(holder="", deadline=0, length=0, approvals={})


def test_weight_reads_a_mark_with_anything_in_it() -> None:
    found = weight(b"9 3 2 40 10 0.1", fields=5, snapshot=7, archive=b"6")
    assert found == Weight(size=50, snapshot=7, archive=6, events=5, fields=5)
    assert found.recent == 37


def test_slices_are_bounded_and_lose_nothing() -> None:
    items = [(n, b"x" * (n % 7 * 10)) for n in range(5000)]
    parts = list(slices(items, size=1000))
    assert [item for part in parts for item in part] == items
    assert all(sum(len(data) for _, data in part) <= 1000 for part in parts)
    assert max(len(part) for part in slices([(n, b"") for n in range(3000)], size=1000)) == MAX_ENTRIES
    assert list(slices([(0, b"x" * 5000), (1, b"y")], size=1000)) == [[(0, b"x" * 5000)], [(1, b"y")]]
    assert list(slices([], size=1000)) == []
