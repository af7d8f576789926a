"""Decides tool calls by rules; what no rule covers is left to people.

    python examples/bots/approve.py RULES [TOPIC OR PATTERN ...]

RULES is a JSON file, a list of {"tool", "arguments"?, "decision", "reason"?}: the first rule whose patterns (* for any
characters) fit the tool's name and each named argument decides. For example

    [{"tool": "send_postcard", "arguments": {"to": "my *"}, "decision": "approve"},
     {"tool": "delete_*", "decision": "reject", "reason": "Nothing is deleted here."}]
"""

import json
import logging
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from gateway import Bot, BotEvent

if len(sys.argv) < 2:
    sys.exit(__doc__)
RULES = json.loads(Path(sys.argv[1]).read_text())

logger = logging.getLogger("approve")
bot = Bot(topics=sys.argv[2:] or "*", mirror=True)


@bot.on("snapshot", "approval_required")
async def decide(event: BotEvent) -> None:
    for approval in event.mirror.approvals:
        rule = next((rule for rule in RULES if covers(rule, approval)), None)
        if approval["decision"] is not None or rule is None:
            continue
        answer = await event.decide(rule["decision"], reason=rule.get("reason"), approval=approval)
        logger.info("%s on %s: %s by %s", approval["name"], event.topic, answer["decision"], answer["by"])


def covers(rule: dict, approval: dict) -> bool:
    if not fnmatchcase(approval["name"], rule["tool"]):
        return False
    arguments = json.loads(approval["arguments"])
    wanted = rule.get("arguments", {})
    return all(name in arguments and fnmatchcase(str(arguments[name]), wanted[name]) for name in wanted)


logging.basicConfig(level=logging.INFO, format="%(message)s")
bot.run()
