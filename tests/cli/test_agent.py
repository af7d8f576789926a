"""`agent`, as a process of its own."""

import asyncio
import signal

from gateway.client import Client
from tests.e2e.processes import Process, running_gateway


async def test_agent_answers_what_people_send_until_it_is_told_to_end() -> None:
    async with running_gateway() as gateway, Client(gateway.url) as client:
        agent = await Process.start("agent", GATEWAY_REDIS_URL=gateway.redis_url)
        try:
            subscription = client.subscribe("t", since="start")
            await client.send("t", "What is 6 * 7?")
            async with asyncio.timeout(60):
                async for update in subscription:
                    if update.data.get("type") == "agent_complete":
                        break
            answers = [one["content"] for one in update.mirror.messages() if one["role"] == "assistant"]
            assert "42" in answers[-1]
            agent.kill(signal.SIGTERM)
            code, out, _ = await agent.end()
            assert (code, out) == (0, "")
        finally:
            await agent.stop()
