"""HTTP, and what the application does with the logs."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gateway.app import QueryRedaction, app_from_env, create_app, static_directory
from gateway.broker.redis import RedisBroker
from gateway.mirror import Mirror
from gateway.settings import Settings, SettingsError
from tests.servers import RedisServer
from tests.serving import Gateway, append, eventually, serve


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.http, trust_env=False) as client:
        yield client


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def test_healthz_and_readyz_answer(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"ok": True}
    assert (await http.get("/readyz")).json() == {"ok": True}


async def test_readyz_says_that_the_broker_is_away(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path) as server:
        async with (
            serve(server.url, key_prefix, command_timeout=0.3) as gateway,
            httpx.AsyncClient(base_url=gateway.http, trust_env=False) as http,
        ):
            with server.away():
                await eventually(lambda: not gateway.hub.sure)
                reply = await http.get("/readyz")
                assert reply.status_code == 503
                assert "away" in reply.json()["error"]["message"]
                assert (await http.get("/healthz")).status_code == 200
                assert (await http.get("/topics/t")).status_code == 503
            await eventually(lambda: gateway.hub.sure)
            assert (await http.get("/readyz")).status_code == 200


async def test_gateway_starts_without_a_broker_and_finds_it_later(tmp_path: Path, key_prefix: str) -> None:
    server = RedisServer(tmp_path)
    with server:
        pass
    async with asyncio.TaskGroup() as tasks:

        async def run() -> None:
            async with serve(server.url, key_prefix) as gateway, gateway.plain() as plain:
                assert (await plain.ask("subscribe", {"channel": "t"}))["offset"] == 0

        task = tasks.create_task(run())
        await asyncio.sleep(0)
        with server:
            await asyncio.wait([task])


async def test_topic_gives_the_snapshot_at_the_top(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    empty = (await http.get("/topics/a%2Fb:1")).json()
    assert empty == Mirror("a/b:1").snapshot()
    await append(broker, "a/b:1", {"type": "agent_start", "run": "r", "agent": "x", "at": 5})
    message = {"type": "user_message", "seq": 0, "time": "2026-01-01T00:00:00.000000Z", "content": "hi", "run": "r"}
    position = await append(broker, "a/b:1", {"type": "log", "message": "one", "at": 6})
    reply = await http.get("/topics/a%2Fb:1")
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    snapshot = reply.json()
    assert (snapshot["epoch"], snapshot["offset"]) == (position.epoch, 2)
    assert snapshot["mirror"]["runs"][0]["agent"] == "x"
    assert "messages" not in snapshot
    position = await append(broker, "a/b:1", message)
    snapshot = (await http.get("/topics/a%2Fb:1", params={"messages": "1"})).json()
    assert snapshot["offset"] == 3
    assert [entry["content"] for entry in snapshot["messages"]] == ["hi"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [("/topics/no%20blanks", 404, 102), ("/topics/", 404, 102), ("/topics/a/b", 404, 404), ("/nothing", 404, 404)],
)
async def test_errors_are_json(http: httpx.AsyncClient, path: str, status: int, code: int) -> None:
    reply = await http.get(path)
    assert reply.status_code == status
    assert reply.json()["error"]["code"] == code


async def test_every_response_has_the_security_headers(http: httpx.AsyncClient) -> None:
    for path in ("/", "/healthz", "/nothing", "/topics/t", "/static/gateway/index.js", "/static/nothing.js"):
        headers = (await http.get(path)).headers
        assert "default-src 'self'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"


async def test_static_files_are_served_and_nothing_outside(http: httpx.AsyncClient) -> None:
    script = next(path for path in sorted((static_directory() / "gateway").iterdir()) if path.suffix == ".js")
    reply = await http.get(f"/static/gateway/{script.name}")
    assert reply.content == script.read_bytes()
    assert "javascript" in reply.headers["content-type"]
    assert (await http.get("/static/..%2fpyproject.toml")).status_code == 404
    assert (await http.get("/static/%2e%2e/pyproject.toml")).status_code == 404


async def test_index_is_the_page(http: httpx.AsyncClient) -> None:
    reply = await http.get("/")
    assert re.sub(r"\?v=\w+", "", reply.text) == (static_directory() / "index.html").read_text()


def test_queries_are_redacted_in_log_arguments() -> None:
    redaction = QueryRedaction()
    arguments = ("127.0.0.1:5", "GET", "/topics/t?token=s3cret", "1.1", 200)
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 0, '%s - "%s %s HTTP/%s" %d', arguments, None)
    assert redaction.filter(record)
    assert record.getMessage() == '127.0.0.1:5 - "GET /topics/t?… HTTP/1.1" 200'


def test_app_without_a_broker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_REDIS_URL", raising=False)
    with pytest.raises(SettingsError, match="GATEWAY_REDIS_URL"):
        create_app(Settings())
    with pytest.raises(SettingsError, match="GATEWAY_REDIS_URL"):
        app_from_env()
