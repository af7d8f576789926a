"""What a serving gateway notes for the user's other commands."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from gateway.note import Note, find, noted, runtime_directory


@pytest.fixture(autouse=True)
def _own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the notes of these tests apart from the user's."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))


def note(url: str = "http://127.0.0.1:1", pid: int | None = None) -> Note:
    return Note(url=url, redis_url="redis://:secret@127.0.0.1:2/0", pid=os.getpid() if pid is None else pid)


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_noted_is_found_within_the_block_only() -> None:
    assert find() is None
    with noted(note()):
        assert find() == note()
    assert find() is None


def test_noted_is_for_the_user_alone() -> None:
    with noted(note()):
        (path,) = runtime_directory().iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert runtime_directory().stat().st_mode & 0o777 == 0o700


def test_noted_in_a_directory_that_others_can_write_is_refused() -> None:
    runtime_directory().mkdir(mode=0o777)
    runtime_directory().chmod(0o777)
    with pytest.raises(PermissionError), noted(note()):
        pass


def test_find_takes_the_one_that_started_last() -> None:
    with noted(note("http://127.0.0.1:1")):
        late = note("http://127.0.0.1:2", pid=1)
        path = runtime_directory() / "1.json"
        path.write_bytes(msgspec.json.encode(late))
        facts = path.stat()
        os.utime(path, (facts.st_atime, facts.st_mtime + 10))
        assert find() == late


def test_find_forgets_a_gateway_that_is_gone() -> None:
    with noted(note()):
        gone = runtime_directory() / "gone.json"
        gone.write_bytes(msgspec.json.encode(note("http://127.0.0.1:2", pid=dead_pid())))
        assert find() == note()
        assert not gone.exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b'{"url": 1, "redis_url": "", "pid": 1}'])
def test_find_passes_over_what_is_no_note(content: bytes) -> None:
    with noted(note()):
        (runtime_directory() / "x.json").write_bytes(content)
        assert find() == note()


def test_find_believes_no_directory_that_others_can_write() -> None:
    with noted(note()):
        runtime_directory().chmod(0o777)
        assert find() is None


def test_find_believes_no_link(tmp_path: Path) -> None:
    with noted(note()):
        elsewhere = tmp_path / "elsewhere"
        runtime_directory().rename(elsewhere)
        runtime_directory().symlink_to(elsewhere)
        assert find() is None
        runtime_directory().unlink()
        elsewhere.rename(runtime_directory())


def test_runtime_directory_without_the_variable_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_directory() == Path(tempfile.gettempdir()) / f"gateway-{os.getuid()}"
