"""append.lua: a test per branch, on a real server."""

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from gateway.broker.port import (
    Appended,
    AppendRequest,
    Bound,
    Broker,
    Busy,
    Change,
    Condition,
    Conflict,
    Ended,
    Fenced,
    LogStep,
    Restore,
    Unmet,
)
from gateway.broker.redis import RedisBroker
from gateway.types import START, Position
from tests.broker.author import Author, act, after, event, stored
from tests.broker.conftest import TOPIC


@pytest_asyncio.fixture
async def author(broker: RedisBroker) -> Author:
    """A run that has started: one event is there."""
    author = Author(broker, TOPIC)
    await author.start()
    return author


@pytest_asyncio.fixture
async def heard(redis: Redis, keys: tuple[str, ...]) -> AsyncIterator[PubSub]:
    """A subscription to the topic's two channels."""
    async with redis.pubsub() as pubsub:
        await pubsub.subscribe(keys[0], f"{keys[0]}:ctl")
        for _ in range(2):
            assert (await pubsub.get_message(timeout=5))["type"] == "subscribe"
        yield pubsub


async def next_of(pubsub: PubSub) -> tuple[str, str]:
    message = await pubsub.get_message(timeout=5)
    assert message is not None
    return message["channel"].decode(), message["data"].decode()


async def texts(broker: Broker, position: Position = START) -> list[str]:
    history = await broker.read(TOPIC, position)
    return [json.loads(stored.data)["text"] for stored in history.events]


# Numbering, storing, publishing.


async def test_append_numbers_without_a_hole(author: Author) -> None:
    first = stored(await author.add("a"))
    second = stored(await author.add("b", "c", "d"))
    third = stored(await author.delta("e"))
    assert (first.first, first.position.offset) == (2, 2)
    assert (second.first, second.position.offset) == (3, 5)
    assert (third.first, third.position.offset) == (6, 6)
    history = await author.broker.read(TOPIC, START)
    assert [stored.offset for stored in history.events] == [1, 2, 3, 4, 5, 6]


async def test_append_publishes_header_and_lines(author: Author, heard: PubSub, keys: tuple[str, ...]) -> None:
    answer = stored(await author.add(event("a"), event("b", kind="d", message="m"), event("c", type="")))
    channel, payload = await next_of(heard)
    assert channel == keys[0]
    header, *lines = payload.split("\n")
    assert header == f"{answer.position.epoch} 2 4 log,agent_delta,log"
    assert [json.loads(line) for line in lines] == [
        {"push": {"channel": TOPIC, "pub": {"data": {"text": text}, "offset": offset}}}
        for text, offset in (("a", 2), ("b", 3), ("c", 4))
    ]


async def test_append_of_a_person_publishes_on_control_too(
    author: Author, heard: PubSub, keys: tuple[str, ...]
) -> None:
    answer = stored(await act(author.broker, TOPIC, "1", "x", "y"))
    assert (await next_of(heard))[0] == keys[0]
    assert await next_of(heard) == (f"{keys[0]}:ctl", f"{answer.position.epoch} 3")


async def test_append_tells_of_the_last_action(author: Author) -> None:
    assert stored(await author.add("a")).people == 0
    assert stored(await act(author.broker, TOPIC, "1")).people == 3
    assert stored(await author.add("b")).people == 3
    assert stored(await author.add("c")).people == 3


async def test_append_by_nobody_in_particular(broker: RedisBroker) -> None:
    request = AppendRequest(writer="api", seq="1", entries=[event("a")])
    first = stored(await broker.append(TOPIC, request, position=START))
    assert first.position.offset == 1
    assert (first.people, first.repeated) == (0, False)
    assert stored(await broker.append(TOPIC, request, position=START)).repeated


# Once.


async def test_append_repeated_is_stored_once(author: Author) -> None:
    first = stored(await author.add("a", "b"))
    for _ in range(2):
        again = stored(await author.add("a", "b", seq=author.seq))
        assert (again.first, again.position, again.repeated) == (first.first, first.position, True)
    assert await texts(author.broker) == ["start", "a", "b"]


async def test_append_repeated_after_other_writers_is_stored_once(author: Author) -> None:
    first = stored(await author.add("a"))
    await act(author.broker, TOPIC, "1")
    assert stored(await author.add("a", seq=author.seq)).position == first.position
    assert await texts(author.broker) == ["start", "a", "1"]


