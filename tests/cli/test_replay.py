"""`replay`, as a process of its own, onto a real store."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.redis import RedisBroker
from gateway.types import START, Topic
from tests.e2e.processes import Process, until


def chunk(text: str | None, *, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "small-1", "choices": [choice]}


GOOD = [chunk("Hel"), chunk("lo"), chunk(None, finish="stop")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def redis_url() -> AsyncIterator[str]:
    async with EmbeddedServer() as server:
        yield server.url


async def replay(redis_url: str, file: Path, topic: str, *options: str) -> tuple[int, str, str]:
    arguments = ("replay", str(file), "--provider", "openai-chat", "--topic", topic, "--redis-url", redis_url)
    return await (await Process.start(*arguments, *options)).end()


async def events(redis_url: str, topic: str) -> list[dict[str, Any]]:
    broker = RedisBroker(redis_url)
    try:
        history = await broker.read(Topic(topic), START)
        return [json.loads(stored.data) for stored in history.events]
    finally:
        await broker.aclose()


def write(file: Path, lines: list[object]) -> Path:
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


async def test_recording_becomes_a_run(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "good.jsonl", [*GOOD[:1], "", *GOOD[1:]])
    assert await replay(redis_url, file, "good", "--speed", "0") == (0, "", "")
    found = await events(redis_url, "good")
    assert (found[0]["type"], found[0]["agent"], found[0]["model"]) == ("agent_start", "replay", "small-1")
    (message,) = [event for event in found if event["type"] == "assistant_message"]
    assert message["content"] == "Hello"
    assert found[-1]["type"] == "agent_complete"


async def test_paced_recording_becomes_the_same_run(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "good.jsonl", [*GOOD])
    assert await replay(redis_url, file, "paced", "--speed", "5") == (0, "", "")
    found = await events(redis_url, "paced")
    (message,) = [event for event in found if event["type"] == "assistant_message"]
    assert message["content"] == "Hello"


async def test_recorded_error_fails_the_run_and_not_the_command(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "error.jsonl", [GOOD[0], {"error": {"message": "out of luck", "code": "luck"}}])
    code, out, err = await replay(redis_url, file, "error", "--speed", "0")
    assert (code, out) == (0, "")
    assert "the recorded stream ends in an error" in err
    assert "out of luck" in err
    end = (await events(redis_url, "error"))[-1]
    assert end["type"] == "agent_error"
    assert "out of luck" in end["error"]


async def test_line_that_is_no_json_is_named_and_fails_the_run(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "bad.jsonl", [*GOOD[:2], "", '{"id": '])
    code, out, err = await replay(redis_url, file, "bad", "--speed", "0")
    assert (code, out) == (1, "")
    assert f"gateway: {file}, line 4: expected JSON" in err
    assert err.count("\n") == 1
    found = await events(redis_url, "bad")
    assert found[-1]["type"] == "agent_error"
    (message,) = [event for event in found if event["type"] == "assistant_message"]
    assert message["content"] == "Hello"
    assert message["metadata"]["interrupted"]


async def test_line_that_is_no_object_is_named(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "list.jsonl", [GOOD[0], [1]])
    code, _, err = await replay(redis_url, file, "list", "--speed", "0")
    assert (code, err) == (1, f"gateway: {file}, line 2: expected an object, got list\n")


async def test_line_of_another_shape_is_named(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "shape.jsonl", [GOOD[0], {"choices": 5}])
    code, _, err = await replay(redis_url, file, "shape", "--speed", "0")
    assert code == 1
    assert f"gateway: {file}, line 2: expected an event of openai-chat" in err
    assert (await events(redis_url, "shape"))[-1]["type"] == "agent_error"


ANTHROPIC = [
    {"type": "message_start", "message": {"id": "m", "model": "claude", "content": []}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    ("provider", "lines"),
    [
        ("openai-chat", ANTHROPIC),
        ("openai-responses", ANTHROPIC),
        ("anthropic", GOOD),
        ("openai-responses", GOOD),
        ("anthropic", [{"message": "x"}, {"response": "x"}]),
        ("openai-chat", [{}]),
    ],
)
async def test_recording_of_another_provider_fails(
    redis_url: str, tmp_path: Path, provider: str, lines: list[object]
) -> None:
    file = write(tmp_path / "other.jsonl", lines)
    topic = f"other:{tmp_path.name}"
    code, out, err = await replay(redis_url, file, topic, "--speed", "0", "--provider", provider)
    assert (code, out) == (1, "")
    assert err == f"gateway: {file}: expected a recorded stream of {provider}, got nothing that it says\n"
    assert [event["type"] for event in await events(redis_url, topic)][-1] == "agent_error"


@pytest.mark.parametrize("text", ["", "\n \n"])
async def test_empty_recording_begins_no_run(redis_url: str, tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text(text)
    code, _, err = await replay(redis_url, file, "empty")
    assert (code, err.count("\n")) == (1, 1)
    assert str(file) in err
    assert "openai-chat" in err
    assert await events(redis_url, "empty") == []


async def test_recording_from_standard_input(redis_url: str) -> None:
    arguments = ("replay", "-", "--provider", "openai-chat", "--topic", "stdin", "--redis-url", redis_url)
    process = await Process.start(*arguments, "--speed", "0", given=asyncio.subprocess.PIPE)
    text = "\n".join(map(json.dumps, GOOD))
    assert await process.end(text.encode()) == (0, "", "")
    found = await events(redis_url, "stdin")
    assert (found[0]["model"], found[-1]["type"]) == ("small-1", "agent_complete")
    process = await Process.start(*arguments, given=asyncio.subprocess.PIPE)
    assert await process.end(b"{") == (
        1,
        "",
        "gateway: standard input, line 1: expected JSON: Input data was truncated\n",
    )


@pytest.mark.parametrize("speed", ["nan", "inf", "-inf", "-1"])
async def test_speed_that_is_none_is_refused(redis_url: str, tmp_path: Path, speed: str) -> None:
    code, out, err = await replay(redis_url, write(tmp_path / "good.jsonl", [*GOOD]), "speed", f"--speed={speed}")
    assert (code, out) == (2, "")
    assert f"'--speed': expected a number from 0 on, got {speed}" in err


async def test_interrupted_replay_cancels_its_run(redis_url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "long.jsonl", [*GOOD[:2], *[chunk("x")] * 1000])
    arguments = ("replay", str(file), "--provider", "openai-chat", "--topic", "long", "--redis-url", redis_url)
    process = await Process.start(*arguments, "--speed", "0.5")

    async def streams() -> bool:
        return any(event["type"] == "agent_delta" for event in await events(redis_url, "long"))

    await until(streams, "the first delta")
    process.kill(signal.SIGINT)
    assert await process.end() == (130, "", "")
    found = await events(redis_url, "long")
    assert found[-1]["type"] == "agent_cancelled"
    (message,) = [event for event in found if event["type"] == "assistant_message"]
    assert message["content"].startswith("Hel")
    assert message["metadata"]["interrupted"]
