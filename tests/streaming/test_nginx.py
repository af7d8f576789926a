"""Streams behind a real nginx with its defaults, buffering among them."""

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gateway.broker.redis import RedisBroker
from tests.servers import free_port
from tests.serving import PATIENCE, append, serve
from tests.started import remember
from tests.streaming.eventsource import listen

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: `make test` installs it")

CONFIG = """
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  gzip on;
  gzip_types *;
  upstream gateways {{ {servers} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://gateways;
      proxy_set_header Host $host;
      proxy_next_upstream error timeout;
      {options}
    }}
  }}
}}
"""


@contextlib.asynccontextmanager
async def proxy(directory: Path, ports: list[int], options: str = "") -> AsyncIterator[str]:
    """Run nginx in front of gateways; gives its address."""
    assert NGINX is not None
    port = free_port()
    servers = " ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
    config = directory / "nginx.conf"
    config.write_text(CONFIG.format(directory=directory, servers=servers, port=port, options=options))
    process = subprocess.Popen([NGINX, "-p", str(directory), "-c", str(config)], stderr=subprocess.DEVNULL)
    remember(process.pid)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                assert process.poll() is None, (directory / "error.log").read_text()
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("options", ["", "proxy_http_version 1.1; proxy_set_header Connection '';"], ids=["1.0", "1.1"])
@pytest.mark.parametrize("query", ["from=start", "from=start&format=ndjson"])
async def test_each_event_passes_at_once(
    tmp_path: Path, redis_url: str, key_prefix: str, broker: RedisBroker, *, options: str, query: str
) -> None:
    headers = {"accept-encoding": "gzip"}
    async with (
        serve(redis_url, key_prefix) as gateway,
        proxy(tmp_path, [gateway.port], options) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http,
        http.stream("GET", f"/topics/t/events?{query}", headers=headers) as response,
    ):
        lines = response.aiter_lines()
        for n in range(5):
            await append(broker, "t", {"n": n})  # the next one is not written before this one has come
            while f'"n":{n}' not in await anext(lines):
                pass


async def test_reader_moves_to_another_gateway_without_a_loss(
    tmp_path: Path, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, "t", {"n": 0})
    async with contextlib.AsyncExitStack() as stack, contextlib.AsyncExitStack() as dying:
        first = await dying.enter_async_context(serve(redis_url, key_prefix, drain=0.0))
        port = free_port()
        url = await stack.enter_async_context(proxy(tmp_path, [first.port, port]))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE))
        async with listen(http, "/topics/t/events?from=start") as stream:
            await stream.take(1)
            await stack.enter_async_context(serve(redis_url, key_prefix, port=port))
            await dying.aclose()
            assert [word.name for word in await stream.ended()] == ["close"]
        await append(broker, "t", {"n": 1})
        async with listen(http, "/topics/t/events?from=start", last=stream.id) as stream:
            assert (await stream.next()).data == {"n": 1}


async def test_large_snapshot_passes_whole(
    tmp_path: Path, redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    for n in range(30):
        await append(broker, "t", {"type": "log", "level": "info", "message": f"{n}" + "x" * 100_000})
    async with (
        serve(redis_url, key_prefix) as gateway,
        proxy(tmp_path, [gateway.port]) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http,
        listen(http, "/topics/t/events?mirror=1") as stream,
    ):
        snapshot = await stream.next()
        assert snapshot.data == {"type": "snapshot", **json.loads((await http.get("/topics/t")).text)}