async def test_append_repeated_after_another_writer_took_the_lease_for_the_run(author: Author) -> None:
    first = stored(await author.add("a"))
    request = AppendRequest(writer="w2", seq="9", run=author.run, token=author.token, lease=1000, entries=[event("b")])
    author.position = stored(await author.broker.append(TOPIC, request, position=author.position)).position
    assert stored(await author.add("a", seq=author.seq)).position == first.position
    assert await texts(author.broker) == ["start", "a", "b"]


async def test_append_repeated_by_a_fenced_writer_gets_its_first_answer(author: Author) -> None:
    first = stored(await author.add("a"))
    await lose(author)
    assert await author.add("a", seq=author.seq) == msgspec.structs.replace(first, repeated=True)


async def test_append_repeated_end_gets_its_first_answer(author: Author) -> None:
    first = stored(await author.end())
    again = stored(await author.add(event("end", kind="x"), seq=author.seq))
    assert (again.position, again.repeated) == (first.position, True)


async def test_append_of_an_action_with_another_body_is_another_append(author: Author) -> None:
    condition = Condition(field="w:u/ann/1", op="!")
    first = stored(await act(author.broker, TOPIC, "1", seq="one", conditions=[condition]))
    assert stored(await act(author.broker, TOPIC, "1", seq="one", conditions=[condition])).position == first.position
    answer = await act(author.broker, TOPIC, "1", seq="other", conditions=[condition])
    assert isinstance(answer, Unmet)
    assert answer.value == f"one {first.position.epoch} 2 2"


# Leases and ends.


async def lose(author: Author) -> Appended:
    """Let the author's lease lapse and declare it lost."""
    assert isinstance(
        await author.broker.renew(TOPIC, run=author.run, token=author.token, lease=0, position=author.position),
        Appended,
    )
    return stored(await author.broker.declare_lost(TOPIC, run=author.run, data=b"{}", position=author.position))


async def test_append_without_a_lease_is_fenced(broker: RedisBroker) -> None:
    answer = await Author(broker, TOPIC).add("a")
    assert answer == Fenced(position=START, holder="")
    assert (await broker.read(TOPIC, START)).epoch == ""


async def test_append_with_another_token_is_fenced(author: Author) -> None:
    thief = Author(author.broker, TOPIC)
    thief.token = author.token[::-1]
    thief.position, thief.seq = author.position, 10
    assert await thief.add("a") == Fenced(position=author.position, holder="run1")
    assert await texts(author.broker) == ["start"]


async def test_append_of_another_run_is_fenced_or_busy(author: Author) -> None:
    other = Author(author.broker, TOPIC, run="run2")
    other.position = author.position
    assert await other.add("a") == Fenced(position=author.position, holder="run1")
    answer = await other.add("a", lease=1000)
    assert isinstance(answer, Busy)
    assert (answer.holder, answer.position) == ("run1", author.position)
    assert answer.deadline > author.broker.now()


async def test_append_takes_a_lease_again_with_its_own_token(author: Author) -> None:
    stored(await author.add("a", lease=60_000))
    stored(await author.add("b"))
    assert await texts(author.broker) == ["start", "a", "b"]
    author.token = author.token[::-1]
    assert isinstance(await author.add("c", lease=60_000), Busy)


async def test_append_after_a_lapsed_lease_goes_on_while_nobody_declared_it_dead(author: Author) -> None:
    await author.broker.renew(TOPIC, run="run1", token=author.token, lease=0, position=author.position)
    stored(await author.add("a"))
    other = Author(author.broker, TOPIC, run="run2")
    assert isinstance(await other.add("b", lease=1000), Busy)


async def test_append_of_a_lost_run_gets_its_end(author: Author) -> None:
    end = await lose(author)
    assert await author.add("a") == Ended(position=end.position, first=end.first)
    assert await author.add("a", lease=1000) == Ended(position=end.position, first=end.first)


async def test_append_after_the_end_gets_the_first_end(author: Author) -> None:
    end = stored(await author.add(event("last words", kind="e", message="m"), event("end", kind="x")))
    for entry in (event("a"), event("another end", kind="x"), event("d", kind="d", message="m")):
        assert await author.add(entry) == Ended(position=end.position, first=end.first)
    assert await texts(author.broker) == ["start", "last words", "end"]


