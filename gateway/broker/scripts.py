"""The Lua scripts, each in its own file, with the rules they share."""

import hashlib
from pathlib import Path

__all__ = ["ADVANCE", "APPEND", "ARCHIVE", "DELETE", "LEASE", "READ", "SCRIPTS", "TRIM", "Script"]


class Script:
    """One script as the server knows it.

    Args:
        name: Of its file, without ``.lua``.

    """

    def __init__(self, name: str) -> None:
        source = _text(name)
        self.name = name
        self.source: bytes = source.replace("--@state", _text("state"), 1).encode()
        self.sha: str = hashlib.sha1(self.source, usedforsecurity=False).hexdigest()


def _text(name: str) -> str:
    return Path(__file__).with_name(f"{name}.lua").read_text(encoding="utf-8")


ADVANCE = Script("advance")
APPEND = Script("append")
READ = Script("read")
TRIM = Script("trim")
LEASE = Script("lease")
ARCHIVE = Script("archive")
DELETE = Script("delete")
SCRIPTS = (ADVANCE, APPEND, READ, TRIM, LEASE, ARCHIVE, DELETE)
