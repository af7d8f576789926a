"""Summaries of topics as a dashboard gets them: real gateways, real sockets."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.types import Topic
from tests.serving import Gateway, Plain, append, eventually, serve


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


async def watch(plain: Plain, topic: str) -> dict[str, Any]:
    reply = await plain.ask("subscribe", {"channel": topic, "data": {"lens": "summary"}})
    summary: dict[str, Any] = reply["data"]["summary"]
    return summary


async def until(plain: Plain, topic: str, **expected: Any) -> dict[str, Any]:
    """Read pushes until a summary says so."""
    while True:
        push = await plain.push()
        if push["channel"] == topic and expected.items() <= push["pub"]["data"].items():
            assert push["pub"].keys() == {"data"}
            summary: dict[str, Any] = push["pub"]["data"]
            return summary


def start(run: str = "r", **fields: Any) -> dict[str, Any]:
    return {"type": "agent_start", "run": run, "agent": "researcher", "at": 1000, **fields}


async def test_summary_comes_with_the_reply_and_follows_the_run(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t", start(model="m-1", max_iterations=9))
    async with served.plain() as plain:
        first = await watch(plain, "t")
        assert (first["state"], first["agent"], first["model"], first["phase"]) == (
            "running",
            "researcher",
            "m-1",
            "waiting",
        )
        assert (first["topic"], first["offset"], first["started_at"], first["viewers"]) == ("t", 1, 1000, 0)
        await append(broker, "t", {"type": "agent_delta", "run": "r", "message": "m", "text": "hello you"}, kind="d")
        writing = await until(plain, "t", phase="writing")
        assert writing["offset"] == 2
        assert writing["events_per_second"] == 1
        assert writing["tokens_per_second"] == 2.2
        quiet = await until(plain, "t", events_per_second=0)
        assert (quiet["offset"], quiet["tokens_per_second"]) == (2, 0)
        await append(broker, "t", {"type": "agent_error", "run": "r", "error": "no more", "at": 5000})
        failed = await until(plain, "t", state="failed")
        assert (failed["error"], failed["errors"], failed["ended_at"], failed["phase"]) == ("no more", 1, 5000, None)


async def test_many_topics_share_one_write(served: Gateway, broker: RedisBroker) -> None:
    topics = [f"many/{number}" for number in range(40)]
    async with served.plain() as plain:
        for topic in topics:
            assert (await watch(plain, topic))["state"] == "idle"
        for topic in topics:
            await append(broker, topic, start())
        left = set(topics)
        while left:
            push = await plain.push()
            if push["pub"]["data"]["state"] == "running":
                left.discard(push["channel"])


async def test_viewers_are_those_who_read_more_than_the_summary(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "seen", start())
    async with served.plain() as board, served.plain() as other, served.plain() as reader:
        assert (await watch(board, "seen"))["viewers"] == 0
        assert (await watch(other, "seen"))["viewers"] == 0
        await reader.ask("subscribe", {"channel": "seen"})
        await until(board, "seen", viewers=1)
        await until(other, "seen", viewers=1)
        await reader.ask("unsubscribe", {"channel": "seen"})
        await until(board, "seen", viewers=0)
        assert (await board.ask("presence", {"channel": "seen"}))["presence"] == {}


async def test_nothing_is_kept_for_nobody(served: Gateway) -> None:
    async with served.plain() as plain:
        await watch(plain, "alone")
        topic = served.hub._topics["alone"]
        assert len(topic.audiences) == 1
        await plain.ask("unsubscribe", {"channel": "alone"})
        await eventually(lambda: not topic.audiences)


async def test_summary_of_another_history_replaces_the_old_one(
    served: Gateway, broker: RedisBroker, redis: Any
) -> None:
    await append(broker, "wiped", start(agent="old"))
    async with served.plain() as plain:
        assert (await watch(plain, "wiped"))["agent"] == "old"
        keys = [key async for key in redis.scan_iter(match=f"{served.hub.broker.channel(Topic('wiped'))}*")]
        await redis.delete(*keys)
        await append(broker, "wiped", start(run="n", agent="new"))
        assert (await until(plain, "wiped", agent="new"))["offset"] == 1


async def test_summary_comes_after_a_full_socket_has_drained(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "slow", start())
    await append(broker, "flood", {"type": "note"})
    async with served.plain() as plain:
        await watch(plain, "slow")
        await plain.ask("subscribe", {"channel": "flood"})
        flood = served.hub._topics["flood"]
        summary = served.hub._topics["slow"]
        plain.socket.transport.pause_reading()
        while not (flood.behind and summary.behind):
            await append(broker, "flood", *[{"type": "note", "text": "x" * 2000} for _ in range(50)])
        await append(broker, "slow", {"type": "agent_complete", "run": "r", "at": 2})
        plain.socket.transport.resume_reading()
        while True:
            push = await plain.push()
            if push["channel"] == "slow" and push["pub"]["data"]["state"] == "completed":
                break
        await eventually(lambda: not summary.behind)


async def test_lens_that_is_none_is_refused(served: Gateway) -> None:
    async with served.plain() as plain:
        refused: list[Any] = ["all", 1, {"types": []}, {"rate": 0}, {"rate": 1.5}, {"finished": 1}, {"other": 1}]
        for lens in [*refused, {"types": ["ä"]}]:
            error = await plain.ask("subscribe", {"channel": "t", "data": {"lens": lens}})
            assert error["code"] == 107, lens
            assert "expected" in error["message"]
