"""What a serving gateway notes for the commands of the same user on the same machine: its address and its store's."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

__all__ = ["Note", "find", "noted", "runtime_directory"]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway and its Redis are.

    Attributes:
        url: The gateway's address.
        redis_url: Its Redis; a secret of this user.
        pid: The process that serves.

    """

    url: str
    redis_url: str
    pid: int


_DECODER = msgspec.json.Decoder(Note)


def runtime_directory() -> Path:
    """Give the directory of this user's notes: in ``XDG_RUNTIME_DIR``, else in the directory for temporary files."""
    own = os.environ.get("XDG_RUNTIME_DIR")
    if own and os.access(own, os.W_OK | os.X_OK):
        return Path(own) / "gateway"
    return Path(tempfile.gettempdir()) / f"gateway-{os.getuid()}"


@contextlib.contextmanager
def noted(note: Note) -> Iterator[None]:
    """Keep a note for the length of the block, and not longer than this process lives.

    Raises:
        OSError: It cannot be written.

    """
    directory = runtime_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(directory):
        raise PermissionError(f"{directory} belongs to another user or is open to others")
    path = directory / f"{note.pid}.json"
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        # What holds the lock lives: a process id may be another's by now, or a zombie's.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(msgspec.json.encode(note))
        file.flush()
        fresh.replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def find() -> list[Note]:
    """Give the notes of the gateways that run, the one that started last first."""
    directory = runtime_directory()
    # In a directory that all share, somebody else could have put a note that leads to a server of theirs.
    if not _is_private(directory):
        return []
    found: list[tuple[float, Note]] = []
    for path in directory.glob("*.json"):
        with contextlib.suppress(OSError, msgspec.MsgspecError), path.open("rb") as file:
            if _is_held(file):
                found.append((os.fstat(file.fileno()).st_mtime, _DECODER.decode(file.read())))
            else:
                path.unlink(missing_ok=True)
    return [note for _, note in sorted(found, key=lambda one: one[0], reverse=True)]


def _is_private(directory: Path) -> bool:
    try:
        facts = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077


def _is_held(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
