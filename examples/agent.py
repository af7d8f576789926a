"""An agent that streams an answer to a topic: python examples/agent.py [TOPIC]."""

import asyncio
import sys

from gateway import Message, Publisher


async def main(topic: str) -> None:
    async with Publisher() as publisher, publisher.run(topic, agent="greeter") as run:
        answer = "Hello from **Python**: each word is an event, and every reader has them all."
        for word in answer.split(" "):
            await run.delta(word + " ")
            await asyncio.sleep(0.1)
        await run.add_message(Message.assistant(answer))


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "chat:hello"))
