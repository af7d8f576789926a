"""A bot's positions in their file."""

import sqlite3
from pathlib import Path

import pytest

from gateway import positions as module
from gateway.errors import PositionsError
from gateway.positions import Positions
from gateway.types import START, Position, Topic

T, U = Topic("t"), Topic("u")


def at(offset: int) -> Position:
    return Position(epoch="aB3dE6gH", offset=offset)


def test_position_is_there_after_a_restart(tmp_path: Path) -> None:
    with Positions(tmp_path / "bot.db") as positions:
        assert positions[T] is None
        positions[T] = at(1)
        positions[T] = at(2)
        assert positions[T] == at(2)
        positions[U] = START
        bot = positions.bot
    with Positions(tmp_path / "bot.db") as positions:
        assert (positions[T], positions[U], positions.bot) == (at(2), START, bot)


def test_what_was_saved_outlives_the_process(tmp_path: Path) -> None:
    with Positions(tmp_path / "bot.db") as positions:
        positions[T] = at(1)
        positions.save()
        positions[T] = at(2)
        # As a killed process leaves them.
        for file in list(tmp_path.iterdir()):
            (tmp_path / file.name.replace("bot", "copy")).write_bytes(file.read_bytes())
    with Positions(tmp_path / "copy.db") as positions:
        assert positions[T] == at(1)


def test_begun_is_remembered_with_what_was_noted_before(tmp_path: Path) -> None:
    with Positions(tmp_path / "bot.db") as positions:
        assert not positions.begun
        positions[T] = at(3)
        positions.begin()
        assert positions.begun
    with Positions(tmp_path / "bot.db") as positions:
        assert positions.begun
        assert positions[T] == at(3)


def test_without_a_file_they_are_kept_in_memory() -> None:
    with Positions() as positions:
        positions[T] = at(1)
        positions.save()
        assert positions[T] == at(1)
        assert not positions.begun
    with Positions() as positions:
        assert positions[T] is None


def test_those_written_longest_ago_are_forgotten_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOPICS", 3)
    names = [Topic(f"t{number}") for number in range(4)]
    with Positions(tmp_path / "bot.db") as positions:
        for name in names[:3]:
            positions[name] = at(1)
            positions.save()
        positions[names[0]] = at(2)
        positions.save()
    with Positions(tmp_path / "bot.db") as positions:
        positions[names[3]] = at(1)
        positions.save()
        assert [positions[name] for name in names] == [at(2), None, at(1), at(1)]


def test_second_bot_on_a_file_is_refused_and_leaves_it_to_the_first(tmp_path: Path) -> None:
    with Positions(tmp_path / "bot.db") as positions:
        with pytest.raises(PositionsError, match=r"bot\.db: another bot has it open"):
            Positions(tmp_path / "bot.db").__enter__()
        positions[T] = at(1)
        positions.save()


def test_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "bot.db").write_text("not a database, but long enough to be looked at as one" * 10)
    with pytest.raises(PositionsError, match="not a database"):
        Positions(tmp_path / "bot.db").__enter__()
    with pytest.raises(PositionsError, match="unable to open"):
        Positions(tmp_path / "nowhere" / "bot.db").__enter__()


def test_database_that_cannot_be_written_any_more_is_told(tmp_path: Path) -> None:
    positions = Positions(tmp_path / "bot.db").__enter__()
    positions._database.execute("DROP TABLE positions")
    positions[T] = at(1)
    with pytest.raises(PositionsError, match="no such table"):
        positions.__exit__()
    with sqlite3.connect(tmp_path / "bot.db") as database:  # it was closed nevertheless
        database.execute("SELECT * FROM bot")
    database.close()
