"""Every server that is measured, started the same way: on the first core, with what it takes to be read and fed."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import hiredis
import msgspec
import psutil

from bench.load import HERE, Load, Shape, messages, pinned
from gateway.broker.calls import advance_arguments
from gateway.broker.embedded import EmbeddedServer
from gateway.broker.keys import Keys
from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.broker.scripts import ADVANCE
from gateway.broker.server import Server as RedisAddress
from gateway.broker.wire import Wire
from gateway.frames import publication_line, push_prefix
from gateway.types import START, Topic
from tests.e2e.processes import Gateway
from tests.servers import free_port

__all__ = ["CHAT", "FAN_OUT", "AbsentError", "Kind", "Running", "connected", "family", "gateway"]

NODE = HERE / "baselines" / "node"
NCHAN = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
TOPIC = "bench:{TTT}"
SPOKEN = "fedcba9876543210"
"""The message whose deltas a run writes."""
TOKEN = "bench"  # noqa: S105  # of a lease, and no secret
AHEAD = 10_000_000_000
"""What the first publication of a topic follows, where they are not appended."""
PLACE = b"1{PPPPPPPP}"
QUERY = "topics=%d&step=%d&each=%d"
LEASE = 3_600_000
"""Milliseconds: longer than any measurement, as nobody renews it."""
PATIENCE = 20.0
"""Seconds a server may take to listen."""


class AbsentError(Exception):
    """A baseline is not installed here."""


class Running(NamedTuple):
    """A server that listens.

    Attributes:
        port: For readers.
        feed_port: Where events are published.
        templates: For `Load`.
        pids: Whose CPU is the server's.
        store: Whose CPU is Redis's.

    """

    port: int
    feed_port: int
    templates: dict[str, bytes]
    pids: list[int]
    store: list[int]


Kind = Callable[[Path, Shape], AbstractAsyncContextManager[Running]]
Feed = Callable[[str, Shape], Awaitable[tuple[int, dict[str, bytes]]]]
"""Prepares a store, given by its URL, and gives the port to publish at and the templates to do it with."""


def resp(*words: str | bytes | int) -> bytes:
    packed: bytes = hiredis.pack_command(words)
    return packed


async def listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server takes connections, without making one: some servers count them."""
    for _ in range(round(PATIENCE / 0.02)):
        if process.poll() is not None:
            raise SystemExit(f"bench: {process.args!r} ended with {process.returncode}")
        for connection in psutil.Process(process.pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                return
        for child in psutil.Process(process.pid).children(recursive=True):
            if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in child.net_connections("tcp")):
                return
        await asyncio.sleep(0.02)
    raise SystemExit(f"bench: {process.args!r} does not listen on port {port}")


