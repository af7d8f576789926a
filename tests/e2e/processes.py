"""The product as its users run it: real processes, started and ended by the tests."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from gateway.broker.embedded import EmbeddedServer
from tests.servers import free_port
from tests.started import remember

ROOT = Path(__file__).parent.parent.parent
GATEWAY = (sys.executable, "-m", "gateway")
PATIENCE = float(os.environ.get("GATEWAY_TEST_PATIENCE", "60"))
"""How long a condition may take to come true, in seconds; raise it on a slow machine."""


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Ask again until the answer is truthy, and give that."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await condition()
                if answer:
                    return answer
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE} s in vain for {what}") from None


class Process:
    """A `gateway` command that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *arguments: str, given: int = asyncio.subprocess.DEVNULL, **environment: str) -> "Process":
        """Start one; ``given`` is what its standard input is."""
        process = await asyncio.create_subprocess_exec(
            *GATEWAY,
            *arguments,
            stdin=given,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            limit=1 << 26,
        )
        remember(process.pid)
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.running:
            self._process.send_signal(number)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep it from doing anything: its connections stay, and nobody answers."""
        self.kill(signal.SIGSTOP)
        try:
            yield
        finally:
            self.kill(signal.SIGCONT)

    async def line(self) -> str:
        """Read the next line of its standard output; "" at the end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode()

    async def error_line(self) -> str:
        """Read the next line of its standard error; "" at the end."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stderr.readline()).decode()

    async def end(self, given: bytes | None = None) -> tuple[int, str, str]:
        """Wait for its end: exit code, standard output and error not read so far."""
        async with asyncio.timeout(PATIENCE * 2):
            out, err = await self._process.communicate(given)
        assert self._process.returncode is not None
        return self._process.returncode, out.decode(), err.decode()

    async def stop(self) -> None:
        if not self.running:
            return
        self.kill(signal.SIGTERM)
        try:
            async with asyncio.timeout(15):
                await self._process.communicate()
        except TimeoutError:
            self.kill()
            await self._process.communicate()


class Gateway:
    """`gateway serve` on a port of its own, which keeps it when it is started again."""

    def __init__(self, redis_url: str, *arguments: str) -> None:
        self.port = free_port()
        self.redis_url = redis_url
        self._arguments = arguments
        self.process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.process = await Process.start(
            "serve", "--port", str(self.port), "--redis-url", self.redis_url, *self._arguments
        )
        await until(self.ready, "the gateway to be ready")

    async def ready(self) -> bool:
        assert self.process is not None
        if not self.process.running:
            raise AssertionError(await self.process.end())
        status, _ = await self.get("/readyz")
        return status == 200

    async def get(self, path: str) -> tuple[int, bytes]:
        """Fetch a path; status 0 where nobody answers."""
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:  # noqa: S310 - our own address
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    async def topic(self, topic: str) -> dict[str, Any]:
        """Fetch the snapshot of a topic."""
        status, body = await self.get("/topics/" + urllib.parse.quote(topic, safe=""))
        assert status == 200, body
        snapshot: dict[str, Any] = json.loads(body)
        return snapshot

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    async def stop(self) -> None:
        if self.process is not None:
            await self.process.stop()


@contextlib.asynccontextmanager
async def running_gateway(*arguments: str) -> AsyncIterator[Gateway]:
    """Give a gateway on a private Valkey; both end with the block."""
    async with EmbeddedServer() as server:
        gateway = Gateway(server.url, *arguments)
        try:
            await gateway.start()
            yield gateway
        finally:
            await gateway.stop()
