"""A pydantic-ai agent on a topic, its approvals asked there: python examples/frameworks/pydantic_ai_agent.py [TOPIC].

It needs no network: the model is the framework's own TestModel. Put `Agent("openai:…")` in its place.
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from gateway import Message, Publisher
from gateway.adapters.pydantic_ai_approvals import approvals

agent = Agent(TestModel(custom_output_text="The weather was looked up."))


@agent.tool_plain
def weather(city: str) -> str:
    return f"sunny in {city}"


async def main(topic: str) -> None:
    async with Publisher() as publisher, publisher.run(topic, agent="pydantic-ai") as run:
        await run.add_message(Message.user("How is the weather?"))
        await run.consume(agent.run_stream_events("How is the weather?", capabilities=[approvals(run)]))


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "chat:pydantic-ai"))
