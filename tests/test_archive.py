"""The whole log of a topic, wherever it lies."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio

from gateway.archive import MAX_PAGE_BYTES, Archive
from gateway.broker.redis import RedisBroker
from gateway.context.context import Context
from gateway.context.log import EventLog
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.types import START, Topic
from tests.publishing import until
from tests.serving import serve

TOPIC = Topic("chat:1/a")


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_history_bytes=4_000, max_history_events=100)
    yield broker
    await broker.aclose()


def compacted(context: Context) -> Context:
    """Replace the first four messages by one."""
    return context.replace_message_range(0, 3, Message.system(f"summary of {len(context.entries)}"))


async def converse(broker: RedisBroker, count: int) -> Context:
    """Talk for long, compact now and then; gives the context of the run, whose log is whole."""
    publisher = Publisher(broker=broker)
    async with publisher.run(TOPIC, agent="a") as run:
        for number in range(count):
            await run.log_event("turn_start", {"turn": number})
            await run.add_message(Message.user(f"question {number}"))
            await run.add_message(Message.assistant(f"answer {number}"))
            if number % 5 == 4:
                await run.change_context(compacted)
            await run.log_event("turn_end")
            await run.flush()
    await publisher.aclose()
    return run.context


async def pages(archive: Archive, *, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None:
        page = await archive.page(TOPIC, start=start, limit=limit)
        assert len(page["events"]) <= limit
        found += page["events"]
        start = page["next"]
    return found


async def test_pages_hold_the_whole_log(broker: RedisBroker) -> None:
    context = await converse(broker, 60)

    async def trimmed() -> bool:
        return (await broker.read(TOPIC, START, limit=0)).floor > 100

    await until(trimmed)
    entries = await pages(Archive(broker), limit=37)
    assert [{name: entry[name] for name in ("seq", "type", "time", "data")} for entry in entries] == [
        event.to_dict() for event in context.log.events()
    ]
    assert len(await broker.archived(TOPIC, range(context.log.next_seq))) > 50
    assert EventLog.restore(entries) == context.log
    assert {entry["run"] for entry in entries} == {entries[0]["run"]} != {None}


async def test_page_is_bounded_in_bytes(broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for _ in range(30):
            await run.add_message(Message.user("x" * 60_000))
        await run.flush()
    page = await Archive(broker).page(TOPIC, start=0)
    assert len(page["events"]) == MAX_PAGE_BYTES // 60_100
    assert page["next"] == len(page["events"])


async def test_archive_of_nothing_is_empty(broker: RedisBroker) -> None:
    assert await Archive(broker).page(TOPIC, start=0) == {"topic": TOPIC, "epoch": "", "events": [], "next": None}
    assert await Archive(broker).page(TOPIC, start=5, limit=0) == {
        "topic": TOPIC,
        "epoch": "",
        "events": [],
        "next": None,
    }


async def test_archive_over_http(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    context = await converse(broker, 10)
    async with serve(redis_url, key_prefix) as gateway, httpx.AsyncClient(base_url=gateway.http) as client:
        path = f"/topics/{TOPIC.replace('/', '%2F')}/archive"
        answer = await client.get(path, params={"from": 3, "limit": 4})
        assert answer.status_code == 200
        body = answer.json()
        assert ([entry["seq"] for entry in body["events"]], body["next"]) == ([3, 4, 5, 6], 7)
        last = (await client.get(path, params={"from": context.log.next_seq - 1})).json()
        assert (len(last["events"]), last["next"]) == (1, None)
        for wrong in ("-1", "x", "1.5", "٣"):
            refused = await client.get(path, params={"from": wrong})
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, 107)
        for elsewhere in ("/topics/a/archives", "/topics/a/archive/b", "/topics/a/blobs", "/topics/a/blobs/b/c"):
            assert (await client.get(elsewhere)).status_code == 404
