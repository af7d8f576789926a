"""A conversation goes on in another process, from what a gateway tells of it over HTTP."""

import asyncio
import json
import sys
from typing import Any

import httpx

from tests.e2e.processes import PATIENCE, Gateway, running_gateway

DYING = """
import asyncio, os, sys
from gateway import Message, Publisher, ToolCall

async def main():
    async with Publisher(lease=0.5) as publisher:
        async with publisher.run("t", agent="first") as run:
            for number in range(3):
                await run.add_message(Message.user(f"message {number}"))
            await run.change_context(lambda context: context.replace_message_range(0, 1, Message.system("summary")))
            await run.add_message(Message.user("x" * 70_000))
            await run.tool_call("done", "t", "{}")
            await run.tool_result("done", "t", "ok")
            calls = (ToolCall(id="c1", name="book", arguments="{}"), ToolCall(id="c2", name="book", arguments="{}"))
            await run.add_message(Message.assistant("I book both.", tool_calls=calls))
            await run.tool_call("c1", "book", "{}")
            await run.tool_result("c1", "book", "booked")
            await run.usage({"requests": 2, "output_tokens": 9})
            await run.flush()
            os._exit(9)

asyncio.run(main())
"""

GOING_ON = """
import asyncio, json, sys, urllib.request
from gateway import Context, Message, Publisher, TopicBusyError

def summary(context):
    return {
        "texts": [message.text[:40] for message in context.messages],
        "lengths": [len(message.text) for message in context.messages],
        "next": context.log.next_seq,
        "requests": context.usage.requests,
        "calls": [call["id"] for call in context.tool_calls],
    }

async def main():
    body = json.load(urllib.request.urlopen(sys.argv[1] + "/topics/t"))
    context = Context.deserialize(body["mirror"]["context"])
    patched = context.patch_dangling_tool_calls()
    async with Publisher() as publisher:
        while True:
            try:
                async with publisher.run("t", agent="second", context=context) as run:
                    begun = run.context
                    await run.add_message(Message.user("and on"))
                    await run.add_message(Message.assistant("gladly"))
                break
            except TopicBusyError:
                await asyncio.sleep(0.1)
    print(json.dumps({"told": summary(context), "patched": summary(patched), "begun": summary(begun)}))

asyncio.run(main())
"""


async def python(script: str, gateway: Gateway) -> tuple[int | None, bytes]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        gateway.url,
        stdout=asyncio.subprocess.PIPE,
        env={"GATEWAY_REDIS_URL": gateway.redis_url},
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    return process.returncode, out


async def test_second_process_goes_on_from_what_a_gateway_tells_of_a_dead_one() -> None:
    async with running_gateway() as gateway, httpx.AsyncClient(base_url=gateway.url) as client:
        assert (await python(DYING, gateway))[0] == 9
        code, out = await python(GOING_ON, gateway)
        assert code == 0
        seen: dict[str, Any] = json.loads(out)
        assert seen["told"]["texts"] == ["summary", "message 2", "x" * 40, "ok", "I book both.", "booked"]
        # A mirror has the beginning of a large value; the run that goes on has the whole.
        assert [seen[what]["lengths"][2] for what in ("told", "begun")] == [2000, 70_000]
        assert (seen["told"]["next"], seen["told"]["requests"], seen["told"]["calls"]) == (10, 2, ["done", "c1"])
        for what in ("patched", "begun"):
            assert seen[what]["texts"][:-1] == seen["told"]["texts"]
            assert "interrupted" in seen[what]["texts"][-1]
            assert (seen[what]["next"], seen[what]["calls"]) == (11, ["done", "c1"])
        mirror = (await gateway.topic("t"))["mirror"]
        contents = [event["data"]["content"] for event in mirror["context"]["events"] if "content" in event["data"]]
        assert contents[-2:] == ["and on", "gladly"]
        assert [run["status"] for run in mirror["runs"]] == ["lost", "completed"]
        # What the summary shadows is reachable by its seq.
        for seq in (0, 1):
            page = (await client.get("/topics/t/archive", params={"from": seq, "limit": 1})).json()
            (entry,) = page["events"]
            assert (entry["seq"], entry["data"]["content"]) == (seq, f"message {seq}")
