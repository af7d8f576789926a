"""Stops runs that have cost more than they may.

    python examples/bots/budget.py DOLLARS [PRICES] [TOPIC OR PATTERN ...]

PRICES is a JSON file, {"<model, * for any characters>": {"input", "output"}} in dollars a million tokens; the first
model that fits counts. Tokens read from a provider's cache are counted as any other.
"""

import json
import logging
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from gateway import Bot, BotEvent

if len(sys.argv) < 2:
    sys.exit(__doc__)
DOLLARS = float(sys.argv[1])
PRICES = json.loads(Path(sys.argv[2]).read_text()) if len(sys.argv) > 2 else {"*": {"input": 3.0, "output": 15.0}}

logger = logging.getLogger("budget")
bot = Bot(topics=sys.argv[3:] or "*", mirror=True)


@bot.on("snapshot", "usage")
async def check(event: BotEvent) -> None:
    for run in event.mirror.runs:
        spent = cost(run)
        if run["status"] == "running" and spent > DOLLARS:
            await event.cancel(run=run["run"])
            logger.warning("run %s on %s is stopped: it has cost $%.6f", run["run"], event.topic, spent)


def cost(run: dict) -> float:
    price = next((PRICES[model] for model in PRICES if fnmatchcase(run["model"] or "", model)), None)
    if price is None:
        return 0.0
    usage = run["usage"]
    return (usage["input_tokens"] * price["input"] + usage["output_tokens"] * price["output"]) / 1_000_000


logging.basicConfig(level=logging.INFO, format="%(message)s")
bot.run()