@contextmanager
def process(*command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server on the first core."""
    with subprocess.Popen(pinned(0, *command), stdout=subprocess.DEVNULL, cwd=HERE.parent) as started:
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(timeout=5)
            except subprocess.TimeoutExpired:
                started.kill()


def family(pid: int) -> list[int]:
    """List a process and its children."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


# Stores


@asynccontextmanager
async def redis() -> AsyncIterator[tuple[str, list[int]]]:
    """Run a private store on the second core."""
    async with EmbeddedServer() as server:
        wire = await Wire.connect(RedisAddress(server.url, timeout=10))
        facts = (await wire.call("INFO", "server")).decode()
        wire.close()
        pid = int(facts.partition("process_id:")[2].split()[0])
        if (psutil.cpu_count() or 1) > 1:
            psutil.Process(pid).cpu_affinity([1])
        yield server.url, [pid]


def redis_feed(url: str) -> tuple[int, dict[str, bytes]]:
    address = urlsplit(url)
    hello = resp("AUTH", address.password) if address.password else b""
    return address.port or 6379, {"hello": hello} if hello else {}


async def append_feed(url: str, shape: Shape) -> tuple[int, dict[str, bytes]]:
    """Begin a run on every topic, and give the command with which it goes on: what a real agent's process sends."""
    broker = RedisBroker(url, max_bytes=1 << 40)
    epochs = {}

    async def begin(number: int) -> None:
        start = Entry(kind="h", type="bench.start", data=b'{"type":"bench.start"}')
        opened = Entry(kind="d", type="agent_delta", message=SPOKEN, data=b'{"type":"agent_delta"}')
        run = f"bench{number:05}"
        request = AppendRequest(writer=run, seq="0", run=run, token=TOKEN, lease=LEASE, entries=[start, opened])
        answer = await broker.append(Topic(f"bench:{number:05}"), request, position=START)
        assert isinstance(answer, Appended), answer
        epochs[number] = answer.position.epoch

    for start in range(0, shape.topics, 500):
        await asyncio.gather(*(begin(number) for number in range(start, min(start + 500, shape.topics))))
    await broker.aclose()
    wire = await Wire.connect(RedisAddress(url, timeout=10))
    server_id = wire.server_id
    await wire.call("SCRIPT", "LOAD", ADVANCE.source)
    wire.close()

    def command(events: list[bytes]) -> bytes:
        entries = [Entry(kind="d", type="agent_delta", message=SPOKEN, data=event) for event in events]
        run = "bench{TTT}"
        request = AppendRequest(writer=run, seq="{SSSSSSSS}", run=run, token=TOKEN, entries=entries)
        keys = Keys("gw").of(Topic(TOPIC))[:3]
        common: list[str | bytes | int] = [
            f"{{VVVVVV}} {server_id} {run} {TOKEN}",
            1,
            f"w:{run}",
            request.seq,
            "PUBLISH",
            1 << 40,
        ]
        before = push_prefix(Topic(TOPIC)) + b'{"data":'
        own = [
            argument if isinstance(argument, str | bytes) else str(argument) for argument in advance_arguments(request)
        ]
        return resp("EVALSHA", ADVANCE.sha, len(keys), *keys, *common, before, *own)

    port, templates = redis_feed(url)
    values = "".join(epochs[number] for number in range(shape.topics)).encode()
    return port, {**templates, **publishing(shape, command), "values": values}


async def publish_feed(url: str, shape: Shape) -> tuple[int, dict[str, bytes]]:
    """Publish what the product's scripts publish, without their work: one core of Redis appends fewer than that."""
    port, templates = await append_feed(url, shape)
    wire = await Wire.connect(RedisAddress(url, timeout=10))

    async def ahead(number: int) -> None:
        """Have a topic believe that its events are those which are published."""
        state = Keys("gw").of(Topic(f"bench:{number:05}"))[0]
        _, rest = (await wire.call("HGET", state, "d")).split(b" ", 1)
        await wire.call("HSET", state, "d", b"%d %b" % (AHEAD, rest))

    await asyncio.gather(*(ahead(number) for number in range(shape.topics)))
    wire.close()
    channel = Keys("gw").of(Topic(TOPIC))[0]

    def command(event: bytes) -> bytes:
        line = publication_line(push_prefix(Topic(TOPIC)), AHEAD, event).replace(b"%d" % AHEAD, PLACE)
        return resp("PUBLISH", channel, b"{VVVVVV} %b %b agent_delta\n%b" % (PLACE, PLACE, line))

    return port, {**templates, **publishing(shape, each(command))}


def publishing(shape: Shape, command: Callable[[list[bytes]], bytes]) -> dict[str, bytes]:
    """Make the templates of a publish of a shape's burst, and of one event."""
    return {"command": command(messages(shape.burst)), "single": command(messages(1))}


def each(command: Callable[[bytes], bytes]) -> Callable[[list[bytes]], bytes]:
    """Publish a burst as that many publishes."""
    return lambda events: b"".join(command(event) for event in events)


def query(shape: Shape) -> str:
    return QUERY % (shape.topics, 1, shape.each)


# The product


@asynccontextmanager
async def gateway(
    _tools: Path, shape: Shape, *, ping_interval: float = 3600, feed: Feed = append_feed
) -> AsyncIterator[Running]:
    """`gateway serve` with a real store in front: real appends, real sessions; it pings after so many seconds."""
    async with redis() as (url, store):
        # What is published and not appended, no check would find in the store.
        unchecked = ["--audit-interval", "86400"] if feed is publish_feed else []
        server = Gateway(url, "--ping-interval", f"{ping_interval:g}", *unchecked)
        await server.start()
        try:
            assert server.process is not None
            if (psutil.cpu_count() or 1) > 1:
                psutil.Process(server.process.pid).cpu_affinity([0])
            feed_port, templates = await feed(url, shape)
            templates |= {
                "path": b"/connection/websocket",
                "first": b'{"id":1,"connect":{}}',
                "subscribe": b'{"id":2,"subscribe":{"channel":"%s"}}' % TOPIC.encode(),
                "ready": b'"subscribe":',
            }
            yield Running(server.port, feed_port, templates, family(server.process.pid), store)
        finally:
            await server.stop()


# Baselines, fed with lines


def lines(*command: str | Path) -> Kind:
    """Make a baseline that is fed with lines; ``PORT`` and ``FEED`` in its command are set."""

    @asynccontextmanager
    async def kind(tools: Path, shape: Shape) -> AsyncIterator[Running]:
        port, feed = free_port(), free_port()
        fields = {"PORT": str(port), "FEED": str(feed), "READERS": str(shape.readers), "FLOOR": str(tools / "floor")}
        words = [fields.get(str(word), word) for word in command]
        if words[0] == "node":
            require_node()
        with process(*words) as started:
            await listening(port, started)
            await listening(feed, started)
            templates = {"path": b"/", **publishing(shape, each(lambda event: event + b"\n"))}
            yield Running(port, feed, templates, family(started.pid), [])

    return kind


def require_node() -> None:
    if shutil.which("node") is None or not (NODE / "node_modules").is_dir():
        raise AbsentError("node and its packages are not installed (make baselines)")


def python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"bench.baselines.{module}", *arguments)


