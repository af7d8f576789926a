"""The broker's contract on other servers than the shipped one: what `make servers` has put into .servers.

`make test-scale` runs all tests of the broker on each of them; here it is what touches the stored format.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = ("append", "advance", "lease", "read", "trim", "rights")
SERVERS = sorted((ROOT / ".servers").glob("*/redis-server"))


@pytest.mark.skipif(not SERVERS, reason="no other servers are here: `make servers` gets them")
async def test_contract_on_other_servers() -> None:
    tests = [f"tests/broker/test_{name}.py" for name in CONTRACT]

    async def passes(server: Path) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests),
            cwd=ROOT,
            env={**os.environ, "GATEWAY_TEST_SERVER": str(server)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate()
        assert process.returncode == 0, f"{server.parent.name}: {told.decode()}"

    await asyncio.gather(*(passes(server) for server in SERVERS))
