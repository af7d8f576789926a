"""The published conformance suite of Durable Streams (npm), its cases of the read side, against a real gateway.

The suite writes what it reads: `tests.streaming.durable_writes` is the write side. What it does not test of us is what
our streams have not: bytes instead of events, an end, an expiry, forks, and the rules of writing.
"""

import asyncio
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gateway.broker.redis import RedisBroker
from tests.serving import Gateway, eventually
from tests.streaming.durable_writes import writable

FOLDER = Path(__file__).parent.parent / "conformance"
VITEST = FOLDER / "node_modules/.bin/vitest"
CASES = frozenset(json.loads((Path(__file__).parent / "durable_cases.json").read_text()))
"""Those that apply, each `group: case`."""


async def suite(url: str, report: Path) -> dict[str, Any]:
    """Run the suite against a server; its report."""
    process = await asyncio.create_subprocess_exec(
        VITEST,
        "run",
        "--reporter=json",
        f"--outputFile={report}",
        "-t",
        "^(" + "|".join(re.escape(case.replace(": ", " ", 1)) for case in sorted(CASES)) + ")$",
        cwd=FOLDER,
        env={**os.environ, "CONFORMANCE_TEST_URL": url},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.skipif(not VITEST.exists(), reason="the published suite is not installed: make conformance")
async def test_the_published_suite(served: Gateway, broker: RedisBroker, tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(writable(served.http, broker), log_config=None))
    task = asyncio.create_task(server._serve([listening]))
    await eventually(lambda: server.started)
    try:
        report = await suite(f"http://127.0.0.1:{listening.getsockname()[1]}", tmp_path / "report.json")
    finally:
        server.should_exit = True
        await task
    results = {
        f"{case['ancestorTitles'][0]}: {case['title']}": case for case in report["testResults"][0]["assertionResults"]
    }
    assert results.keys() >= CASES
    failed = {name: results[name]["failureMessages"] for name in CASES if results[name]["status"] != "passed"}
    assert not failed
