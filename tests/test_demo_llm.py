"""The demo on a real language model; opt-in, as its server is built from source: minutes, and a compiler."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gateway.client import Client
from gateway.reader import Update
from tests.e2e.processes import ROOT, until
from tests.servers import free_port
from tests.started import remember

pytestmark = pytest.mark.skipif(
    not os.environ.get("GATEWAY_TEST_LLM"), reason="set GATEWAY_TEST_LLM=1; builds llama-cpp-python, about 4 minutes"
)


async def test_demo_streams_from_a_real_model_and_can_be_stopped() -> None:
    venv = Path(os.environ.get("LLM_VENV", ".venv-llm"))
    subprocess.run(["make", f"LLM_VENV={venv}", f"{venv}/.ready"], cwd=ROOT, check=True)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "examples/demo_llm.py", venv / "bin/python", "--no-open", "--port", str(port), cwd=ROOT
    )
    remember(process.pid)
    async with Client(await ready(port)) as client:
        words = 0
        async with client.subscribe("t") as subscription:
            await client.send("t", "Tell me a short story about a lighthouse.")
            async for update in subscription:
                words += update.data.get("type") == "agent_delta"
                if ended(update):
                    break
            assert [run["status"] for run in update.mirror.state()["runs"]] == ["completed"]
            assert words > 10
            await client.send("t", "Now a very long one.")
            asked = False
            async for update in subscription:
                if update.mirror.state()["open"] and not asked:
                    asked = True
                    await client.cancel("t", run=update.mirror.state()["runs"][-1]["run"])
                if ended(update):
                    break
            # The model is free again at once: its server has seen the connection close.
            await client.send("t", "Thank you. Say goodbye.")
            async for update in subscription:
                if ended(update):
                    break
            assert [run["status"] for run in update.mirror.state()["runs"]] == ["completed", "cancelled", "completed"]
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 143

    async def gone() -> bool:
        return not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)

    await until(gone, "the demo and the model's server to end")


async def ready(port: int) -> str:
    async def listening() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    await until(listening, "the demo to listen")
    return f"http://127.0.0.1:{port}"


def ended(update: Update) -> bool:
    return update.data.get("type") in {"agent_complete", "agent_error", "agent_cancelled"}
