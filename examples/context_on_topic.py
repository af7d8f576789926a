"""A conversation that lives on a topic, continued by a second run: python examples/context_on_topic.py [TOPIC]."""

import asyncio
import sys

from gateway import Message, Publisher


async def main(topic: str) -> None:
    async with Publisher() as publisher:
        async with publisher.run(topic, agent="first") as run:
            await run.add_message(Message.user("Remember the number 7."))
            await run.add_message(Message.assistant("I will."))
        # Another process, another machine: the topic has the conversation.
        async with publisher.run(topic, agent="second") as run:
            print("the second run begins with:", [message.text for message in run.context.messages])
            await run.add_message(Message.user("Which number?"))
            await run.add_message(Message.assistant("7."))
        context = await publisher.context(topic)
        print("the topic now has", len(context), "messages")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "chat:numbers"))
