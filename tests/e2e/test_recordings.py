"""A recorded run of a real provider, from one process through another into many mirrors."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from gateway.following import subscribe
from gateway.mirror import Mirror
from gateway.types import Publication
from tests.e2e.processes import Gateway, Process, running_gateway, until
from tests.recordings import FOLDER, fails, read, recordings

ENDED = {"completed", "failed", "cancelled", "lost"}
LONGEST = FOLDER / "anthropic" / "anthropic-programmatic-tool-calling.1.jsonl"
longest_recording = pytest.mark.skipif(not LONGEST.exists(), reason=f"{LONGEST} is not there (set GATEWAY_STREAMS)")


async def replay(gateway: Gateway, provider: str, path: Path, topic: str, *, speed: str = "0") -> Process:
    arguments = ("--provider", provider, "--topic", topic, "--speed", speed, "--redis-url", gateway.redis_url)
    return await Process.start("replay", str(path), *arguments)


async def follow(gateway: Gateway, topic: str) -> dict[str, Any]:
    """Follow a topic from now on until its run has ended, and give the mirror."""
    async for update in subscribe(gateway.url, topic):
        runs = update.mirror.runs
        if runs and all(run["status"] in ENDED for run in runs):
            return update.mirror.snapshot()
    raise AssertionError("the subscription ended before the run")


async def fold_of_tail(gateway: Gateway, topic: str) -> dict[str, Any]:
    """Fold what `gateway tail --from start --json` prints."""
    tail = await Process.start("tail", topic, "--from", "start", "--json", "--no-follow", "--url", gateway.url)
    code, out, err = await tail.end()
    assert code == 0, err
    mirror = Mirror(topic)
    for line in map(json.loads, out.splitlines()):
        assert line["topic"] == topic
        mirror.epoch = line["epoch"]
        first = int(line["from"]) if "from" in line else None
        publication = Publication(offset=line["offset"], data=line["data"], first=first)
        assert mirror.apply(publication) == "applied"
    return mirror.snapshot()


def turns(snapshot: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, str, Any]]]]:
    """Read texts, thinking and calls out of a snapshot's assistant messages."""
    messages = [event["data"] for event in snapshot["mirror"]["context"]["events"] if "assistant" in event["type"]]
    return [
        (
            message.get("content") or "",
            message.get("thinking") or "",
            [(call["id"], call["name"], json.loads(call["arguments"])) for call in message.get("tool_calls") or ()],
        )
        for message in messages
    ]


def assert_equals_recording(snapshot: dict[str, Any], provider: str, path: Path) -> None:
    expected = read(provider, path)
    mirror = snapshot["mirror"]
    assert turns(snapshot) == [(turn.text, turn.thinking, turn.calls) for turn in expected]
    (run,) = mirror["runs"]
    assert run["status"] == ("failed" if fails(path) else "completed")
    totals = {name: sum(turn.usage[name] for turn in expected) for turn in expected for name in turn.usage}
    assert {name: mirror["context"]["usage"][name] for name in totals} == totals
    assert {name: run["usage"][name] for name in totals} == totals
    assert mirror["open"] == []


@pytest.mark.streams
@pytest.mark.parametrize(("provider", "path"), recordings())
async def test_every_recording_replays_whole(shared_gateway: Gateway, provider: str, path: Path) -> None:
    topic = f"all:{provider}:{path.stem}"
    early = asyncio.create_task(follow(shared_gateway, topic))
    code, _, err = await (await replay(shared_gateway, provider, path, topic)).end()
    assert code == 0, err
    snapshot = await shared_gateway.topic(topic)
    assert_equals_recording(snapshot, provider, path)
    assert await early == snapshot
    assert await fold_of_tail(shared_gateway, topic) == snapshot


@pytest.mark.streams
@longest_recording
async def test_joins_at_twenty_moments_of_a_paced_replay(shared_gateway: Gateway) -> None:
    topic, moments = "joins", random.Random(20)
    first = asyncio.create_task(follow(shared_gateway, topic))
    process = await replay(shared_gateway, "anthropic", LONGEST, topic, speed="2")
    length = 277 / 100

    async def join_later() -> dict[str, Any]:
        await asyncio.sleep(moments.random() * length)
        return await follow(shared_gateway, topic)

    joined = await asyncio.gather(*(join_later() for _ in range(20)))
    assert (await process.end())[0] == 0
    snapshot = await shared_gateway.topic(topic)
    assert_equals_recording(snapshot, "anthropic", LONGEST)
    assert await first == snapshot
    assert joined == [snapshot] * 20


@pytest.mark.streams
@longest_recording
@pytest.mark.parametrize("fault", ["gateway", "pubsub", "normal"])
async def test_fault_in_mid_stream_leaves_every_reader_exact(fault: str) -> None:
    import redis.asyncio  # noqa: PLC0415 - the test acts as the operator here

    topic = "fault"
    async with running_gateway() as gateway, redis.asyncio.from_url(gateway.redis_url) as operator:
        readers = [asyncio.create_task(follow(gateway, topic)) for _ in range(5)]
        tail = await Process.start("tail", topic, "--from", "start", "--json", "--url", gateway.url)
        process = await replay(gateway, "anthropic", LONGEST, topic, speed="1.5")

        async def at(offset: int) -> bool:
            return bool((await gateway.topic(topic))["offset"] >= offset)

        for offset in (20, 60, 100):
            await until(lambda offset=offset: at(offset), f"offset {offset}")  # type: ignore[misc]
            if fault == "gateway":
                gateway.kill()
                assert gateway.process is not None
                await gateway.process.end()
                await gateway.start()
            else:
                await operator.client_kill_filter(_type=fault)
        code, _, err = await process.end()
        assert code == 0, err
        snapshot = await gateway.topic(topic)
        assert_equals_recording(snapshot, "anthropic", LONGEST)
        assert await asyncio.gather(*readers) == [snapshot] * 5

        mirror = Mirror(topic)
        while mirror.offset < snapshot["offset"]:
            line = json.loads(await tail.line())
            mirror.epoch = line["epoch"]
            first = int(line["from"]) if "from" in line else None
            assert mirror.apply(Publication(offset=line["offset"], data=line["data"], first=first)) == "applied"
        assert mirror.snapshot() == snapshot
        await tail.stop()
