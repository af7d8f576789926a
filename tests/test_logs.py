"""Log lines: their form, their fields, and what never stands in them."""

import asyncio
import contextlib
import json
import logging
import logging.config
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from gateway.logs import JsonLines, PrettyLines, log_config, without_secrets
from gateway.settings import Settings
from tests.servers import RedisServer, free_port

API_KEY = "api-key-of-this-test"
SECRET = "secret-of-tokens-in-this-test-0123456789"
PASSWORD = "password-of-redis"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("gateway.x", logging.WARNING, __file__, 1, message, arguments, None)
    made.__dict__.update(fields)
    return made


# What is cut out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('1.2.3.4:5 - "WebSocket /x?token=abc" [accepted]', '1.2.3.4:5 - "WebSocket /x?…" [accepted]'),
        ("cannot reach redis://:pw@10.0.0.1:6379/0", "cannot reach redis://…@10.0.0.1:6379/0"),
        ("cannot reach redis://me:pw@host", "cannot reach redis://…@host"),
        ("what is this? nothing", "what is this? nothing"),
        (f"got {TOKEN}, expected none", "got …, expected none"),
        ("key=sesame-open", "key=…"),
    ],
)
def test_secrets_are_cut_out(text: str, expected: str) -> None:
    assert without_secrets(text, ["sesame-open"]) == expected


def test_json_is_one_line_with_its_fields() -> None:
    line = JsonLines().format(record("two\nlines of %s", "text", topic="chat:42", user="ann", client="", level=3))
    assert "\n" not in line
    value = json.loads(line)
    assert value.pop("time").endswith("Z")
    assert value == {
        "level": "warning",
        "logger": "gateway.x",
        "message": "two\nlines of text",
        "topic": "chat:42",
        "user": "ann",
    }


def test_pretty_puts_the_fields_behind_the_message() -> None:
    line = PrettyLines().format(record("lost", topic="chat:42"))
    assert line.endswith(" WARNING gateway.x: lost topic=chat:42")


@pytest.mark.parametrize("form", [JsonLines, PrettyLines])
def test_a_traceback_is_told_without_its_secrets(form: type[JsonLines | PrettyLines]) -> None:
    try:
        int(f"no such key: {API_KEY}, see redis://:{PASSWORD}@host")
    except ValueError:
        line = form([API_KEY]).format(record("failed", exc_info=sys.exc_info()))
    assert "no such key: …, see redis://…@host" in line


@pytest.mark.parametrize(("level", "others"), [("debug", "INFO"), ("info", "WARNING"), ("error", "ERROR")])
def test_level_is_that_of_our_own_loggers(level: Any, others: str) -> None:
    config = log_config(Settings(log_level=level))
    assert config["loggers"]["gateway"]["level"] == level.upper()
    assert config["root"]["level"] == config["loggers"]["uvicorn"]["level"] == others


# A real process


@contextlib.asynccontextmanager
async def serving(redis: RedisServer, *flags: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run ``gateway serve``, and give its address and, in the end, its log."""
    port, lines = free_port(), list[bytes]()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", str(port), "--redis-url", redis.url, *flags),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"GATEWAY_API_KEYS": API_KEY, "GATEWAY_TOKEN_SECRETS": SECRET},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(30), httpx.AsyncClient() as client:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"{url}/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.05)
        yield url, lines
        process.send_signal(signal.SIGTERM)
        _, log = await asyncio.wait_for(process.communicate(), 30)
        lines += log.splitlines()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def trouble(url: str) -> None:
    """Bring secrets wherever a client can."""
    async with httpx.AsyncClient() as client:
        await client.get(f"{url}/topics/t?token={TOKEN}")
        await client.get(f"{url}/topics/t", headers={"authorization": f"Bearer {TOKEN}", "x-api-key": API_KEY})
        await client.post(f"{url}/api/info", headers={"x-api-key": API_KEY + "x"}, json={})
    async with connect(url.replace("http", "ws") + "/connection/websocket") as socket:
        await socket.send(json.dumps({"id": 1, "connect": {"token": TOKEN}}))
        with contextlib.suppress(ConnectionClosed):
            await socket.recv()


@pytest.mark.parametrize("form", ["json", "pretty"])
async def test_a_server_writes_nothing_secret(tmp_path: Any, form: str) -> None:
    with RedisServer(tmp_path, {"requirepass": PASSWORD}) as redis:
        async with serving(redis, "--log-format", form, "--log-level", "debug") as (url, lines):
            await trouble(url)
            with redis.away():
                async with asyncio.timeout(30), httpx.AsyncClient() as client:
                    while (await client.get(f"{url}/readyz")).status_code == 200:
                        await asyncio.sleep(0.05)
    log = b"\n".join(lines).decode()
    assert "closed: 3500" in log
    assert "trying on" in log
    for secret in (API_KEY, SECRET, PASSWORD, TOKEN, TOKEN.rpartition(".")[2]):
        assert secret not in log
    if form == "json":
        values = [json.loads(line) for line in lines]
        assert {"time", "level", "logger", "message"} <= set.intersection(*[set(value) for value in values])
        assert [value["client"] for value in values if value["message"] == "closed: 3500"]
        assert any(value["logger"].startswith("uvicorn") for value in values)
