"""`serve`, as a process of its own."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.broker.embedded import EmbeddedServer
from gateway.client import Client
from gateway.note import find
from tests.e2e.processes import Process, until
from tests.servers import free_port


class Serving:
    """A `gateway serve` that has said where it is."""

    def __init__(self, process: Process, url: str, redis_url: str, access: str) -> None:
        self.process = process
        self.url = url
        self.redis_url = redis_url
        self.access = access


class Starter:
    """Starts `serve` and ends what a test left."""

    def __init__(self) -> None:
        self.processes: list[Process] = []

    async def __call__(self, *arguments: str) -> Serving:
        process = await Process.start("serve", "--port", "0", "--drain", "0", *arguments)
        self.processes.append(process)
        url = (await process.line()).removeprefix("Gateway: ").strip()
        redis_line = await process.line()
        if not redis_line:
            raise AssertionError(await process.end())
        access = (await process.line()).removeprefix("Access:").strip()
        return Serving(process, url, redis_line.removeprefix("Redis:").split()[0], access)


@pytest_asyncio.fixture
async def serve() -> AsyncIterator[Starter]:
    starter = Starter()
    yield starter
    for process in starter.processes:
        await process.stop()


async def gone(processes: list[psutil.Process]) -> bool:
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


async def run(*arguments: str) -> tuple[int, str, str]:
    return await (await Process.start(*arguments)).end()


async def test_private_store_and_note_let_the_other_commands_do_without_settings(serve: Starter) -> None:
    serving = await serve()
    assert await run("publish", "t", '{"type":"note"}') == (0, "", "")
    code, out, _ = await run("topics", "--json")
    assert (code, json.loads(out)["topic"]) == (0, "t")
    code, out, _ = await run("tail", "t", "--no-follow", "--json")
    assert (code, json.loads(out)["data"]) == (0, {"type": "note"})
    async with Redis.from_url(serving.redis_url) as redis:
        assert await redis.ping()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_signal_ends_it_quietly_with_its_store(
    serve: Starter, number: signal.Signals, code: int, workers: str
) -> None:
    serving = await serve("--workers", workers)
    children = psutil.Process(serving.process.pid).children(recursive=True)
    assert len(children) >= 2
    serving.process.kill(number)
    assert await serving.process.end() == (code, "", "")
    await until(lambda: gone(children), "all processes to end")
    assert find() == []


async def test_data_and_address_outlive_it(serve: Starter) -> None:
    first = await serve()
    await run("publish", "t", '{"type":"note"}')
    first.process.kill(signal.SIGTERM)
    await first.process.end()
    second = await serve()
    assert second.redis_url == first.redis_url
    _, out, _ = await run("tail", "t", "--no-follow", "--json")
    assert json.loads(out)["data"] == {"type": "note"}


async def test_data_directory_in_use_is_one_line_and_1(serve: Starter, tmp_path: Path) -> None:
    await serve("--data-dir", str(tmp_path / "store"))
    code, out, err = await run("serve", "--port", "0", "--data-dir", str(tmp_path / "store"))
    assert (code, out) == (1, "")
    assert "is in use by another server" in err
    assert err.count("\n") == 1


async def test_port_taken_is_one_line_and_1() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        expected = f"gateway: port {port} of 127.0.0.1 is taken by another program; choose another one with --port\n"
        assert await run("serve", "--port", str(port)) == (1, "", expected)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_port_taken_by_a_gateway_names_that(serve: Starter, host: str) -> None:
    port = str(free_port())
    await serve("--port", port, "--host", host, "--insecure")
    expected = f"gateway: a gateway already serves http://127.0.0.1:{port}; choose another port with --port\n"
    assert await run("serve", "--port", port, "--host", host, "--insecure") == (1, "", expected)


async def test_port_of_the_metrics_taken_is_one_line_and_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = await run("serve", "--port", "0", "--metrics-port", str(port))
    assert (code, out) == (2, "")
    assert f"metrics cannot be served on 127.0.0.1, port {port}; choose another --metrics-port" in err
    assert len(err.splitlines()) == 1


async def test_workers_tell_their_metrics_on_ports_of_their_own(serve: Starter) -> None:
    port = free_port()
    await serve("--workers", "2", "--metrics-port", str(port))
    async with httpx.AsyncClient() as client:
        for number in range(2):
            answer = await client.get(f"http://127.0.0.1:{port + number}/metrics")
            assert "gateway_link_up" in answer.text


async def test_without_keys_loopback_is_all_that_is_served(serve: Starter) -> None:
    code, out, err = await run("serve", "--port", "0", "--host", "0.0.0.0")
    assert (code, out) == (2, "")
    assert "without keys everybody who reaches 0.0.0.0 could do everything" in err
    assert "--insecure" in err
    assert err.count("\n") == 1
    assert (await serve()).access == "no keys are set, so everybody on this machine may do everything"


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--token-secrets", "hush", "GATEWAY_TOKEN_SECRETS: number 1: expected a secret of 32 bytes or more"),
        ("--api-keys", "hush", "GATEWAY_API_KEYS: number 1: expected 16 characters"),
        ("--token-public-keys", "/no/such.pem", "GATEWAY_TOKEN_PUBLIC_KEYS: /no/such.pem"),
        ("--token-jwks", "http://example.com/keys", "GATEWAY_TOKEN_JWKS: expected a file or an address of https"),
        ("--user-grants", "chat=reed", "GATEWAY_USER_GRANTS: expected verbs"),
        ("--trusted-proxies", "proxy", "GATEWAY_TRUSTED_PROXIES"),
        ("--api-keys", ",", "got nothing but commas"),
    ],
)
async def test_keys_that_are_none_are_one_line_and_2(flag: str, value: str, told: str) -> None:
    code, out, err = await run("serve", "--port", "0", flag, value)
    assert (code, out) == (2, "")
    assert told in err
    assert "hush" not in err
    assert err.count("\n") == 1


async def test_with_keys_nobody_comes_in_without_and_nothing_tells_them(serve: Starter) -> None:
    secret, key = "a-secret-that-nobody-must-ever-see!!", "a-key-that-nobody-must-see"
    serving = await serve("--host", "0.0.0.0", "--token-secrets", secret, "--api-keys", key, "--workers", "2")
    code, _, err = await run("topics", "--url", serving.url)
    assert code == 1
    assert "101" in err
    assert "a token is needed" in err
    serving.process.kill(signal.SIGTERM)
    code, out, err = await serving.process.end()
    assert code == 0
    assert serving.access == "by token or API key"
    assert secret not in out + err
    assert key not in out + err


async def test_given_redis_is_used_and_its_password_not_shown(serve: Starter) -> None:
    async with EmbeddedServer() as server:
        password = server.url.split(":")[2].partition("@")[0]
        serving = await serve("--redis-url", server.url)
        assert password not in serving.redis_url
        assert await run("publish", "t", '{"type":"note"}') == (0, "", "")
        async with Redis.from_url(server.url) as redis:
            assert await redis.keys("gw:{t}*")
        serving.process.kill(signal.SIGTERM)
        assert await serving.process.end() == (0, "", "")


async def test_store_that_dies_ends_it_with_an_error(serve: Starter) -> None:
    serving = await serve()
    async with Redis.from_url(serving.redis_url) as redis:
        await redis.shutdown(nosave=True)
    code, _, err = await serving.process.end()
    assert code == 1
    assert err.splitlines()[-1].startswith("gateway: the embedded server ended: exit code 0, ")
    assert err.count("ready to exit") == 1


async def test_store_that_dies_ends_all_workers_with_an_error(serve: Starter) -> None:
    serving = await serve("--workers", "2")
    async with Redis.from_url(serving.redis_url) as redis:
        await redis.shutdown(nosave=True)
    code, _, err = await serving.process.end()
    assert code == 1
    assert err.splitlines()[-1].startswith("gateway: the embedded server ended: exit code 0, ")
    assert err.count("ready to exit") == 1


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_killed_it_leaves_no_store_and_no_worker_behind(serve: Starter, workers: str) -> None:
    serving = await serve("--workers", workers)
    children = psutil.Process(serving.process.pid).children(recursive=True)
    serving.process.kill(signal.SIGKILL)
    await serving.process.end()
    await until(lambda: gone(children), "the store and the workers to end")


async def test_query_strings_stay_out_of_the_log(serve: Starter) -> None:
    serving = await serve()
    url = serving.url.replace("http", "ws") + "/connection/websocket?token=very-secret"
    for address in (url, url.replace("token", "other")):
        with contextlib.suppress(InvalidStatus):  # a token there is refused
            async with connect(address, ping_interval=None) as socket:
                await socket.send("nonsense")
                await socket.wait_closed()
    serving.process.kill(signal.SIGTERM)
    _, out, err = await serving.process.end()
    assert "very-secret" not in out + err


async def test_workers_share_the_port(serve: Starter) -> None:
    serving = await serve("--workers", "2")
    async with Client(serving.url) as one, Client(serving.url) as two:
        subscriptions = [client.subscribe("t", since="start", mirror=False) for client in (one, two)]
        await one.publish("t", {"type": "note"})
        async with asyncio.timeout(30):
            assert [(await anext(each)).data for each in subscriptions] == [{"type": "note"}] * 2


async def test_listens_where_it_is_told(serve: Starter) -> None:
    port = free_port()
    serving = await serve("--port", str(port))
    assert serving.url == f"http://127.0.0.1:{port}"
