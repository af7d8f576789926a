"""Who may read what over HTTP streams."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from gateway.broker.redis import RedisBroker
from tests.serving import PATIENCE, append, eventually, serve
from tests.signing import API_KEY, SECRET, token

SECRETS: dict[str, Any] = {"token_secrets": SECRET, "api_keys": API_KEY}

EVERY_WAY = [
    "events?from=start",
    "events?mirror=1",
    "events?from=start&format=ndjson",
    "events?poll=1&from=start",
    "events?poll=1&mirror=1",
    "events?dialect=ag-ui",
    "events?dialect=ai-sdk&from=start",
    "events?dialect=openai-responses&from=start",
    "stream",
    "stream?offset=-1&live=long-poll",
    "stream?offset=-1&live=sse",
]


def caps(*allow: str, **more: object) -> list[dict[str, object]]:
    return [{"channels": ["t"], "allow": list(allow), **more}]


@pytest.mark.parametrize("way", EVERY_WAY)
async def test_nobody_reads_without_the_grant(redis_url: str, key_prefix: str, broker: RedisBroker, way: str) -> None:
    await append(broker, "t", {"type": "agent_start", "run": "r", "agent": "a", "at": 1})
    async with (
        serve(redis_url, key_prefix, **SECRETS) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
    ):
        assert (await http.get(f"/topics/t/{way}")).status_code == 401
        other = {"authorization": f"Bearer {token('ann', caps=caps('history', 'presence'))}"}
        refusals = [await http.get(f"/topics/{topic}/{way}", headers=other) for topic in ("t", "nothing")]
        assert [refusal.status_code for refusal in refusals] == [403, 403]
        assert refusals[0].content == refusals[1].content
        for headers in ({"authorization": f"Bearer {token('ann', caps=caps('read'))}"}, {"x-api-key": API_KEY}):
            async with http.stream("GET", f"/topics/t/{way}", headers=headers) as response:
                assert response.status_code == 200


@pytest.mark.parametrize("way", EVERY_WAY)
async def test_nothing_redacted_gets_through(redis_url: str, key_prefix: str, broker: RedisBroker, way: str) -> None:
    run = {"run": "r", "message": "m"}
    await append(broker, "t", {"type": "agent_start", "run": "r", "agent": "a", "at": 1})
    await append(broker, "t", {"type": "agent_thinking", **run, "text": "hush-1"}, kind="d")
    await append(broker, "t", {"type": "agent_delta", **run, "text": "Hello"}, kind="d")
    await append(broker, "t", {"type": "log", "run": "r", "level": "info", "message": "hush-2"})
    redact = {"drop": ["log"], "mask": ["thinking"]}
    headers = {"authorization": f"Bearer {token('ann', caps=caps('read', redact=redact))}"}
    whole = {"type": "assistant_message", **run, "seq": 0, "time": "2026-01-01T00:00:00.000000", "metadata": {}}
    text = ""
    async with (
        serve(redis_url, key_prefix, **SECRETS) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
        http.stream("GET", f"/topics/t/{way}", headers=headers) as response,
    ):
        assert response.status_code == 200
        await append(broker, "t", {"type": "agent_thinking", **run, "text": "hush-3"}, kind="d")
        await append(broker, "t", {**whole, "content": "Hello, world", "thinking": "hush-1hush-3"}, kind="e")
        await append(broker, "t", {"type": "agent_complete", "run": "r", "at": 2})
        async for piece in response.aiter_text():
            text += piece
            if "agent_complete" in text:
                break
    assert "Hello" in text
    assert "hush" not in text


@pytest.mark.parametrize("way", ["events", "events?mirror=1&format=ndjson", "stream?offset=-1&live=sse"])
async def test_stream_ends_in_the_second_in_which_its_token_does(
    redis_url: str, key_prefix: str, way: str, broker: RedisBroker
) -> None:
    # No ping comes in time to notice it.
    async with (
        serve(redis_url, key_prefix, **SECRETS, ping_interval=600) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
    ):
        await append(broker, "t", {"n": 1})
        headers = {"authorization": f"Bearer {token('ann', caps=caps('read'), exp=int(time.time()) + 2)}"}
        async with http.stream("GET", f"/topics/t/{way}", headers=headers) as response:
            assert response.status_code == 200
            text = await response.aread()
        assert b"3005" in text or "stream" in way
        assert (await http.get(f"/topics/t/{way}", headers=headers)).status_code == 401
        await eventually(lambda: not gateway.hub.readers)


async def test_poll_ends_when_its_token_does(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, **SECRETS) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=PATIENCE) as http,
    ):
        headers = {"authorization": f"Bearer {token('ann', caps=caps('read'), exp=int(time.time()) + 2)}"}
        address = "/topics/t/events?poll=1&from=start&wait=60"
        while (answer := await http.get(address, headers=headers)).status_code == 200:
            assert answer.json()["events"] == []
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, 109)


async def test_disconnect_through_one_gateway_ends_streams_and_polls_of_another(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    async with (
        serve(redis_url, key_prefix, **SECRETS) as near,
        serve(redis_url, key_prefix, **SECRETS) as far,
        httpx.AsyncClient(base_url=near.http, headers={"x-api-key": API_KEY}, trust_env=False) as backend,
        httpx.AsyncClient(base_url=far.http, trust_env=False, timeout=PATIENCE) as http,
    ):
        at = await append(broker, "t", {"n": 1})
        headers = {"authorization": f"Bearer {token('ann', caps=caps('read'), iat=int(time.time()) - 1)}"}
        ways = ["events", "events?format=ndjson", "stream?offset=-1&live=sse", f"events?poll=1&from={at}&wait=60"]
        reading = [asyncio.create_task(http.get(f"/topics/t/{way}", headers=headers)) for way in ways]
        await eventually(lambda: len(far.hub.readers) == len(ways))
        await backend.post("/api/disconnect", json={"user": "ann"})
        answers = [await task for task in reading]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 401]
        assert "3503" in answers[0].text
        assert (await http.get("/topics/t/events", headers=headers)).status_code == 401
