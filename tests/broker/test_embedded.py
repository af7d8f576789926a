"""The embedded server: its life, its data, and its end with ours."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from gateway.broker import embedded
from gateway.broker.embedded import EmbeddedServer, find_server
from gateway.errors import EmbeddedServerError

OWNER = """
import asyncio, sys
from pathlib import Path
from gateway.broker.embedded import EmbeddedServer

async def main():
    async with EmbeddedServer(Path(sys.argv[1]) if len(sys.argv) > 1 else None) as server:
        print(server.url, server._process.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def server_of(server: EmbeddedServer) -> psutil.Process:
    assert server._process is not None
    (child,) = psutil.Process(server._process.pid).children()
    return child


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


async def test_enter_answers_and_exit_ends_it() -> None:
    async with EmbeddedServer() as server:
        process = server_of(server)
        directory = Path(process.cwd())
        async with Redis.from_url(server.url) as redis:
            assert await redis.ping()
            assert (await redis.config_get("maxmemory-policy"))["maxmemory-policy"] == "noeviction"
            assert (await redis.config_get("appendonly"))["appendonly"] == "no"
    assert gone(process)
    assert not directory.exists()
    assert not server.failed.is_set()


async def fail_within(server: EmbeddedServer) -> None:
    async with server:
        assert not refuses(port_of(server.url))
        raise LookupError


async def test_exit_by_exception_ends_it() -> None:
    server = EmbeddedServer()
    with pytest.raises(LookupError):
        await fail_within(server)
    assert refuses(port_of(server.url))


async def test_password_keeps_other_users_out_and_stays_out_of_sight() -> None:
    async with EmbeddedServer() as server:
        password = server.url.split(":")[2].partition("@")[0]
        async with Redis(port=port_of(server.url)) as redis:
            with pytest.raises(AuthenticationError):
                await redis.ping()
        assert password not in repr(server)
        assert password not in server.log
        assert password not in " ".join(server_of(server).cmdline())
        assert server._process is not None
        assert password not in " ".join(psutil.Process(server._process.pid).cmdline())


async def test_data_directory_keeps_data_and_address(tmp_path: Path) -> None:
    data_dir = tmp_path / 'a "quoted" place'
    async with EmbeddedServer(data_dir) as first, Redis.from_url(first.url) as redis:
        await redis.set("key", "value")
        assert (await redis.config_get("appendfsync"))["appendfsync"] == "everysec"
    async with EmbeddedServer(data_dir) as second:
        assert second.url == first.url
        async with Redis.from_url(second.url) as redis:
            assert await redis.get("key") == b"value"
    assert (data_dir / "address.json").stat().st_mode & 0o777 == 0o600


async def test_data_directory_survives_kill_of_the_server(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as first:
        async with Redis.from_url(first.url) as redis:
            await redis.set("key", "value")
        server_of(first).kill()
        await first.failed.wait()
    async with EmbeddedServer(tmp_path) as second, Redis.from_url(second.url) as redis:
        assert await redis.get("key") == b"value"


async def test_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as first:
        with pytest.raises(EmbeddedServerError, match=rf"in use by another server \(process {os.getpid()}\)"):
            async with EmbeddedServer(tmp_path):
                pass
        async with Redis.from_url(first.url) as redis:
            assert await redis.ping()


async def test_data_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedServerError, match="cannot be made"):
        async with EmbeddedServer(tmp_path / "file" / "data"):
            pass


@pytest.mark.parametrize("content", ["", "[]", '{"port": "x", "password": "y"}', '{"port": 1e9, "password": "y"}'])
async def test_damaged_address_file_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "address.json").write_text(content)
    async with EmbeddedServer(tmp_path) as server:
        address = json.loads((tmp_path / "address.json").read_text())
        assert server.url == f"redis://:{address['password']}@127.0.0.1:{address['port']}/0"


