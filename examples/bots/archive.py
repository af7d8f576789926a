"""Keeps the transcripts of all topics in a file, from their start, each event once.

    python examples/bots/archive.py FILE [TOPIC OR PATTERN ...]

A FILE that ends in .jsonl gets lines {"topic", "epoch", "offset", "data"}, any other is an SQLite database with a
table `events`; the bot notes beside it, in FILE.positions, how far it got.
"""

import json
import logging
import sqlite3
import sys
from pathlib import Path

from gateway import Bot, BotEvent

if len(sys.argv) < 2:
    sys.exit(__doc__)
FILE = Path(sys.argv[1])
MESSAGES = ("system_message", "user_message", "assistant_message", "tool_call", "tool_result", "custom_message")
ENDS = ("agent_complete", "agent_error", "agent_cancelled", "agent_lost")

bot = Bot(topics=sys.argv[2:] or "*", since="start", positions=f"{FILE}.positions")


class Lines:
    """A file of JSON lines that only grows."""

    def __init__(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        whole = whole[: whole.rfind(b"\n") + 1]  # a killed bot may have left half a line
        lines = map(json.loads, whole.splitlines())
        self.last = {(line["topic"], line["epoch"]): line["offset"] for line in lines}
        self.file = path.open("r+b" if path.exists() else "w+b")
        self.file.seek(len(whole))
        self.file.truncate()

    def add(self, event: BotEvent) -> None:
        place = event.topic, event.position.epoch
        # What a killed bot wrote and did not note is heard again.
        if event.position.offset <= self.last.get(place, 0):
            return
        self.last[place] = event.position.offset
        line = {"topic": event.topic, "epoch": place[1], "offset": event.position.offset, "data": event.data}
        self.file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self.file.flush()


class Table:
    """A table of events in an SQLite database."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute(
            'CREATE TABLE IF NOT EXISTS events (topic, epoch, "offset", type, run, at, data, '
            'PRIMARY KEY (topic, epoch, "offset"))'
        )

    def add(self, event: BotEvent) -> None:
        position, data = event.position, json.dumps(event.data, ensure_ascii=False)
        row = (event.topic, position.epoch, position.offset, event.type, event.run, event.data.get("at"), data)
        self.database.execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)


archive = Lines(FILE) if FILE.suffix == ".jsonl" else Table(FILE)


@bot.on(*MESSAGES, *ENDS, "snapshot")
async def keep(event: BotEvent) -> None:
    archive.add(event)


logging.basicConfig(level=logging.INFO, format="%(message)s")
bot.run()
