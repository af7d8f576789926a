"""Large values: out of the event, into the store, back into the context of the next run."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.blobs import LARGE, PREVIEW, cut, encoded, filled, hashes
from gateway.broker.keys import Keys
from gateway.broker.port import Bound
from gateway.broker.redis import RedisBroker
from gateway.codec import MAX_EVENT_BYTES, encode_event
from gateway.context.content import ContentPart
from gateway.context.messages import Message, ToolCall
from gateway.errors import ContextTooLargeError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.topic_state import load_values, read_topic
from gateway.types import START, Topic
from tests.event_strategies import JSON
from tests.publishing import events, mirror, until
from tests.servers import RedisServer
from tests.serving import serve
from tests.test_hub import Following

TOPIC = Topic("chat:1")
HUGE = "".join(f"line {number} of the output 🚀\n" for number in range(180_000))
"""More than 5 MB."""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


# Cutting


def test_small_data_is_left_alone() -> None:
    data = {"content": "x" * LARGE, "deep": [{"a": ["b" * 1000]}]}
    small = cut(data)
    assert small.data is data
    assert (small.blobs, small.values) == ({}, {})


def test_large_texts_are_cut_wherever_they_are() -> None:
    text, other = "é" * LARGE, "y" * (LARGE + 1)
    data = {"content": [{"type": "image", "data": text}, "short"], "a/b": {"~": other}, "n": 1}
    small = cut(data)
    assert small.data == {
        "content": [{"type": "image", "data": "é" * PREVIEW}, "short"],
        "a/b": {"~": "y" * PREVIEW},
        "n": 1,
    }
    assert small.blobs == {
        "/content/0/data": {"hash": sha(text), "bytes": 2 * LARGE},
        "/a~1b/~0": {"hash": sha(other), "bytes": LARGE + 1},
    }
    assert small.values == {sha(text): text, sha(other): other}
    assert sorted(hashes(small.blobs)) == sorted(small.values)
    assert data["n"] == 1
    assert filled(small.data, small.blobs, small.values) == data


def test_preview_ends_at_a_whole_character() -> None:
    small = cut({"content": "🚀" * LARGE})
    assert small.data["content"] == "🚀" * PREVIEW


def test_many_middling_texts_are_cut_until_they_fit() -> None:
    data = {f"part{number}": str(number % 10) * 20_000 for number in range(30)}
    small = cut(data)
    assert len(encode_event({"type": "x", **small.data, "blobs": small.blobs})) <= MAX_EVENT_BYTES
    assert 20 < len(small.blobs) < 30
    assert filled(small.data, small.blobs, small.values) == data


def test_text_that_grows_by_escaping_is_cut() -> None:
    data = {"content": "\x00" * 60_000}
    small = cut(data)
    assert list(small.blobs) == ["/content"]
    assert len(encode_event({"type": "x", **small.data})) < 20_000


def test_lone_surrogates_are_replaced_as_in_events() -> None:
    small = cut({"content": "\ud83d" + "x" * LARGE + "\ud83d\ude80"})
    (value,) = small.values.values()
    assert encoded(value).decode() == "\ufffd" + "x" * LARGE + "🚀"
    assert small.data["content"] == "\ufffd" + "x" * (PREVIEW - 1)


@given(st.dictionaries(st.text(max_size=3), JSON), JSON, st.dictionaries(st.text(max_size=3), st.text()))
def test_filling_takes_anything(data: dict[str, Any], blobs: Any, values: dict[str, str]) -> None:
    filled(data, blobs, values)
    filled(data, {"/" + key: {"hash": next(iter(values), "")} for key in data}, values)


def test_filling_leaves_what_is_not_there() -> None:
    data = {"content": "previ", "list": ["a"], "n": 1}
    blobs = {
        pointer: {"hash": "h"} for pointer in ("/none", "/list/1", "/list/x", "/n/deep", "/list/-1", "", "content")
    }
    assert filled(data, blobs, {"h": "whole"}) == data
    assert filled(data, {"/content": {"hash": "other"}, "/list/0": "h"}, {"h": "whole"}) == data


# In the store


async def test_blobs_are_kept_once(broker: RedisBroker, redis: Redis, key_prefix: str) -> None:
    key = Keys(key_prefix).of(TOPIC)[5]
    assert await broker.store_blobs(TOPIC, {"a": b"1" * 10, "b": b"2" * 20}, run="r", position=START) is None
    assert await broker.store_blobs(TOPIC, {"a": b"1" * 10, "c": b"3" * 5}, run="r", position=START) is None
    assert await redis.hget(key, "bytes") == b"35"
    assert 0 < await redis.ttl(key) <= 30 * 24 * 3600
    assert await broker.blobs(TOPIC, ["a", "c", "d"]) == {"a": b"1" * 10, "c": b"3" * 5}


async def test_blobs_of_one_topic_are_bounded(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=100, ttl=0)
    assert await broker.store_blobs(TOPIC, {"a": b"1" * 60}, run="r", position=START) is None
    assert await broker.store_blobs(TOPIC, {"b": b"2" * 60}, run="r", position=START) == Bound(size=60)
    assert await broker.blobs(TOPIC, ["b"]) == {}
    assert await broker.store_blobs(TOPIC, {"a": b"1" * 60, "c": b"3" * 40}, run="r", position=START) is None
    await broker.aclose()


# In runs


async def test_five_megabytes_break_nothing(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    assert len(HUGE.encode()) > 5_000_000
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as live, gateway.plain() as late:
        reader = Following(live, TOPIC)
        await reader.start()
        async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.assistant("", tool_calls=(ToolCall(id="c1", name="cat", arguments="{}"),)))
            await run.tool_call("c1", "cat", "{}")
            await run.tool_result("c1", "cat", HUGE)
            await run.delta("That was long.")
            assert run.context.entries[-1].text == HUGE
            end = await run.complete()
        await reader.until(end.offset)
        joined = Following(late, TOPIC)
        await joined.start()
        await joined.until(end.offset)
        for following in (reader, joined):
            assert max(following.plain.frames) <= 128 * 1024
            assert following.mirror.state() == reader.mirror.state()
        result = reader.mirror.messages()[1]
        assert result["content"] == HUGE[:PREVIEW]
        assert result["blobs"] == {"/content": {"hash": sha(HUGE), "bytes": len(HUGE.encode())}}
        assert (await broker.weigh(TOPIC)).size < 50_000
        async with httpx.AsyncClient(base_url=gateway.http) as client:
            answer = await client.get(f"/topics/{TOPIC}/blobs/{sha(HUGE)}")
            assert (answer.status_code, answer.text) == (200, HUGE)
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert "immutable" in answer.headers["cache-control"]
            for wrong in (sha("other"), "bytes", sha(HUGE).upper(), "..%2F"):
                assert (await client.get(f"/topics/{TOPIC}/blobs/{wrong}")).status_code == 404
            assert (await client.get(f"/topics/chat:2/blobs/{sha(HUGE)}")).status_code == 404


async def test_next_run_has_the_whole_value(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    arguments = json.dumps({"text": "z" * 100_000})
    image = ContentPart.from_raw({"type": "text", "text": "w" * 200_000})
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user((image,)))
            call = ToolCall(id="c1", name="write", arguments=arguments)
            await run.add_message(Message.assistant("", tool_calls=(call,)))
            await run.tool_call("c1", "write", arguments)
            await run.tool_result("c1", "write", HUGE)
            before = run.context
        other = RedisBroker(redis_url, key_prefix=key_prefix)
        async with Publisher(broker=other) as elsewhere, elsewhere.run(TOPIC, agent="b") as later:
            assert later.context.entries == before.entries
            assert later.context.tool_calls == tuple(
                item.to_dict() if isinstance(item, ToolCall) else item for item in before.tool_calls
            )
            await later.add_message(Message.user("go on"))
        context = await publisher.context(TOPIC)
        assert [message.text for message in context.entries][-2:] == [HUGE, "go on"]
        await other.aclose()
    state = await mirror(broker, TOPIC)
    assert all(len(json.dumps(event)) < 20_000 for event in state["context"]["events"])
    assert [run["status"] for run in state["runs"]] == ["completed", "completed"]


async def test_hash_of_the_log_is_over_what_travels(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("x" * 70_000))
            await run.flush()
            mark = run._writer.recorder.mark()
        state = await read_topic(broker, TOPIC)
        assert (state.seq, state.hash) == mark
        # The context that a caller kept whole is still the topic's own.
        async with publisher.run(TOPIC, agent="a", context=run.context) as again:
            await again.add_message(Message.user("more"))


async def test_value_that_is_gone_leaves_its_preview(broker: RedisBroker, redis: Redis, key_prefix: str) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("x" * 70_000))
        await redis.delete(Keys(key_prefix).of(TOPIC)[5])
        context = await publisher.context(TOPIC)
        assert context.entries[0].text == "x" * PREVIEW
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("y"))


async def test_values_beyond_the_bound_stop_the_run(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=300_000)

    async def agent() -> None:
        async with publisher.run(TOPIC, agent="a") as run:
            for number in range(10):
                await run.add_message(Message.user(f"{number}" * 100_000))
                await run.flush()

    async with Publisher(broker=broker) as publisher:
        with pytest.raises(ContextTooLargeError):
            await agent()
    state = await mirror(broker, TOPIC)
    assert [run["status"] for run in state["runs"]] == ["failed"]
    stored = [event for event in await events(broker, TOPIC) if event["type"] == "user_message"]
    assert len(stored) == 3
    await broker.aclose()


async def test_unfinished_text_of_megabytes_is_sealed_whole(broker: RedisBroker) -> None:
    text = "word " * 100_000
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            for start in range(0, len(text), 10_000):
                await run.delta(text[start : start + 10_000])
        assert (await publisher.context(TOPIC)).entries[0].text == text
    (entry,) = (await mirror(broker, TOPIC))["context"]["events"]
    assert (len(entry["data"]["content"]), entry["blobs"]["/content"]["bytes"]) == (PREVIEW, len(text))


async def test_value_that_the_store_lost_is_written_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "data") as server:
        broker = RedisBroker(server.url, timeout=1)
        async with Publisher(broker=broker) as publisher:
            async with publisher.run(TOPIC, agent="a") as run:
                await run.add_message(Message.user("1" * 100_000))
            async with publisher.run(TOPIC, agent="a") as run:
                await run.add_message(Message.user("2" * 100_000))
                await run.flush()
                with server.away():
                    await asyncio.sleep(0)
                await run.add_message(Message.user("3"))
                await run.flush()
            context = await publisher.context(TOPIC)
            assert [message.text for message in context.entries] == ["1" * 100_000, "2" * 100_000, "3"]
        await broker.aclose()


async def test_values_survive_trims(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_history_bytes=3000, max_history_events=50)
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await run.add_message(Message.user("x" * 100_000))
            for number in range(200):
                await run.log("info", f"{number}")
                await run.flush()
        await until(lambda: _trimmed(broker))
        state = await load_values(broker, await read_topic(broker, TOPIC))
        assert state.context().entries[0].text == "x" * 100_000
        assert Mirror.restore(state.mirror.snapshot()).state() == state.mirror.state()
    await broker.aclose()


async def _trimmed(broker: RedisBroker) -> bool:
    return (await broker.read(TOPIC, (await read_topic(broker, TOPIC)).position, limit=0)).floor > 3