async def test_remembered_port_that_is_taken_gives_another(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as first:
        pass
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port_of(first.url)))
        squatter.listen()
        async with EmbeddedServer(tmp_path) as second:
            assert port_of(second.url) != port_of(first.url)
            async with Redis.from_url(second.url) as redis:
                assert await redis.ping()


async def test_port_taken_at_every_try_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        monkeypatch.setattr(embedded, "_free_port", lambda: squatter.getsockname()[1])
        monkeypatch.setattr(embedded, "PORT_TRIES", 2)
        with pytest.raises(EmbeddedServerError, match="no free port in 2 tries"):
            async with EmbeddedServer():
                pass


async def test_server_that_ends_by_itself_is_noticed() -> None:
    async with EmbeddedServer() as server:
        waiting = asyncio.create_task(server.wait())
        server_of(server).kill()
        with pytest.raises(EmbeddedServerError, match="the embedded server ended"):
            await waiting
        assert server.failed.is_set()


async def test_killed_watchdog_takes_the_server_with_it() -> None:
    async with EmbeddedServer() as server:
        process = server_of(server)
        assert server._process is not None
        server._process.kill()
        await server.failed.wait()
        if sys.platform == "linux":
            await until(lambda: gone(process))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("kept", [False, True])
async def test_owner_killed_leaves_no_orphan(number: signal.Signals, *, kept: bool, tmp_path: Path) -> None:
    arguments = [str(tmp_path)] if kept else []
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        url, watchdog_pid = (await asyncio.to_thread(owner.stdout.readline)).split()
        watchdog = psutil.Process(int(watchdog_pid))
        (server,) = watchdog.children()
        directory = Path(server.cwd())
        owner.send_signal(number)
        await until(lambda: gone(server) and gone(watchdog))
        assert refuses(port_of(url))
        assert directory.exists() is kept


async def test_restart_after_a_killed_owner_waits_for_its_server(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        url, _ = (await asyncio.to_thread(owner.stdout.readline)).split()
        async with Redis.from_url(url) as redis:
            await redis.set("key", "value")
        owner.kill()
        owner.wait()
        async with EmbeddedServer(tmp_path) as server, Redis.from_url(server.url) as redis:
            assert await redis.get("key") == b"value"


def test_find_server_without_the_package_takes_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shipped = find_server()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "redis-server").symlink_to(shipped)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == str(tmp_path / "redis-server")


def test_find_server_without_any_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match=r"agent-gateway\[embedded\].*GATEWAY_REDIS_URL"):
        find_server()


async def test_program_that_fails_is_told_with_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho the disk is on fire\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(embedded, "find_server", lambda: str(program))
    with pytest.raises(EmbeddedServerError) as caught:
        async with EmbeddedServer():
            pass
    assert str(caught.value) == "the embedded server did not start: exit code 3, the disk is on fire"


async def test_server_that_ends_is_told_in_one_line() -> None:
    async with EmbeddedServer() as server:
        async with Redis.from_url(server.url) as redis:
            await redis.shutdown(nosave=True)
        with pytest.raises(EmbeddedServerError) as caught:
            await server.wait()
    text = str(caught.value)
    assert text.startswith("the embedded server ended: exit code 0, ")
    assert "ready to exit" in text
    assert "\n" not in text


async def test_server_that_is_killed_is_told_in_one_line() -> None:
    async with EmbeddedServer() as server:
        server_of(server).kill()
        with pytest.raises(EmbeddedServerError) as caught:
            await server.wait()
    assert str(caught.value) == "the embedded server ended: killed by SIGKILL"


async def test_broken_data_is_told_with_the_servers_own_word(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server, Redis.from_url(server.url) as redis:
        await redis.set("key", "value")
    for file in (tmp_path / "appendonlydir").glob("*.incr.aof"):
        file.write_bytes(b"nonsense\r\n" * 5)
    with pytest.raises(EmbeddedServerError) as caught:
        async with EmbeddedServer(tmp_path):
            pass
    assert "Bad file format reading the append only file" in str(caught.value)
    assert "\n" not in str(caught.value)
