"""What users of other systems report about streams over HTTP and options of a subscription; named as elsewhere here."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from websockets.asyncio.client import connect

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.faults.proxy import Proxy
from tests.servers import free_port
from tests.serving import PATIENCE, Gateway, append, eventually
from tests.started import remember
from tests.streaming.eventsource import listen

TOPIC = "t"


@pytest_asyncio.fixture
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.http, trust_env=False, timeout=PATIENCE) as client:
        yield client


async def test_19_options_of_a_subscription_outlive_its_connection(served: Gateway, broker: RedisBroker) -> None:
    """Re-joining drops events as the options of the subscription are not remembered."""
    async with Proxy(served.port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as client:
        subscription = client.subscribe(TOPIC, since="start", mirror=False, types=["app.seen"])
        taken: list[int] = []
        for number in range(4):
            await append(broker, TOPIC, {"type": "app.hidden", "n": number})
            await append(broker, TOPIC, {"type": "app.seen", "n": number})
            async with asyncio.timeout(PATIENCE):
                while len(taken) <= number:
                    update = await anext(subscription)
                    assert update.data.get("type") in {"app.seen", None, ""}
                    taken += [update.data["n"]] if update.data.get("type") else []
            proxy.reset()
        assert taken == [0, 1, 2, 3]


async def test_20_dialects_are_continued_by_the_ids_of_their_events(
    http: httpx.AsyncClient, publisher: Publisher
) -> None:
    """A client over HTTP cannot attach again, and throws the ids of its events away."""
    async with publisher.run(TOPIC, agent="a") as run:
        for number in range(20):
            await run.delta(f"word {number} ")
        await run.add_message(Message.assistant("".join(f"word {number} " for number in range(20))))
    address = f"/topics/{TOPIC}/events?dialect=ag-ui&run={run.id}&from=start"
    async with listen(http, address) as stream:
        whole = await stream.ended()
    text = "".join(event.data["delta"] for event in whole if event.data["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == "".join(f"word {number} " for number in range(20))
    for kept in range(1, len(whole)):
        if whole[kept - 1].id:
            async with listen(http, address, last=whole[kept - 1].id) as stream:
                assert [event.data for event in await stream.ended()] == [event.data for event in whole[kept:]]


async def test_26_last_event_id_of_a_native_event_source_is_heard(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    """The header with which an EventSource comes back is ignored."""
    await append(broker, TOPIC, *({"n": number} for number in range(10)))
    got, last = [], ""
    for _ in range(5):
        async with listen(http, f"/topics/{TOPIC}/events?from=start", last=last) as stream:
            got += [event.data["n"] for event in await stream.take(2)]
            last = stream.id
    assert got == [*range(10)]


async def test_27_gap_is_replayed_or_declared(
    http: httpx.AsyncClient, broker: RedisBroker, redis: "Redis", served: Gateway
) -> None:
    """Events of the gap are lost when a reader subscribes again."""
    before = await append(broker, TOPIC, {"n": 0})
    await append(broker, TOPIC, {"n": 1}, {"n": 2})
    async with listen(http, f"/topics/{TOPIC}/events", last=str(before)) as stream:
        assert [event.data["n"] for event in await stream.take(2)] == [1, 2]
    await redis.delete(*[key async for key in redis.scan_iter(match=f"{broker.channel(Topic(TOPIC))}*")])
    await eventually(lambda: not served.hub.clients(Topic(TOPIC)))
    after = await append(broker, TOPIC, {"n": 3})
    async with listen(http, f"/topics/{TOPIC}/events?mirror=1", last=str(before)) as stream:
        # Until the gateway has heard of the new history, what it still holds of the old one may come first.
        while (told := (await stream.take(1))[0]).name != "snapshot":
            assert told.data["n"] in {1, 2}
        assert (told.data["type"], told.data["epoch"], told.data["offset"]) == ("snapshot", after.epoch, after.offset)


async def test_83_compression_keeps_no_state_of_a_connection(served: Gateway) -> None:
    """The window of permessage-deflate takes 37 KB a socket; queues of middleware defeat backpressure (see 82)."""
    async with connect(served.url, compression="deflate") as socket:
        assert socket.response is not None
        extension = socket.response.headers.get("Sec-WebSocket-Extensions", "")
        assert not extension or {"server_no_context_takeover", "client_no_context_takeover"} <= {
            part.strip() for part in extension.split(";")
        }


NGINX = """
daemon off; worker_processes 1; pid {directory}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {directory}; proxy_temp_path {directory};
  fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory};
  gzip on; gzip_types *;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{target}; }} }}
}}
"""


@contextlib.asynccontextmanager
async def nginx(directory: Path, target: int) -> AsyncIterator[str]:
    """Put nginx as it comes before a port, buffering and compressing; gives its address."""
    program = os.environ.get("GATEWAY_NGINX") or shutil.which("nginx")
    assert program, "nginx is not installed: apt-get install nginx-light, or set GATEWAY_NGINX"
    port = free_port()
    written = directory / "nginx.conf"
    written.write_text(NGINX.format(directory=directory, port=port, target=target))
    process = await asyncio.create_subprocess_exec(program, "-c", str(written), "-e", "stderr")
    remember(process.pid)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize("query", ["", "?dialect=ag-ui"])
async def test_99_proxy_that_collects_answers_passes_a_stream_on_at_once(
    served: Gateway, publisher: Publisher, tmp_path: Path, query: str
) -> None:
    """A proxy buffers the stream: all arrives at the end, keepalives too."""
    async with (
        nginx(tmp_path, served.port) as address,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE) as client,
        publisher.run(TOPIC, agent="a") as run,
        listen(client, f"/topics/{TOPIC}/events{query}") as stream,
    ):
        for number in range(5):
            await run.delta(f"word {number} ")
            await run.flush()
            # The run goes on: what has come has come through the proxy while the answer was not over.
            while f"word {number}" not in str((await stream.next()).data):
                pass
