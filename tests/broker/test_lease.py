"""lease.lua: a test per branch, on a real server."""

import json

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.port import Appended, Busy, Deleted, Ended, Fenced, LogStep, Restore
from gateway.broker.redis import RedisBroker
from gateway.types import START, Position
from tests.broker.author import Author, act, event, stored
from tests.broker.conftest import TOPIC

LOST = b'{"type":"agent_lost","run":"run1"}'


@pytest_asyncio.fixture
async def author(broker: RedisBroker) -> Author:
    author = Author(broker, TOPIC)
    await author.start()
    return author


async def renew(
    author: Author, *, lease: int = 30_000, token: str = "", position: Position | None = None
) -> Appended | Restore | Ended | Fenced | Deleted:
    return await author.broker.renew(
        TOPIC, run=author.run, token=token or author.token, lease=lease, position=position or author.position
    )


async def declare_lost(author: Author, position: Position = START) -> Appended | Busy | None:
    return await author.broker.declare_lost(TOPIC, run=author.run, data=LOST, position=position)


# renew


async def test_renew_moves_the_deadline_and_tells_of_the_last_action(author: Author) -> None:
    action = stored(await act(author.broker, TOPIC, "1"))
    before = author.broker.now()
    assert await renew(author, lease=500_000) == Appended(position=action.position, first=2, people=2)
    busy = await declare_lost(author)
    assert isinstance(busy, Busy)
    assert busy.deadline - before > 400_000


async def test_renew_renews_the_deadline_of_the_keys(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    # The connection has renewed it already; the lease itself reaches further.
    await redis.pexpire(keys[0], 1000)
    await renew(author, lease=600_000)
    assert await redis.ttl(keys[0]) > 500


async def test_renew_with_another_token_is_fenced(author: Author) -> None:
    assert await renew(author, token="other") == Fenced(position=author.position, holder="run1")


async def test_renew_of_nothing_is_fenced_and_creates_nothing(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    assert await renew(Author(broker, TOPIC)) == Fenced(position=START, holder="")
    assert await redis.exists(*keys) == 0


async def test_renew_after_the_end_gets_the_end(author: Author) -> None:
    end = stored(await author.end())
    assert await renew(author) == Ended(position=end.position, first=end.first)


async def test_renew_from_above_the_top_is_told_to_restore(author: Author) -> None:
    stored(await author.add("a", log=LogStep(first=0, before="", next=1, after="h1")))
    await author.delta("b", "message 1 %")
    answer = await renew(author, position=Position(epoch=author.position.epoch, offset=9))
    assert isinstance(answer, Restore)
    assert answer.position.epoch != author.position.epoch
    assert (answer.position.offset, answer.seq, answer.hash, answer.append_seq) == (3, 1, "h1", str(author.seq))
    assert (answer.holder, answer.open) == ("run1", ("message 1 %",))


async def test_renew_on_another_server_opens_an_epoch_and_goes_on(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await redis.hset(keys[0], mapping={"server": "other:-1", "c": "stale"})
    answer = await renew(author)
    assert isinstance(answer, Appended)
    assert answer.position.offset == 1
    assert answer.position.epoch != author.position.epoch
    stored(await author.add("a"))


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_renew_of_a_broken_history_is_told_to_restore(
    author: Author, redis: Redis, keys: tuple[str, ...], gone: int
) -> None:
    await author.delta("a")
    await redis.delete(keys[gone])
    answer = await renew(author)
    assert isinstance(answer, Restore)
    assert (answer.position.offset, answer.seq, answer.append_seq, answer.holder) == (0, 0, "", "")
    # A vanished topic is told so as well.
    await redis.delete(*keys)
    assert isinstance(await renew(author), Restore)


# lost


async def test_declare_lost_before_the_deadline_finds_it_alive(author: Author) -> None:
    answer = await declare_lost(author, author.position)
    assert isinstance(answer, Busy)
    assert (answer.holder, answer.position) == ("run1", author.position)
    stored(await author.add("a"))


async def test_declare_lost_of_one_who_does_not_hold(author: Author) -> None:
    assert await author.broker.declare_lost(TOPIC, run="run2", data=LOST, position=START) is None
    await author.end()
    assert await declare_lost(author) is None


async def test_declare_lost_after_the_deadline_ends_the_run_once(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await renew(author, lease=0)
    async with redis.pubsub() as pubsub:
        await pubsub.subscribe(keys[0])
        await pubsub.get_message(timeout=5)
        lost = await declare_lost(author)
        message = await pubsub.get_message(timeout=5)
    epoch = author.position.epoch
    assert lost == Appended(position=Position(epoch=epoch, offset=2), first=2)
    header, line = message["data"].decode().split("\n")
    assert header == f"{epoch} 2 2 agent_lost"
    assert json.loads(line) == {"push": {"channel": TOPIC, "pub": {"data": json.loads(LOST), "offset": 2}}}
    assert await declare_lost(author) is None
    assert await author.add("a") == Ended(position=lost.position, first=2)
    history = await author.broker.read(TOPIC, START)
    assert [stored.data for stored in history.events][1:] == [LOST]
    assert (await Author(author.broker, TOPIC, run="run2").start()).first == 3


async def test_declare_lost_of_one_who_wrote_only_deltas(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    author = Author(broker, TOPIC)
    await author.add(event("a", kind="d", message="m1"), lease=30_000)
    await renew(author, lease=0)
    assert stored(await declare_lost(author)).position.offset == 2
    assert await redis.ttl(keys[1]) > 0
    history = await broker.read(TOPIC, START)
    assert [found.offset for found in history.events] == [1, 2]


async def test_declare_lost_just_after_a_rollback_gives_the_run_its_length_again(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await redis.hset(keys[0], mapping={"server": "other:-1", "c": "stale", "lease": f"run1 {author.token} 1 30000"})
    answer = await declare_lost(author)
    assert isinstance(answer, Busy)
    assert answer.deadline > author.broker.now()
    stored(await author.add("a"))
