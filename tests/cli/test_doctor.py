"""``gateway doctor``, on a real store and a real gateway."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.servers import RedisServer, free_port
from tests.serving import serve


async def doctor(*arguments: str, **environment: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "doctor", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | environment,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode()


def told(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return {(line["part"], line["about"]): line for line in lines}


async def test_all_is_well_where_it_is(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as served:
        code, text = await doctor("--json", "--url", served.http, "--redis-url", redis_url, "--connections", "100")
    found = told(text)
    assert code == 0, text
    assert found["redis", "rights"]["level"] == "ok"
    assert found["gateway", "ready"]["level"] == "ok"
    assert found["gateway", "ping"]["level"] == "ok"
    assert found["machine", "open files"]["level"] == "ok"


async def test_errors_are_told_and_are_the_exit_code(tmp_path: Path) -> None:
    options = {"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru", "requirepass": "sesame-open"}
    with RedisServer(tmp_path, options) as server:
        code, text = await doctor(
            "--host", "0.0.0.0", GATEWAY_REDIS_URL=server.url, GATEWAY_API_KEYS="changeme-changeme", NO_COLOR="1"
        )
    assert code == 1
    assert "✗ GATEWAY_API_KEYS: number 1 looks made up" in text
    assert "✗ maxmemory-policy: allkeys-lru" in text
    assert "sesame-open" not in text
    assert "changeme-changeme" not in text


async def test_a_gateway_that_was_named_must_be_there() -> None:
    code, text = await doctor("--json", "--url", f"http://127.0.0.1:{free_port()}")
    assert code == 1
    assert told(text)["gateway", "ready"]["level"] == "error"


async def test_a_gateway_whose_store_is_away_is_not_ready(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path) as server:
        async with serve(server.url, key_prefix) as served:
            with server.away():
                code, text = await doctor("--json", "--url", served.http, "--redis-url", server.url)
    assert code == 1
    assert "the broker is away" in told(text)["gateway", "ready"]["found"]
    assert told(text)["redis", "reachable"]["level"] == "error"


async def test_a_gateway_that_wants_a_token_says_so(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, api_keys="q3Vn8LkzT0xYwR5uHc7JdPe2") as served:
        _, text = await doctor("--json", "--url", served.http)
    assert told(text)["gateway", "ping"]["level"] == "warning"


async def test_a_redis_url_that_is_none_is_bad_usage() -> None:
    code, text = await doctor("--redis-url", "http://:sesame@127.0.0.1")
    assert code == 2
    assert "sesame" not in text