# Baselines, fed by a gateway's own channels in Redis


def channels(*command: str | Path, path: str, feed: Feed = append_feed) -> Kind:
    """Make a baseline that hears what a gateway hears; ``PORT`` and ``URL`` in its command are set."""

    @asynccontextmanager
    async def kind(_tools: Path, shape: Shape) -> AsyncIterator[Running]:
        if command[0] == "node":
            require_node()
        async with redis() as (url, store):
            port = free_port()
            feed_port, templates = await feed(url, shape)
            fields = {"PORT": str(port), "URL": url}
            with process(*[fields.get(str(word), word) for word in command]) as started:
                await listening(port, started)
                templates["path"] = path.replace("QUERY", query(shape)).encode()
                yield Running(port, feed_port, templates, family(started.pid), store)

    return kind


@asynccontextmanager
async def socketio(_tools: Path, shape: Shape) -> AsyncIterator[Running]:
    """socket.io and its Redis adapter, fed as its emitter does."""
    require_node()
    async with redis() as (url, store):
        port = free_port()
        with process("node", NODE / "socketio.mjs", str(port), url) as started:
            await listening(port, started)

            def command(event: bytes) -> bytes:
                packet = {"type": 2, "data": ["event", event.decode()], "nsp": "/"}
                body = msgspec.msgpack.encode(["emitter", packet, {"rooms": ["{TTT}"], "flags": {}, "except": []}])
                return resp("PUBLISH", "socket.io#/#{TTT}#", body)

            feed_port, templates = redis_feed(url)
            path = "/socket.io/?EIO=4&transport=websocket&topic={TTT}&" + query(shape)
            templates |= {"path": path.encode(), "first": b"40", "ready": b"40{", **publishing(shape, each(command))}
            yield Running(port, feed_port, templates, family(started.pid), store)


# Baselines without Redis