async def test_append_of_the_next_run_after_an_end(author: Author) -> None:
    await author.end()
    other = Author(author.broker, TOPIC, run="run2")
    assert (await other.start()).first == 3
    assert await author.add("late") == Ended(position=author.position, first=2)


# The log.


async def test_append_moves_the_log(author: Author) -> None:
    one = after("", "a")
    two = after(one, "b")
    stored(await author.add("a", log=LogStep(first=0, before="", next=1, after=one)))
    stored(await author.add("b", "c", log=LogStep(first=1, before=one, next=3, after=two)))
    await author.add("not logged")
    history = await author.broker.read(TOPIC, START)
    assert (history.seq, history.hash) == (3, two)


@pytest.mark.parametrize(
    "log",
    [
        LogStep(first=0, before="", next=1, after="x"),
        LogStep(first=2, before="h1", next=3, after="x"),
        LogStep(first=1, before="h2", next=2, after="x"),
    ],
)
async def test_append_of_another_log_is_a_conflict(author: Author, log: LogStep) -> None:
    stored(await author.add("a", log=LogStep(first=0, before="", next=1, after="h1")))
    assert await author.add("b", log=log) == Conflict(seq=1, hash="h1")
    assert await texts(author.broker) == ["start", "a"]


# Conditions and changes.


