"""What a serving gateway notes for the user's other commands."""

import fcntl
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


def test_noted_is_found_within_the_block_only() -> None:
    assert find() == []
    with noted(note()):
        assert find() == [note()]
    assert find() == []


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


def test_find_gives_the_one_that_started_last_first() -> None:
    late = note("http://127.0.0.1:2", pid=1)
    with noted(note("http://127.0.0.1:1")), noted(late):
        path = runtime_directory() / "1.json"
        facts = path.stat()
        for difference, place in ((10, 0), (-10, 1)):
            os.utime(path, (facts.st_atime, facts.st_mtime + difference))
            assert len(find()) == 2
            assert find()[place] == late


def test_find_forgets_a_gateway_that_is_gone() -> None:
    code = (
        "import os, signal; from gateway.note import Note, noted\n"
        "with noted(Note(url='http://127.0.0.1:2', redis_url='', pid=os.getpid())):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    with noted(note()), subprocess.Popen([sys.executable, "-c", code]) as process:
        # Not yet waited for: a zombie, whose process id is still taken.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        gone = runtime_directory() / f"{process.pid}.json"
        assert gone.exists()
        assert find() == [note()]
        assert not gone.exists()


def test_find_forgets_a_note_whose_process_id_is_anothers() -> None:
    with noted(note()):
        (runtime_directory() / "1.json").write_bytes(msgspec.json.encode(note(pid=1)))
        assert find() == [note()]


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b'{"url": 1, "redis_url": "", "pid": 1}'])
def test_find_passes_over_what_is_no_note(content: bytes) -> None:
    with noted(note()), (runtime_directory() / "x.json").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(content)
        file.flush()
        assert find() == [note()]


def test_find_believes_no_directory_that_others_can_write() -> None:
    with noted(note()):
        runtime_directory().chmod(0o777)
        assert find() == []


def test_find_believes_no_link(tmp_path: Path) -> None:
    with noted(note()):
        elsewhere = tmp_path / "elsewhere"
        runtime_directory().rename(elsewhere)
        runtime_directory().symlink_to(elsewhere)
        assert find() == []
        runtime_directory().unlink()
        elsewhere.rename(runtime_directory())


def test_runtime_directory_without_the_variable_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_directory() == Path(tempfile.gettempdir()) / f"gateway-{os.getuid()}"
