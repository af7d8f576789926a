"""All that a topic holds, as lines."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.blobs import LARGE
from gateway.broker.redis import RedisBroker
from gateway.context.log import EventLog
from gateway.context.messages import Message
from gateway.export import PAGE, Export
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.types import START, Publication, Topic
from tests.publishing import until
from tests.serving import Gateway, append, serve
from tests.test_archive import TOPIC, converse


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_history_bytes=4_000, max_history_events=100)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def untrimmed(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.http, trust_env=False) as client:
        yield client


async def exported(http: httpx.AsyncClient, topic: str = TOPIC, **asked: Any) -> list[dict[str, Any]]:
    answer = await http.get(f"/topics/{topic.replace('/', '%2F')}/export", params=asked)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


def folded(lines: list[dict[str, Any]], topic: Topic = TOPIC) -> Mirror:
    """Fold an export as a reader would."""
    mirror = Mirror(topic, lines[0]["export"]["epoch"], 0)
    for line in lines:
        if "data" not in line:
            continue
        if line["data"].get("type") == "snapshot":
            mirror = Mirror.restore(line["data"])
        else:
            event = Publication(offset=line["offset"], first=line.get("from"), data=line["data"])
            assert mirror.apply(event) == "applied"
        assert (mirror.epoch, mirror.offset) == (line["epoch"], line["offset"])
    return mirror


def log_of(lines: list[dict[str, Any]]) -> list[int]:
    """Give the seqs of an export's session log."""
    seqs = [line["archived"]["seq"] for line in lines if "archived" in line]
    for line in lines:
        data = line.get("data", {})
        if data.get("type") == "snapshot":
            seqs += [entry["seq"] for entry in data["mirror"]["context"]["events"]]
        elif "seq" in data:
            seqs.append(data["seq"])
    return seqs


@pytest.mark.parametrize("turns", [3, 60])
async def test_export_folds_into_the_same_mirror(broker: RedisBroker, http: httpx.AsyncClient, turns: int) -> None:
    context = await converse(broker, turns)
    if turns > 3:

        async def trimmed() -> bool:
            return (await broker.read(TOPIC, START, limit=0)).floor > 100

        await until(trimmed)
    lines = await exported(http)
    snapshot = (await http.get(f"/topics/{TOPIC.replace('/', '%2F')}")).json()
    assert folded(lines).snapshot() == snapshot
    assert lines[0] == {
        "export": {"topic": TOPIC, "epoch": snapshot["epoch"], "offset": snapshot["offset"], "values": False}
    }
    assert lines[-1] == {"end": {"epoch": snapshot["epoch"], "offset": snapshot["offset"]}}
    snapshots = [line for line in lines if line.get("data", {}).get("type") == "snapshot"]
    assert len(snapshots) == (turns > 3)
    assert sorted(log_of(lines)) == list(range(context.log.next_seq)), "a logged event is missing, or there twice"


async def test_log_of_an_export_is_the_whole_session_log(broker: RedisBroker, http: httpx.AsyncClient) -> None:
    context = await converse(broker, 60)
    entries = []
    for line in await exported(http):
        data = line.get("data", {})
        if "archived" in line:
            entries.append(line["archived"])
        elif data.get("type") == "snapshot":
            entries += data["mirror"]["context"]["events"]
        elif "seq" in data:
            log = {
                name: value
                for name, value in data.items()
                if name not in {"type", "at", "run", "seq", "time", "message", "blobs"}
            }
            entries.append({"seq": data["seq"], "type": data["type"], "time": data["time"], "data": log})
    assert EventLog.restore(sorted(entries, key=lambda entry: int(entry["seq"]))) == context.log


async def test_large_values_are_written_once_where_asked_for(broker: RedisBroker, http: httpx.AsyncClient) -> None:
    large = "x" * (LARGE + 1)
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user(large))
        await run.add_message(Message.user(large))
        await run.add_message(Message.user("y" + large))
    referred = await exported(http)
    assert not [line for line in referred if "value" in line]
    lines = await exported(http, values=1)
    values = [line["value"] for line in lines if "value" in line]
    assert [value["text"] for value in values] == [large, "y" + large]
    assert [value["bytes"] for value in values] == [LARGE + 1, LARGE + 2]
    assert folded(lines).snapshot() == folded(referred).snapshot()


async def test_export_of_nothing_is_empty(http: httpx.AsyncClient) -> None:
    assert await exported(http, "nobody") == [
        {"export": {"topic": "nobody", "epoch": "", "offset": 0, "values": False}},
        {"end": {"epoch": "", "offset": 0}},
    ]


async def test_export_goes_on_from_a_snapshot_where_it_is_overtaken_by_a_trim(untrimmed: RedisBroker) -> None:
    broker = untrimmed
    for number in range(3 * PAGE):
        await append(broker, TOPIC, {"type": "note", "n": number})
    export = Export(broker, TOPIC, values=False, patience=1)
    history = await export.first()
    lines = [json.loads(line) async for line in _interrupted(export.lines(history), broker)]
    assert lines[-1] == {"end": {"epoch": history.epoch, "offset": folded(lines).offset}}
    assert folded(lines).offset >= history.top


async def _interrupted(lines: AsyncIterator[bytes], broker: RedisBroker) -> AsyncIterator[bytes]:
    """Trim the topic at its top once a few lines have come."""
    count = 0
    async for line in lines:
        yield line
        count += 1
        if count == 5:
            history = await broker.read(TOPIC, START, limit=0)
            mirror = Mirror(TOPIC, history.epoch, history.top)
            snapshot = json.dumps(mirror.snapshot()).encode()
            await broker.trim(TOPIC, snapshot, position=mirror.position, size=history.size)


async def test_export_says_that_the_topic_was_deleted_under_it(untrimmed: RedisBroker) -> None:
    broker = untrimmed
    for number in range(2 * PAGE):
        await append(broker, TOPIC, {"type": "note", "n": number})
    export = Export(broker, TOPIC, values=False, patience=1)
    history = await export.first()
    lines = []
    async for line in export.lines(history):
        lines.append(json.loads(line))
        if len(lines) == 5:
            await broker.delete(TOPIC, epochs=history.epoch)
    assert lines[-1]["error"]["code"] == 112
    assert not [line for line in lines if "end" in line]


async def test_export_of_a_topic_that_is_written_meanwhile_is_exact(
    broker: RedisBroker, http: httpx.AsyncClient
) -> None:
    stop = asyncio.Event()

    async def write() -> None:
        async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
            while not stop.is_set():
                for piece in ("some ", "text ", "in ", "pieces"):
                    await run.delta(piece)
                    await run.flush()
                await run.add_message(Message.assistant("some text in pieces"))

    writing = asyncio.create_task(write())
    try:
        for _ in range(15):
            lines = await exported(http)
            mirror = folded(lines)
            assert lines[-1] == {"end": {"epoch": mirror.epoch, "offset": mirror.offset}}
            assert mirror.offset >= lines[0]["export"]["offset"]
    finally:
        stop.set()
        await writing


async def test_export_refuses_what_it_does_not_know(http: httpx.AsyncClient) -> None:
    assert (await http.get("/topics/t/export", params={"values": "x"})).status_code == 400
    assert (await http.get("/topics/t/export/more")).status_code == 404
    assert (await http.get("/topics/a b/export")).status_code == 404
    assert (await http.get("/topics/a%2Fexport")).json()["topic"] == "a/export"
    assert (await http.post("/topics/t/export")).status_code == 405