async def test_append_changes_fields_with_its_events(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    await author.add("a", changes=[Change(field="m:1", value="hello  wörld"), Change(field="m:2", value="x")])
    assert await redis.hmget(keys[0], "m:1", "m:2") == ["hello  wörld".encode(), b"x"]
    await author.add("b", changes=[Change(field="m:1", value="")])
    assert await redis.hmget(keys[0], "m:1", "m:2") == [None, b"x"]
    await author.add("c", changes=[Change(field="a:run1/1", value="pending 0 null")])
    await author.add("d", changes=[Change(field="a:run1/1", value=""), Change(field="m:2", value="")])
    assert {name[:2] for name in await redis.hkeys(keys[0]) if name[1:2] == b":"} == {b"w:", b"r:"}


@pytest.mark.parametrize(
    ("op", "value", "holds"),
    [("=", "1", True), ("=", "2", False), ("=", "", False), ("!", "", False)],
)
async def test_append_under_a_condition_on_a_field(author: Author, op: str, value: str, *, holds: bool) -> None:
    await author.add("a", changes=[Change(field="m:1", value="1")])
    answer = await author.add("b", conditions=[Condition(field="m:1", op=op, value=value)])
    if holds:
        stored(answer)
    else:
        assert answer == Unmet(field="m:1", value="1", position=author.position)


@pytest.mark.parametrize(("op", "holds"), [("=", False), ("!", True), (">", False), ("<", False)])
async def test_append_under_a_condition_on_an_absent_field(author: Author, op: str, *, holds: bool) -> None:
    answer = await author.add("b", conditions=[Condition(field="a:run1/1", op=op, value="1")])
    if holds:
        stored(answer)
    else:
        assert answer == Unmet(field="a:run1/1", value="", position=author.position)


@pytest.mark.parametrize(
    ("deadline", "op", "holds"),
    [
        ("ahead", ">", True),
        ("ahead", "<", False),
        ("passed", ">", False),
        ("passed", "<", True),
        ("none", ">", True),
        ("none", "<", False),
    ],
)
async def test_append_under_a_condition_on_a_deadline(author: Author, deadline: str, op: str, *, holds: bool) -> None:
    now = author.broker.now()
    at = {"ahead": now + 60_000, "passed": now - 60_000, "none": 0}[deadline]
    await author.add("ask", changes=[Change(field="a:run1/1", value=f"pending {at} null")])
    answer = await act(author.broker, TOPIC, "1", conditions=[Condition(field="a:run1/1", op=op)])
    if holds:
        stored(answer)
    else:
        assert answer == Unmet(field="a:run1/1", value=f"pending {at} null", position=author.position)


async def test_append_needs_all_its_conditions(author: Author) -> None:
    good, bad = Condition(field="r:run1", op="=", value="run"), Condition(field="r:run2", op="=", value="run")
    for conditions in ([good, bad], [bad, good]):
        answer = await author.add("a", conditions=conditions, changes=[Change(field="m:1", value="x")])
        assert answer == Unmet(field="r:run2", value="", position=author.position)
    stored(await author.add("b", conditions=[good, Condition(field="m:1", op="!")]))


async def test_append_of_many_decisions_at_once_lets_one_win(broker: RedisBroker, author: Author) -> None:
    pending = f"pending {broker.now() + 60_000} null"
    await author.add("ask", changes=[Change(field="a:run1/1", value=pending)])

    async def decide(number: int) -> object:
        return await act(
            broker,
            TOPIC,
            str(number),
            conditions=[Condition(field="a:run1/1", op="=", value=pending), Condition(field="a:run1/1", op=">")],
            changes=[Change(field="a:run1/1", value=f'approve 0 {{"by":"{number}"}}')],
        )

    answers = await asyncio.gather(*(decide(number) for number in range(50)))
    (winner,) = (number for number, answer in enumerate(answers) if isinstance(answer, Appended))
    values = {answer.value for answer in answers if isinstance(answer, Unmet)}
    assert values == {f'approve 0 {{"by":"{winner}"}}'}
    assert await texts(broker, author.position) == [str(winner)]


# The bound.


async def test_append_beyond_the_bound_is_refused_but_for_the_end(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=100)
    author = Author(broker, TOPIC)
    await author.start()
    await author.delta("x" * 40)
    size = (await broker.read(TOPIC, START)).size
    assert await author.add("y" * 60) == Bound(size=size)
    assert await act(broker, TOPIC, "1", "y" * 60) == Bound(size=size)
    assert (await broker.read(TOPIC, START)).top == 2
    stored(await author.add("z"))
    stored(await author.add(event("y" * 60, kind="x")))
    await broker.aclose()


# Open messages.


async def test_append_of_the_last_end_drops_the_deltas(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    await author.delta("a", "m1")
    await author.delta("b", "m2")
    await author.delta("c", "m1")
    assert await texts(author.broker) == ["start", "a", "b", "c"]
    await author.end_message("ac", "m1")
    assert await redis.xlen(keys[2]) == 3
    await author.end_message("b", "m2")
    assert not await redis.exists(keys[2])
    history = await author.broker.read(TOPIC, START)
    assert [stored.offset for stored in history.events] == [1, 5, 6]
    assert (history.upto, history.complete) == (6, True)
    assert history.size == sum(len(stored.data) for stored in history.events)


async def test_append_of_deltas_and_end_in_one(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    answer = stored(
        await author.add(
            event("a", kind="d", message="m1"),
            event("a.", kind="e", message="m1"),
            event("b", kind="d", message="m2"),
        )
    )
    assert (answer.first, answer.position.offset) == (2, 4)
    assert await texts(author.broker) == ["start", "a.", "b"]
    assert await redis.ttl(keys[2]) > 0


async def test_append_of_an_end_without_deltas(author: Author) -> None:
    stored(await author.end_message("a", "m9"))
    await author.delta("b", "m1")
    stored(await author.end_message("c", "m9"))
    assert await texts(author.broker) == ["start", "a", "b", "c"]


async def test_append_of_a_run_end_leaves_its_open_messages(author: Author) -> None:
    await author.delta("a", "m1")
    await author.end()
    other = Author(author.broker, TOPIC, run="run2")
    await other.start()
    assert await texts(author.broker) == ["start", "a", "end", "start"]
    stored(await other.end_message("a", "m1"))
    assert await texts(author.broker) == ["start", "end", "start", "a"]


# Epochs: offsets that went back.


async def other_server(redis: Redis, keys: tuple[str, ...]) -> None:
    """Make the history one that another server wrote."""
    await redis.hset(keys[0], "server", "somebody:-1")
    await redis.hset(keys[0], "c", "stale")


async def test_append_on_another_server_opens_an_epoch(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    before = stored(await author.add("a")).position
    await other_server(redis, keys)
    answer = stored(await author.add("b"))
    assert answer.position.offset == before.offset + 1
    assert answer.position.epoch != before.epoch
    assert await redis.hget(keys[0], "lineage") == f"{before.epoch}:{before.offset}".encode()
    history = await author.broker.read(TOPIC, before)
    assert (history.complete, [stored.offset for stored in history.events]) == (True, [3])
    stored(await author.add("c"))
    assert await texts(author.broker) == ["start", "a", "b", "c"]


async def test_append_from_above_the_top_is_told_to_restore(author: Author) -> None:
    await author.add("a", log=LogStep(first=0, before="", next=1, after="h1"))
    await author.delta("b", "m1")
    top = author.position
    author.position = Position(epoch=top.epoch, offset=top.offset + 5)
    answer = await author.add("c", seq=99)
    assert isinstance(answer, Restore)
    assert answer.position.offset == top.offset
    assert answer.position.epoch != top.epoch
    assert (answer.seq, answer.hash, answer.append_seq) == (1, "h1", str(author.seq))
    assert (answer.holder, answer.open) == ("run1", ("m1",))
    assert await texts(author.broker) == ["start", "a", "b"]
    author.position = answer.position
    assert stored(await author.add("c", seq=99)).position == Position(epoch=answer.position.epoch, offset=4)


async def test_append_from_an_unknown_epoch_is_told_to_restore(author: Author) -> None:
    epoch = author.position.epoch
    author.position = Position(epoch="unknown0", offset=1)
    answer = await author.add("a")
    assert isinstance(answer, Restore)
    assert answer.position == Position(epoch=epoch, offset=1)


async def test_append_from_an_older_epoch_beyond_its_end_is_told_to_restore(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    old = author.position
    await other_server(redis, keys)
    new = stored(await act(author.broker, TOPIC, "1"))
    answer = await author.add("a", position=Position(epoch=old.epoch, offset=old.offset + 1))
    assert isinstance(answer, Restore)
    assert answer.position == new.position
    stored(await author.add("a", position=old))


async def test_append_to_a_vanished_topic_is_told_to_restore(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await redis.delete(*keys)
    answer = await author.add("a")
    assert isinstance(answer, Restore)
    assert (answer.position.offset, answer.seq, answer.hash) == (0, 0, "")
    assert answer.position.epoch not in {"", author.position.epoch}
    assert (answer.append_seq, answer.holder, answer.open) == ("", "", ())
    author.position = answer.position
    stored(await author.add("a", lease=1000))
    assert await texts(author.broker) == ["a"]


async def test_append_keeps_sixteen_epochs_in_mind(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    first = author.position
    seen = [first]
    for number in range(17):
        await other_server(redis, keys)
        seen.append(stored(await act(author.broker, TOPIC, str(number))).position)
    lineage = ",".join(str(position) for position in reversed(seen[1:-1]))
    assert await redis.hget(keys[0], "lineage") == lineage.encode()
    assert isinstance(await author.add("a", position=first), Restore)
    stored(await author.add("a", position=seen[1]))


async def test_append_that_opens_an_epoch_moves_the_lease_on(
    author: Author, redis: Redis, keys: tuple[str, ...]
) -> None:
    await author.broker.renew(TOPIC, run="run1", token=author.token, lease=0, position=author.position)
    await redis.hset(keys[0], "lease", f"{author.run} {author.token} 1 60000")
    await other_server(redis, keys)
    await act(author.broker, TOPIC, "1")
    answer = await author.broker.declare_lost(TOPIC, run="run1", data=b"{}", position=START)
    assert isinstance(answer, Busy)
    assert answer.deadline > author.broker.now()


# Lost history.


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
async def test_append_to_a_broken_history_begins_it_anew(
    author: Author, redis: Redis, keys: tuple[str, ...], gone: int
) -> None:
    at = stored(await author.add("a")).position
    await author.delta("b", "m1")
    size = (await author.broker.read(TOPIC, START)).size
    await author.broker.trim(TOPIC, b"{}", position=at, size=size)
    await redis.set(keys[5], "kept")
    await author.add("c")
    await redis.delete(keys[gone])
    # A person's action has no position: it is stored, in the new history.
    action = stored(await act(author.broker, TOPIC, "1"))
    assert action.position.epoch != at.epoch
    assert action.position.offset == 1
    history = await author.broker.read(TOPIC, START)
    assert (history.floor, history.complete, len(history.events), history.seq) == (0, True, 1, 0)
    assert isinstance(await author.add("d"), Restore)
    assert await redis.exists(keys[3]) == 0
    assert await redis.get(keys[5]) == b"kept"


async def test_append_to_a_topic_with_only_blobs_is_its_first(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    await redis.hset(keys[5], "hash", "value")
    author = Author(broker, TOPIC)
    assert (await author.start()).first == 1
    assert await redis.hget(keys[5], "hash") == b"value"


# Time to live.


async def deadlines(redis: Redis, keys: tuple[str, ...]) -> list[int]:
    return [left for key in keys if (left := await redis.pttl(key)) != -2]


async def test_append_gives_all_keys_one_deadline(author: Author, redis: Redis, keys: tuple[str, ...]) -> None:
    await author.delta("a", "m1")
    history = await author.broker.read(TOPIC, START)
    await author.broker.trim(TOPIC, b"{}", position=author.position, size=history.size)
    await author.delta("b", "m1")
    await author.add("c")
    found = await deadlines(redis, keys)
    assert len(found) == 4
    assert max(found) - min(found) < 1000
    day = 24 * 3600 * 1000
    assert 29 * day < found[0] <= 30 * day


async def test_append_gives_keys_that_come_later_the_same_deadline(
    broker: RedisBroker, redis: Redis, keys: tuple[str, ...]
) -> None:
    author = Author(broker, TOPIC)
    await author.add(event("a", kind="d", message="m1"), lease=1000)
    assert await redis.exists(*keys) == 2
    await author.add(event("a", kind="e", message="m1"), event("b", kind="d", message="m2"))
    assert len(await deadlines(redis, keys)) == 3
    assert min(await deadlines(redis, keys)) > 0


async def test_append_renews_the_deadline_now_and_then(
    redis_url: str, key_prefix: str, redis: Redis, keys: tuple[str, ...]
) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    author = Author(broker, TOPIC)
    await author.start()
    for key in keys:
        await redis.pexpire(key, 500_000)
    await author.add("a")
    assert await redis.ttl(keys[0]) <= 500
    await broker.aclose()
    # Another connection has not renewed it yet.
    author.broker = broker = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    await author.add("b")
    assert [await redis.ttl(key) > 900 for key in keys[:2]] == [True, True]
    await broker.aclose()


async def test_append_keeps_for_ever_without_a_ttl(
    redis_url: str, key_prefix: str, redis: Redis, keys: tuple[str, ...]
) -> None:
    short = RedisBroker(redis_url, key_prefix=key_prefix, ttl=1000)
    author = Author(short, TOPIC)
    await author.start()
    await short.aclose()
    assert await redis.ttl(keys[0]) > 0
    author.broker = broker = RedisBroker(redis_url, key_prefix=key_prefix, ttl=0)
    await author.delta("a")
    await author.add("b")
    assert [await redis.ttl(key) for key in keys[:3]] == [-1, -1, -1]
    await broker.aclose()


@pytest.mark.parametrize("lease", [True, False])
async def test_append_keeps_at_least_until_the_latest_deadline_inside(
    redis_url: str, key_prefix: str, redis: Redis, keys: tuple[str, ...], *, lease: bool
) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, ttl=100)
    author = Author(broker, TOPIC)
    await author.start(lease=900_000 if lease else 1000)
    if not lease:
        await author.add("ask", changes=[Change(field="a:run1/1", value=f"pending {broker.now() + 900_000} null")])
    await author.delta("a")
    assert [await redis.ttl(key) > 800 for key in keys[:3]] == [True, True, True]
    await broker.aclose()


async def test_a_free_topic_is_taken_only_from_a_position_behind_the_last_end(broker: RedisBroker) -> None:
    first, late = Author(broker, TOPIC), Author(broker, TOPIC, run="run2")
    seen = await first.start()
    late.position = seen.position
    await first.delta("never sealed")
    await first.end()
    answer = await late.add("start", lease=30_000)
    assert isinstance(answer, Restore)
    assert (answer.position.offset, answer.holder, answer.append_seq) == (3, "", "")
    late.position = answer.position
    stored(await late.add("start", lease=30_000))


async def test_a_topic_whose_run_was_lost_is_taken_only_from_behind_that(broker: RedisBroker) -> None:
    first, late = Author(broker, TOPIC), Author(broker, TOPIC, run="run2")
    late.position = (await first.start(lease=0)).position
    lost = await broker.declare_lost(TOPIC, run=first.run, data=b'{"type":"agent_lost"}', position=START)
    assert isinstance(lost, Appended)
    assert isinstance(await late.add("start", lease=30_000), Restore)
    late.position = lost.position
    stored(await late.add("start", lease=30_000))
