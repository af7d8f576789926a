"""advance.lua: what goes the short way, what does not, and that both store the same; on a real server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.port import Appended, AppendRequest, Bound, Condition, Entry, Fenced, LogStep, Restore
from gateway.broker.redis import RedisBroker
from gateway.broker.scripts import ADVANCE, SCRIPTS, Script
from gateway.broker.wire import Wire
from gateway.types import START, Position, Topic
from tests.broker.author import Author, event, stored
from tests.broker.conftest import TOPIC


class Taken:
    """Which scripts were run, and what `ADVANCE` answered."""

    def __init__(self) -> None:
        self.short: list[bytes] = []
        self.names: list[str] = []

    def clear(self) -> None:
        self.short.clear()
        self.names.clear()

    @property
    def went(self) -> str:
        """Which way the last appends went: (s)hort, (l)ong, or (b)oth, after a look at the short one."""
        ways = ""
        for name in self.names:
            if name == "advance":
                ways += "s" if self.short.pop(0) else "b"
            elif not ways.endswith("b"):
                ways += "l"
            else:
                ways = ways[:-1] + "B"
        self.clear()
        return ways.lower()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    noted, original = Taken(), Wire.run

    async def run(wire: Wire, script: Script, *arguments: Any) -> Any:
        answer = await original(wire, script, *arguments)
        if script.name in {"advance", "append"}:
            noted.names.append(script.name)
        if script is ADVANCE:
            noted.short.append(answer)
        return answer

    monkeypatch.setattr(Wire, "run", run)
    return noted


@pytest_asyncio.fixture
async def author(broker: RedisBroker, taken: Taken) -> AsyncIterator[Author]:
    """A run that has started, with one message open."""
    author = Author(broker, TOPIC)
    await author.start()
    await author.delta("a")
    taken.clear()
    yield author


def test_it_is_one_of_the_scripts() -> None:
    assert ADVANCE in SCRIPTS


async def test_deltas_of_open_messages_and_plain_events_go_the_short_way(
    author: Author, taken: Taken, redis: Redis, keys: tuple[str, ...]
) -> None:
    async with redis.pubsub() as pubsub:
        await pubsub.subscribe(keys[0])
        await pubsub.get_message(timeout=5)
        one = stored(await author.delta("b"))
        many = stored(await author.add(event("c", kind="d", message="m1"), event("d", type="x.y"), event("e")))
        payloads = [(await pubsub.get_message(timeout=5))["data"].decode() for _ in range(2)]
    assert taken.went == "ss"
    assert (one.first, one.position.offset, one.repeated) == (3, 3, False)
    assert (many.first, many.position.offset) == (4, 6)
    epoch = one.position.epoch
    line = '{{"push":{{"channel":"{}","pub":{{"data":{},"offset":{}}}}}}}'
    data = [entry.data.decode() for entry in (event("b", kind="d", message="m1"), event("c", kind="d", message="m1"))]
    rest = [event("d").data.decode(), event("e").data.decode()]
    kinds = event("b", kind="d", message="m1").type
    assert payloads[0] == f"{epoch} 3 3 {kinds}\n" + line.format(TOPIC, data[0], 3)
    assert payloads[1] == f"{epoch} 4 6 {kinds},x.y,log\n" + "\n".join(
        line.format(TOPIC, text, offset) for offset, text in enumerate([data[1], *rest], 4)
    )
    history = await author.broker.read(TOPIC, START)
    assert [found.offset for found in history.events] == [1, 2, 3, 4, 5, 6]


async def test_the_people_s_last_event_is_told(author: Author, taken: Taken) -> None:
    request = AppendRequest(writer="u/ann/1", seq="1", entries=(event("hello", type="message_queued"),))
    asked = await author.broker.append(TOPIC, request, position=START)
    assert isinstance(asked, Appended)
    taken.clear()
    assert stored(await author.delta("b")).people == asked.position.offset
    assert taken.went == "s"


async def test_the_first_delta_of_a_message_goes_the_long_way(author: Author, taken: Taken) -> None:
    stored(await author.delta("b", "m2"))
    stored(await author.delta("c", "m2"))
    stored(await author.end_message("whole", "m2"))
    stored(await author.delta("late", "m2"))
    assert taken.went == "bslb"


async def test_a_message_whose_id_is_a_part_of_another_s_is_not_open(author: Author, taken: Taken) -> None:
    stored(await author.delta("b", "m"))
    assert taken.went == "b"


async def test_a_plain_event_into_a_stream_that_is_not_there_goes_the_long_way(
    author: Author, taken: Taken, redis: Redis, keys: tuple[str, ...]
) -> None:
    await author.broker.trim(TOPIC, b"{}", position=author.position, size=2)
    assert await redis.xlen(keys[1]) == 0
    stored(await author.add("b"))
    stored(await author.add("c"))
    assert taken.went == "bs"


async def test_a_known_append_is_answered_the_long_way(author: Author, taken: Taken) -> None:
    first = stored(await author.delta("b"))
    again = stored(await author.add(event("b", kind="d", message="m1"), seq=author.seq))
    assert (again.repeated, again.position) == (True, first.position)
    assert taken.went == "sb"


async def test_a_position_above_the_top_is_judged_the_long_way(author: Author, taken: Taken) -> None:
    ahead = Position(epoch=author.position.epoch, offset=author.position.offset + 1)
    answer = await author.add(event("b", kind="d", message="m1"), position=ahead)
    assert isinstance(answer, Restore)
    assert taken.went == "b"


async def test_who_holds_no_lease_is_refused_the_long_way(author: Author, taken: Taken) -> None:
    author.token = "another"  # of a lease
    assert isinstance(await author.delta("b"), Fenced)
    assert taken.went == "b"


async def test_a_full_topic_is_refused_the_long_way(redis_url: str, key_prefix: str, taken: Taken) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=2000)
    author = Author(broker, TOPIC)
    await author.start()
    await author.delta("a")
    taken.clear()
    assert isinstance(await author.add(event("b" * 3000, kind="d", message="m1")), Bound)
    assert "b" in taken.went
    await broker.aclose()


async def test_the_time_to_live_is_renewed_the_long_way(redis_url: str, key_prefix: str, taken: Taken) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    author = Author(broker, TOPIC)
    await author.start()
    await author.delta("a")
    other = RedisBroker(redis_url, key_prefix=key_prefix)
    author.broker = other
    taken.clear()
    stored(await author.delta("b"))
    stored(await author.delta("c"))
    assert taken.went == "ls"
    await broker.aclose()
    await other.aclose()


async def test_both_ways_store_the_same(broker: RedisBroker, redis: Redis, key_prefix: str, taken: Taken) -> None:
    states, ways = [], []
    for topic, hurry in ((Topic("same"), True), (Topic("sane"), False)):
        author = Author(broker, topic)
        key = f"{key_prefix}:{{{topic}}}"

        async def add(
            *entries: Entry | str, author: Author = author, key: str = key, hurry: bool = hurry, **more: Any
        ) -> None:
            if not hurry:
                await redis.hset(key, "c", "stale")
            stored(await author.add(*entries, **more))

        await author.start()
        await add(event("a", kind="d", message="m1"))
        await add(event("b", kind="d", message="m1"))
        await add(event("b", kind="d", message="m1"), "c", event("b", kind="d", message="m1"))
        await add("d", log=LogStep(first=0, before="", next=1, after="h1"))
        await add(event("b", kind="d", message="m1"))
        await add(event("a", kind="e", message="m1"))
        await add("e", conditions=[Condition(field="r:run1", op="=", value="run")])
        await add("f", "g")
        await add(event("end", kind="x"))
        ways.append(taken.went)
        fields: dict[bytes, bytes] = await redis.hgetall(key)  # type: ignore[assignment]  # decoding is off
        epoch = fields.pop(b"epoch")
        state = {name: value.replace(epoch, b"E") for name, value in fields.items()}
        del state[b"latest"]
        history = await broker.read(topic, START)
        states.append((state, history.events, history.size, history.seq))
    assert ways == ["lbsslsllsl", "lbbblbllbl"]
    assert states[0] == states[1]
