"""Processes of a test that fails end with it; checked on a test session of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent

SESSION = """
import json
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.e2e.processes import Process
from tests.servers import free_port
from tests.servers import RedisServer

NOTES = Path(__file__).with_name("notes.json")


@pytest.fixture(scope="module")
def module_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("module"))
    server.start()
    return server


async def test_fails(module_server, tmp_path):
    server = RedisServer(tmp_path)
    server.start()
    process = await Process.start("serve", "--port", "0", "--workers", "2", "--data-dir", str(tmp_path / "data"))
    assert await process.line()
    own = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    assert len(own) >= 4
    NOTES.write_text(json.dumps([one.pid for one in own] + [server._process.pid, module_server._process.pid]))
    raise AssertionError("on purpose")


def test_finds_the_ones_of_the_module_only(module_server):
    *gone, kept = json.loads(NOTES.read_text())
    assert not [pid for pid in gone if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    assert psutil.Process(kept).status() != "zombie"
"""


def test_processes_of_a_failing_test_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import _nothing_left, _nothing_left_by_the_session\n")
    (tmp_path / "test_session.py").write_text(SESSION)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "on purpose" in done.stdout, done.stdout + done.stderr
    assert "test_session.py F." in done.stdout, done.stdout
    for pid in json.loads((tmp_path / "notes.json").read_text()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
