"""A server that clients know by its port, a second one that can take its place, and what befalls them."""

import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import hiredis

from gateway.broker.server import Argument, packed
from tests.servers import RedisServer, free_port

__all__ = ["Pair", "Plain"]

_OPTIONS = {"repl-diskless-sync-delay": "0", "appendonly": "no"}
_PATIENCE = 20.0


class Plain:
    """A blocking connection without any rules, to look into a server and to break things."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def call(self, *command: Argument) -> Any:
        self.send(*command)
        return self.answer()

    def many(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        self._socket.sendall(b"".join(packed(*command) for command in commands))
        return [self.answer() for _ in commands]

    def send(self, *command: Argument) -> None:
        self._socket.sendall(packed(*command))

    def answer(self) -> Any:
        while (answer := self._reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server has closed the connection")
            self._reader.feed(data)
        if isinstance(answer, hiredis.ReplyError):
            raise answer
        return answer

    def close(self) -> None:
        self._socket.close()


class Pair:
    """The servers of one world after another.

    They save nothing by themselves, so that a kill goes back to the last `save`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._main = RedisServer(directory / "a", _OPTIONS)
        self._other = RedisServer(directory / "b", _OPTIONS)
        self._backup = directory / "backup.rdb"
        self._other_runs = False
        self._plain: Plain | None = None
        self.port = self._main.port
        self.follows = False
        """Whether the second server copies the first one right now."""
        self.cut_off = False
        """Whether it was cut off, and has what the first one had then."""
        self.backed_up = False
        self._misled = False
        """Whether clients are left on a server that has become the copy."""

    def __enter__(self) -> Self:
        self._main.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget()
        self._main.kill()
        self._other.kill()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def plain(self) -> Plain:
        if self._plain is None:
            self._plain = Plain(self.port)
        return self._plain

    def reset(self) -> None:
        """Begin another world: one empty server."""
        self._stop_other()
        self._main.kill()
        self._forget()
        for server in (self._main, self._other):
            (server.directory / "dump.rdb").unlink(missing_ok=True)
        self.backed_up = False
        self._main.start()

    def save(self) -> None:
        # The fork that fills a copy may still be there.
        while b"rdb_bgsave_in_progress:1" in self.plain.call("INFO", "persistence"):
            time.sleep(0.001)
        self.plain.call("SAVE")

    def back_up(self) -> None:
        self.save()
        shutil.copyfile(self._main.directory / "dump.rdb", self._backup)
        self.backed_up = True

    def kill(self) -> None:
        """Kill -9, and start with what was saved last."""
        self._stop_other()
        self._main.kill()
        self._forget()
        self._main.start()

    def restart(self) -> None:
        """Restart without losing anything."""
        self.save()
        self.kill()

    def copy_back(self) -> None:
        """Start with the data directory as it was backed up."""
        self._stop_other()
        self._main.kill()
        self._forget()
        shutil.copyfile(self._backup, self._main.directory / "dump.rdb")
        self._main.start()

    def follow(self) -> None:
        """Let the second server copy the first one."""
        if not self._other_runs:
            (self._other.directory / "dump.rdb").unlink(missing_ok=True)
            self._other.start()
            self._other_runs = True
        self._replicate(self._other, self._main)
        self.follows, self.cut_off = True, False

    def cut(self) -> None:
        """Promote the second server, while all clients go on with the first one."""
        self._caught_up(self._other, self._main)
        other = Plain(self._other.port)
        # Who is left there from an earlier fail-over must not write to one server, and the rest to the other.
        other.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        other.call("REPLICAOF", "NO", "ONE")
        other.close()
        self.follows, self.cut_off, self._misled = False, True, False

    def fail_over(self, *, hang_up: bool) -> None:
        """Let the promoted server take over the port, and the first one copy it.

        Args:
            hang_up: The clients' connections to the first one end; else it says that it is a replica.

        """
        old, new = self._main, self._other
        one, two = Plain(old.port), Plain(new.port)
        old.port = free_port()
        one.call("CONFIG", "SET", "port", old.port)
        two.call("CONFIG", "SET", "port", self.port)
        new.port = self.port
        self._forget()
        if hang_up:
            one.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        one.close()
        two.close()
        self._main, self._other = new, old
        self._replicate(old, new)
        self.follows, self.cut_off = True, False
        self._misled = not hang_up

    def catch_up(self) -> None:
        """Let the copy have all, before clients that were left on it look into it."""
        if self.follows and self._misled:
            self._caught_up(self._other, self._main)

    def _replicate(self, copy: RedisServer, of: RedisServer) -> None:
        connection = Plain(copy.port)
        connection.call("REPLICAOF", "127.0.0.1", of.port)
        connection.close()
        self._caught_up(copy, of)

    def _caught_up(self, copy: RedisServer, of: RedisServer) -> None:
        connection, source = Plain(copy.port), Plain(of.port)
        deadline = time.monotonic() + _PATIENCE
        while True:
            facts = _replication(connection)
            if facts.get("master_link_status") == "up":
                offset = _replication(source)["master_repl_offset"]
                if int(_replication(connection)["slave_repl_offset"]) >= int(offset):
                    break
            assert time.monotonic() < deadline, facts
            time.sleep(0.001)
        connection.close()
        source.close()

    def _stop_other(self) -> None:
        self._other.kill()
        self._other_runs = self.follows = self.cut_off = self._misled = False

    def _forget(self) -> None:
        if self._plain is not None:
            self._plain.close()
            self._plain = None


def _replication(connection: Plain) -> dict[str, str]:
    lines = connection.call("INFO", "replication").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
