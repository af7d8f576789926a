"""Where a bot stands on each topic, kept in a file across its restarts."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from gateway.errors import PositionsError
from gateway.types import Position, Topic, new_id

__all__ = ["MAX_TOPICS", "Positions"]

MAX_TOPICS = 100_000
"""Topics of which the position is kept; those that were written longest ago are forgotten first."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS bot (id TEXT NOT NULL, begun INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    topic TEXT PRIMARY KEY, epoch TEXT NOT NULL, "offset" INTEGER NOT NULL, written INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_written ON positions (written);
"""


class Positions:
    """Positions in an SQLite database, which one bot holds at a time; a context manager, which saves at its end.

    Args:
        path: The file, made when missing; None keeps them in memory only.

    Raises:
        PositionsError: On entering: the file is none of these, cannot be written, or another bot has it open.
            Later: it cannot be written any more.

    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.bot = ""
        """A name of the bot that stays the same for as long as its file."""
        self._path = ":memory:" if path is None else os.fspath(path)
        self._unsaved: dict[Topic, Position] = {}
        self._written = 0
        """How many positions were ever written: the order of their writing."""
        self._database: sqlite3.Connection

    def __enter__(self) -> Self:
        with self._explained():
            # Whoever is second must not wait: two bots would overwrite each other's positions.
            self._database = sqlite3.connect(self._path, timeout=0, isolation_level=None)
        try:
            with self._explained():
                # The lock of the first transaction is kept to the end.
                self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._database.execute("PRAGMA journal_mode=WAL")
                self._database.execute("PRAGMA synchronous=NORMAL")
                self._database.executescript(_SCHEMA)
                self._database.execute("INSERT INTO bot SELECT ?, 0 WHERE NOT EXISTS (SELECT * FROM bot)", (new_id(),))
                (self.bot,) = self._database.execute("SELECT id FROM bot").fetchone()
                self._written = self._database.execute("SELECT coalesce(max(written), 0) FROM positions").fetchone()[0]
        except BaseException:
            self._database.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.save()
        finally:
            self._database.close()

    def __getitem__(self, topic: Topic) -> Position | None:
        """Give where the bot stands on a topic; None where it never was there."""
        if topic in self._unsaved:
            return self._unsaved[topic]
        with self._explained():
            row = self._database.execute('SELECT epoch, "offset" FROM positions WHERE topic = ?', (topic,)).fetchone()
        return None if row is None else Position(epoch=row[0], offset=row[1])

    def __setitem__(self, topic: Topic, position: Position) -> None:
        """Note where the bot stands now; `save` writes it."""
        self._unsaved[topic] = position

    @property
    def begun(self) -> bool:
        """Whether a bot has begun on this file: what it finds without a position is new to it."""
        with self._explained():
            return bool(self._database.execute("SELECT begun FROM bot").fetchone()[0])

    def begin(self) -> None:
        """Save, and note that the bot has begun."""
        self.save()
        with self._explained():
            self._database.execute("UPDATE bot SET begun = 1")

    def save(self) -> None:
        """Write what was noted since the last time, all of it or nothing."""
        if not self._unsaved:
            return
        rows = []
        for written, (topic, position) in enumerate(self._unsaved.items(), start=self._written + 1):
            rows.append((topic, position.epoch, position.offset, written))
        with self._explained(), self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)", rows)
            (kept,) = self._database.execute("SELECT count(*) FROM positions").fetchone()
            if kept > MAX_TOPICS:
                oldest = "SELECT topic FROM positions ORDER BY written LIMIT ?"
                self._database.execute(f"DELETE FROM positions WHERE topic IN ({oldest})", (kept - MAX_TOPICS,))  # noqa: S608 - both are ours
        self._written += len(rows)
        self._unsaved.clear()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        # Commits, or rolls back after an error.
        with self._database:
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            locked = getattr(error, "sqlite_errorname", "") in {"SQLITE_BUSY", "SQLITE_LOCKED"}
            raise PositionsError(path=self._path, reason="another bot has it open" if locked else str(error)) from error
