"""Ships the log lines of all runs to a collector that takes JSON over HTTP, such as Vector, Fluent Bit or Logstash.

    COLLECTOR_URL=http://127.0.0.1:8080 python examples/bots/ship_logs.py [TOPIC OR PATTERN ...]

Each line is a POST of {"timestamp", "level", "message", "logger", "fields", "topic", "run"}. What was shipped is noted
in the file POSITIONS (ship_logs.db): lines wait there while the collector or the bot is down, and LEVEL (info) is the
least that is shipped.
"""

import asyncio
import logging
import os
import sys
from datetime import UTC, datetime

import httpx

from gateway import Bot, BotEvent
from gateway.events import LogLine

LEVELS = ("debug", "info", "warning", "error")
COLLECTOR_URL = os.environ.get("COLLECTOR_URL") or sys.exit(__doc__)
LEAST = LEVELS.index(os.environ.get("LEVEL", "info"))
RETRY = 2.0

logger = logging.getLogger("ship_logs")
bot = Bot(topics=sys.argv[1:] or "*", since="start", positions=os.environ.get("POSITIONS", "ship_logs.db"))


@bot.on("log")
async def ship(event: BotEvent) -> None:
    line = event.typed
    if not isinstance(line, LogLine) or LEVELS.index(line.level) < LEAST:
        return
    shipped = {
        "timestamp": datetime.fromtimestamp((line.at or 0) / 1000, UTC).isoformat(),
        "level": line.level,
        "message": line.message,
        "logger": line.logger,
        "fields": line.fields,
        "topic": event.topic,
        "run": event.run,
    }
    async with httpx.AsyncClient() as http:
        while True:
            try:
                response = await http.post(COLLECTOR_URL, json=shipped)
                if response.is_success:
                    return
                why = f"HTTP status {response.status_code}"
            except httpx.TransportError as error:
                why = type(error).__name__
            logger.warning("the collector takes nothing (%s); trying on", why)
            await asyncio.sleep(RETRY)


logging.basicConfig(level=logging.INFO, format="%(message)s")
logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells addresses, which may be secret
bot.run()
