"""Tells a webhook about runs that failed or were lost, and about approvals that nobody decides.

    WEBHOOK_URL=https://example.org/hook python examples/bots/alert.py [TOPIC OR PATTERN ...]

Each alert is a POST of {"text", "topic", "run"}. An approval is slow after SLOW_AFTER seconds (60). What was handled
is noted in the file POSITIONS (alert.db): a restarted bot tells what happened meanwhile, and nothing is lost while the
webhook is down.
"""

import asyncio
import logging
import os
import sys
import time

import httpx

from gateway import Bot, BotEvent

WEBHOOK_URL = os.environ.get("WEBHOOK_URL") or sys.exit(__doc__)
SLOW_AFTER = float(os.environ.get("SLOW_AFTER", "60"))
RETRY = 2.0

logger = logging.getLogger("alert")
bot = Bot(topics=sys.argv[1:] or "*", positions=os.environ.get("POSITIONS", "alert.db"), mirror=True)
waiting: dict[tuple[str, str, str], dict | None] = {}
"""The approvals that wait, by topic, run and tool call; None where that was told."""


@bot.on("agent_error", "agent_lost")
async def failed(event: BotEvent) -> None:
    word = "failed" if event.type == "agent_error" else "was lost"
    why = event.data.get("error") or event.data.get("reason")
    await tell(f"A run {word}: {why}", topic=event.topic, run=event.run)


@bot.on(
    "snapshot",
    "approval_required",
    "approval_decided",
    "agent_complete",
    "agent_error",
    "agent_cancelled",
    "agent_lost",
)
async def note(event: BotEvent) -> None:
    for approval in event.mirror.approvals:
        key = (event.topic, approval["run"], approval["tool_call_id"])
        if approval["decision"] is None:
            waiting.setdefault(key, approval)
        else:
            waiting.pop(key, None)


@bot.every(0.5)
async def remind() -> None:
    for key, approval in list(waiting.items()):
        if approval and time.time() - approval["requested_at"] / 1000 >= SLOW_AFTER:
            await tell(f"{approval['name']} waits for an approval", topic=key[0], run=key[1])
            if key in waiting:
                waiting[key] = None


async def tell(text: str, *, topic: str, run: str | None) -> None:
    async with httpx.AsyncClient() as http:
        while True:
            try:
                response = await http.post(WEBHOOK_URL, json={"text": text, "topic": topic, "run": run})
                if response.is_success:
                    return
                why = f"HTTP status {response.status_code}"
            except httpx.TransportError as error:
                why = type(error).__name__
            logger.warning("the webhook does not take an alert (%s); trying on", why)
            await asyncio.sleep(RETRY)


logging.basicConfig(level=logging.INFO, format="%(message)s")
logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells addresses, which may be secret
bot.run()
