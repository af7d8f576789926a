"""The browser library (static/gateway) on a real gateway: Node.js runs tests/js/e2e.test.mjs, the agent is here."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.worker import Worker
from tests.serving import serve

E2E = Path(__file__).parent / "js" / "e2e.test.mjs"
WORDS = ["Let ", "me ", "see", " … ", "🚀", "\u2028", '"quoted" ', "\n\n", "**end** "]
REPEATS = 20

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


async def answer(run: Run, _: Message) -> None:
    """Think, write, call a tool, write again: several hundred events, each sent by itself."""
    await run.set_context(title="End to end")
    await run.log_event("turn_start")
    for word in WORDS * REPEATS:
        await run.thinking(word)
    for word in WORDS * REPEATS:
        await run.delta(word)
    await run.tool_call_delta(index=0, id="t1", name="search")
    for piece in ('{"q', '": "', "cats", '"}'):
        await run.tool_call_delta(index=0, text=piece)
    text, call = "".join(WORDS * REPEATS), ToolCall(id="t1", name="search", arguments='{"q": "cats"}')
    await run.usage({"requests": 1, "input_tokens": 12, "output_tokens": 34, "total_tokens": 46})
    await run.add_message(Message.assistant(text, thinking=text, tool_calls=(call,)))
    await run.tool_call("t1", "search", '{"q": "cats"}')
    await run.progress(tool_call_id="t1", fraction=0.5)
    await run.log("info", "searching", fields={"q": "cats"})
    await run.tool_result("t1", "search", "nine cats", duration_ms=3)
    for word in WORDS * REPEATS:
        await run.delta(word)
        await asyncio.sleep(0)
    await run.add_message(Message.assistant("".join(WORDS * REPEATS)))
    await run.log_event("turn_end")


async def test_library_on_a_real_gateway(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix) as gateway,
        Publisher(redis_url, key_prefix=key_prefix, flush_interval=0) as publisher,
    ):
        worker = Worker(publisher, answer, name="e2e")
        working = asyncio.create_task(worker.serve())
        try:
            node = await asyncio.create_subprocess_exec(
                "node",
                "--experimental-websocket",  # Node.js 20 and 21 have none without it
                "--test",
                str(E2E),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "GATEWAY_URL": gateway.http, "GATEWAY_AGENT": "1"},
            )
            try:
                output, _ = await asyncio.wait_for(node.communicate(), 120)
            finally:
                if node.returncode is None:
                    node.kill()
        finally:
            worker.stop()
            await working
    assert node.returncode == 0, output.decode()
    assert b"skipped 0" in output, output.decode()
