"""What else lies in examples/deploy, and the Procfile: held to the code."""

import asyncio
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.broker.embedded import EmbeddedServer
from gateway.settings import ENV_PREFIX, Settings
from tests.e2e.processes import PATIENCE, ROOT, Gateway, until
from tests.started import remember

DEPLOY = ROOT / "examples" / "deploy"
KNOWN = {ENV_PREFIX + name.upper() for name in Settings.__struct_fields__} | {"GATEWAY_DATA_DIR"}


def test_reference_of_the_settings_is_true() -> None:
    page = runpy.run_path(str(DEPLOY / "settings.py"))["page"]()
    assert (DEPLOY / "SETTINGS.md").read_text() == page, "run `make settings`"
    assert set(re.findall(r"^\| `(GATEWAY_\w+)`", page, re.MULTILINE)) >= KNOWN


@pytest.mark.parametrize("name", ["compose.yaml", ".env.example", "nginx.conf", "Caddyfile", "Dockerfile", "README.md"])
def test_variables_that_a_file_names_are_there(name: str) -> None:
    named = set(re.findall(r"\bGATEWAY_[A-Z_]+\b", (DEPLOY / name).read_text()))
    assert named <= KNOWN


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_are_valid(tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").iterdir():
        text = unit.read_text()
        assert "/opt/gateway/venv/bin/gateway" in text
        (tmp_path / unit.name).write_text(text.replace("/opt/gateway/venv/bin/gateway", sys.executable))
    command = ["systemd-analyze", "verify", *sorted(str(unit) for unit in tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_image_is_made_of_what_its_context_lets_in(tmp_path: Path) -> None:
    """The wheel of the first stage, made of just the files that are copied."""
    text = (DEPLOY / "Dockerfile").read_text()
    allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"]
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert sorted(copied) == sorted(allowed)
    for name in copied:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        tmp_path / "wheels",
        tmp_path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "wheels").glob("agent_gateway-*.whl"))


async def test_processes_of_the_procfile_run() -> None:
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    assert set(lines) == {"web", "agent"}
    async with EmbeddedServer() as server:
        gateway = Gateway(server.url)
        environment = {
            **os.environ,
            "GATEWAY_API_KEYS": "k" * 16,  # it listens for everybody
            "GATEWAY_REDIS_URL": server.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PORT": str(gateway.port),
        }
        started = []
        for line in lines.values():
            process = await asyncio.create_subprocess_shell(
                f"exec {line}", env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            remember(process.pid)
            started.append(process)
        web, agent = started
        try:

            async def ready() -> bool:
                assert web.returncode is None
                return (await gateway.get("/readyz"))[0] == 200

            await until(ready, "the web process to be ready")
            assert agent.stderr is not None
            async with asyncio.timeout(PATIENCE):
                assert (await agent.stderr.readline()).startswith(b"Agent: ")
        finally:
            for process in started:
                process.terminate()
                await process.communicate()
        assert [process.returncode for process in started] == [0, 0]
