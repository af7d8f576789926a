"""The connection by itself: roads in, and what is no Redis."""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.broker.server import Server
from gateway.broker.wire import Wire
from gateway.errors import BrokerError, BrokerUnavailableError
from tests.servers import RedisServer, free_port


async def closed(wire: Wire) -> None:
    wire.close()
    await wire.wait_closed()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def answering(serve: Serve, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve each connection so, on the port given; at the end all of them are over."""
    serving: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await serve(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    port = free_port()
    async with await asyncio.start_server(one, "127.0.0.1", port, ssl=tls):
        yield port
        await asyncio.gather(*serving)


async def test_connect_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with RedisServer(tmp_path / "data", {"unixsocket": str(path)}):
        wire = await Wire.connect(Server(f"unix://{path}?db=1", timeout=5))
        assert await wire.call("SET", "key", b"\x00\r\n") == b"OK"
        assert await wire.call("GET", "key") == b"\x00\r\n"
        await wire.call("SELECT", 0)
        assert await wire.call("GET", "key") is None
        await closed(wire)


async def test_connect_over_tls(redis_url: str, tmp_path: Path) -> None:
    """The shipped server speaks no TLS, so a plain relay puts it on."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run(
        ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *subject),
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    host, port = redis_url.removeprefix("redis://").removesuffix("/0").split(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        with contextlib.suppress(OSError):
            await inner_writer.wait_closed()

    async with answering(relay, tls=context) as front:
        with pytest.raises(BrokerUnavailableError, match="cannot connect"):
            await Wire.connect(Server(f"rediss://localhost:{front}", timeout=5))
        wire = await Wire.connect(Server(f"rediss://localhost:{front}?ssl_ca_certs={certificate}", timeout=5))
        assert await wire.call("PING") == b"PONG"
        await closed(wire)
        # Without a check it takes any certificate, as redis-py does.
        wire = await Wire.connect(Server(f"rediss://127.0.0.1:{front}?ssl_cert_reqs=none", timeout=5))
        assert await wire.call("PING") == b"PONG"
        await closed(wire)


async def test_connect_reads_who_the_server_is(redis_url: str) -> None:
    server = Server(redis_url, timeout=5)
    one, two = await Wire.connect(server), await Wire.connect(server)
    run_id, colon, offset = one.server_id.partition(":")
    assert (len(run_id), colon) == (40, ":")
    assert int(offset) >= -1
    assert one.server_id == two.server_id
    await closed(one)
    await closed(two)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n", b""])
async def test_connect_to_what_is_no_redis(greeting: bytes) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read(1)

    async with answering(greet) as port:
        with pytest.raises(BrokerError, match=f"127.0.0.1:{port}"):
            await Wire.connect(Server(f"redis://127.0.0.1:{port}", timeout=5))


async def test_connect_to_one_who_never_answers() -> None:
    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with answering(listen) as port:
        with pytest.raises(BrokerUnavailableError):
            await Wire.connect(Server(f"redis://127.0.0.1:{port}", timeout=0.1))


async def test_connect_beyond_the_servers_limit_is_a_passing_failure(tmp_path: Path) -> None:
    with RedisServer(tmp_path, {"maxclients": "2"}) as server:
        address = Server(server.url, timeout=5)
        wires = [await Wire.connect(address) for _ in range(2)]
        with pytest.raises(BrokerUnavailableError):
            await Wire.connect(address)
        for wire in wires:
            await closed(wire)


# Wire


async def test_call_answers_in_order(redis_url: str, key_prefix: str) -> None:
    wire = await Wire.connect(Server(redis_url, timeout=5))
    answers = await asyncio.gather(*(wire.call("INCR", key_prefix) for _ in range(100)))
    assert answers == list(range(1, 101))
    await closed(wire)


async def test_call_that_the_server_refuses(redis_url: str) -> None:
    wire = await Wire.connect(Server(redis_url, timeout=5))
    with pytest.raises(BrokerError, match="unknown command") as caught:
        await wire.call("NONSENSE")
    assert not isinstance(caught.value, BrokerUnavailableError)
    assert await wire.call("PING") == b"PONG"
    await closed(wire)


@pytest.mark.parametrize(
    "code",
    [
        "TRYAGAIN",
        "MOVED",
        "ASK",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "READONLY",
        "OOM",
        "MISCONF",
        "NOREPLICAS",
        "BUSY",
    ],
)
@pytest.mark.parametrize("frame", ["{} not now", "ERR Error running script (call to f_1): @user_script:1: -{} not now"])
async def test_call_that_can_succeed_later(redis_url: str, code: str, frame: str) -> None:
    wire = await Wire.connect(Server(redis_url, timeout=5))
    with pytest.raises(BrokerUnavailableError, match=code):
        await wire.call("EVAL", "return redis.error_reply(ARGV[1])", 0, frame.format(code))
    assert wire.closed is (code == "READONLY")
    await closed(wire)


async def test_cast_goes_first_and_its_error_hurts_nobody(redis_url: str, key_prefix: str) -> None:
    wire = await Wire.connect(Server(redis_url, timeout=5))
    wire.cast("SET", key_prefix, "1")
    wire.cast("NONSENSE")
    assert await wire.call("GET", key_prefix) == b"1"
    await closed(wire)
    wire.cast("PING")


async def test_call_after_the_end(redis_url: str) -> None:
    wire = await Wire.connect(Server(redis_url, timeout=5))
    wire.close()
    with pytest.raises(BrokerUnavailableError, match="has ended"):
        await wire.call("PING")
    await closed(wire)