@asynccontextmanager
async def nats(_tools: Path, shape: Shape) -> AsyncIterator[Running]:
    """nats-server's websocket; published over its own protocol."""
    if shutil.which("nats-server") is None:
        raise AbsentError("nats-server is not installed (make baselines)")
    port, feed = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        config = Path(folder) / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{feed}"\nwebsocket {{ listen: "127.0.0.1:{port}"\nno_tls: true }}\n', "utf-8"
        )
        with process("env", "GOMAXPROCS=1", "nats-server", "-c", config, "-l", f"{folder}/log") as started:
            await listening(port, started)
            templates = {
                "path": b"/",
                "first": b'CONNECT {"verbose":false,"protocol":1}\r\n',
                "subscribe": b"SUB bench.{TTT} 1\r\nPING\r\n",
                "ready": b"PONG\r\n",
                "hello": b'CONNECT {"verbose":false}\r\n',
                **publishing(shape, each(lambda event: b"PUB bench.{TTT} %d\r\n%b\r\n" % (len(event), event))),
            }
            yield Running(port, feed, templates, family(started.pid), [])


@asynccontextmanager
async def nchan(_tools: Path, shape: Shape) -> AsyncIterator[Running]:
    """nginx with Debian's nchan module; published by pipelined HTTP requests."""
    if shutil.which("nginx") is None or not NCHAN.exists():  # noqa: ASYNC240  # nothing else runs yet
        raise AbsentError("nginx with nchan is not installed (make baselines)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(
            f"load_module {NCHAN};\ndaemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n"
            "worker_rlimit_nofile 40000; events { worker_connections 20000; }\n"
            "http { access_log off; keepalive_requests 1000000000; nchan_max_reserved_memory 512M;\n"
            f"server {{ listen 127.0.0.1:{port} backlog=4096;\n"
            "location ~ /pub/(.+)$ { nchan_publisher; nchan_channel_id $1; nchan_store_messages off; }\n"
            "location ~ /sub/(.+)$ { nchan_subscriber websocket; nchan_channel_id $1; }\n}}\n",
            "utf-8",
        )
        with process("nginx", "-c", config, "-e", f"{folder}/error.log") as started:
            await listening(port, started)
            request = b"POST /pub/{TTT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b"
            templates = {"path": b"/sub/{TTT}", **publishing(shape, each(lambda event: request % (len(event), event)))}
            yield Running(port, port, templates, family(started.pid), [])


FAN_OUT: dict[str, Kind] = {
    "C loop, a send each": lines("FLOOR", "each", "PORT", "FEED", "READERS"),
    "C loop, joined": lines("FLOOR", "joined", "PORT", "FEED", "READERS"),
    "bare subclass": lines(*python("subclass", "PORT", "lines", "FEED")),
    "bare subclass on Redis": channels(*python("subclass", "PORT", "redis", "URL", "gw:{bench:00000}"), path="/"),
    "gateway": gateway,
    "uWebSockets.js": lines("node", NODE / "uws.mjs", "PORT", "FEED"),
    "nats-server": nats,
    "websockets broadcast": lines(*python("broadcast", "PORT", "FEED")),
    "npm ws": lines("node", NODE / "ws.mjs", "PORT", "lines", "FEED"),
    "nchan": nchan,
    "socket.io": socketio,
    "queue and task": lines(*python("queues", "PORT", "FEED")),
}
"""Servers of one topic with many readers."""

CHAT: dict[str, Kind] = {
    "bare hub": channels(*python("hub", "PORT", "URL", "asyncio"), path="/{TTT}?QUERY", feed=publish_feed),
    "bare hub, uvloop": channels(*python("hub", "PORT", "URL", "uvloop"), path="/{TTT}?QUERY", feed=publish_feed),
    "gateway": partial(gateway, feed=publish_feed),
    "node ws + ioredis": channels(
        "node", NODE / "ws.mjs", "PORT", "redis", "URL", path="/{TTT}?QUERY", feed=publish_feed
    ),
    "nats-server": nats,
    "socket.io": socketio,
    "nchan": nchan,
}
"""Servers of many topics with few readers."""


@asynccontextmanager
async def connected(kind: Kind, tools: Path, shape: Shape) -> AsyncIterator[tuple[Running, Load]]:
    """Start a server and connect its readers.

    Raises:
        AbsentError: It is not installed.

    """
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(kind(tools, shape))
        load = await asyncio.to_thread(
            Load, tools / "load", running.templates, shape, port=running.port, feed_port=running.feed_port
        )
        stack.callback(load.close)
        await asyncio.sleep(0.5)  # subscriptions that are not acknowledged to readers
        yield running, load
