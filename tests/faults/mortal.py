"""An agent in a process of its own, which tells what of its run is stored until it is killed.

python -m tests.faults.mortal REDIS_URL KEY_PREFIX TOPIC
"""

import asyncio
import itertools
import sys

from gateway.context.messages import Message
from gateway.publisher import Publisher

LEASE = 1.0


async def main(url: str, prefix: str, topic: str) -> None:
    async with (
        Publisher(url, key_prefix=prefix, lease=LEASE, flush_interval=0) as publisher,
        publisher.run(topic, agent="mortal") as run,
    ):
        for number in itertools.count():
            text = f"message {number} 🚀"
            for word in text.split():
                await run.delta(f"{word} ")
            await run.add_message(Message.assistant(text))
            await run.flush()
            print(text, flush=True)  # noqa: T201 - whoever kills it has to know


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
