"""`delete`, `export`: against a real gateway."""

import asyncio
import json
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from gateway.cli.root import COMMANDS
from gateway.types import START, Topic
from tests.e2e.processes import GATEWAY
from tests.serving import Gateway, append, serve
from tests.started import remember

TOPIC = Topic("chat:1/a")
KEY = "a-key-of-sixteen-characters"


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


async def run(url: str, *arguments: str, said: str = "") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *GATEWAY,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"GATEWAY_URL": url},
    )
    remember(process.pid)
    out, err = await process.communicate(said.encode())
    return process.returncode or 0, out.decode(), err.decode()


def test_both_are_commands() -> None:
    assert {"delete", "export"} <= set(COMMANDS)


async def test_delete_asks_first(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, TOPIC, {"type": "note"})
    code, out, err = await run(served.http, "delete", TOPIC, said="n\n")
    assert (code, out) == (1, "")
    assert err.endswith("gateway: nothing was deleted\n")
    assert (await broker.read(TOPIC, START)).top == 1
    assert (await run(served.http, "delete", TOPIC, said="y\n"))[:2] == (0, f"{TOPIC} is deleted\n")
    assert (await broker.read(TOPIC, START)).top == 0


async def test_delete_without_a_question(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, TOPIC, {"type": "note"})
    assert await run(served.http, "delete", TOPIC, "--yes") == (0, f"{TOPIC} is deleted\n", "")
    assert await run(served.http, "delete", "nobody", "--yes") == (0, "nobody has written nobody\n", "")


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_export_prints_all_lines(served: Gateway, broker: RedisBroker, scheme: str) -> None:
    for number in range(3):
        await append(broker, TOPIC, {"type": "note", "n": number, "text": "ä\n"})
    code, out, err = await run(served.http.replace("http", scheme, 1), "export", TOPIC)
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0]["export"]["topic"] == TOPIC
    assert [line["data"]["n"] for line in lines[1:-1]] == [0, 1, 2]
    assert lines[-1]["end"]["offset"] == 3


async def test_export_refused_is_one_line_and_1(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, api_keys=KEY) as gateway:
        code, out, err = await run(gateway.http, "export", TOPIC)
        assert (code, out) == (1, "")
        assert err.startswith("gateway: 101: a token is needed here: needed is a token that allows 'export' on ")


async def test_export_from_nobody_is_one_line_and_1() -> None:
    code, out, err = await run("http://127.0.0.1:1", "export", TOPIC)
    assert (code, out) == (1, "")
    assert err.startswith("gateway: no gateway answers at 127.0.0.1:1: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("last", [b'{"error":{"code":100,"message":"the broker is away"}}\n', b'{"topic":"t"}\n', b""])
async def test_export_that_broke_off_is_told(last: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"export":{}}\n' + last)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        code, out, err = await run(f"http://127.0.0.1:{port}", "export", "t")
    assert (code, out) == (1, '{"export":{}}\n' + last.decode())
    assert "the export of t broke off" in err
    assert ("the broker is away" in err) == (b"error" in last)


async def test_a_wrong_address_is_bad_usage() -> None:
    code, _, err = await run("ftp://x", "export", "t")
    assert code == 2
    assert "expected the URL" in err


async def test_api_key_lets_commands_in_and_is_not_told(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    await append(broker, TOPIC, {"type": "note"})
    commands = [
        ("publish", TOPIC, '{"type":"note"}'),
        ("topics",),
        ("send", TOPIC, "hello"),
        ("tail", TOPIC, "--no-follow"),
        ("export", TOPIC),
    ]
    wrong = "a-guess-of-sixteen-characters"
    async with serve(redis_url, key_prefix, api_keys=KEY) as gateway:
        right = await asyncio.gather(*(run(gateway.http, *command, "--api-key", KEY) for command in commands))
        assert [(code, err) for code, _, err in right] == [(0, "")] * len(commands)
        refused = await asyncio.gather(*(run(gateway.http, *command, "--api-key", wrong) for command in commands))
        assert [code for code, _, _ in refused] == [1] * len(commands)
        assert all("invalid API key" in err and wrong not in err for _, _, err in refused)
