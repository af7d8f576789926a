"""The real clients of the dialects, each reading one stream into what it is made of."""

import asyncio
import json
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from openai import AsyncOpenAI

from tests.serving import PATIENCE

__all__ = ["Node", "Read", "read_ag_ui", "read_ai_sdk", "read_openai"]

JS = Path(__file__).parent.parent / "js"


class Read(NamedTuple):
    """What a client has after the end."""

    texts: list[str]
    thinking: str
    calls: list[tuple[str, str, Any]]
    results: dict[str, Any]
    usage: dict[str, int]
    status: str


class Node:
    """A node process that reads with the npm clients, several streams at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["node", "dialects.mjs"], cwd=JS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answers: list[Future[Any]] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    async def ask(self, dialect: str, url: str) -> Any:
        assert self.process.stdin is not None
        future: Future[Any] = Future()
        self._answers.append(future)
        request = {"id": len(self._answers) - 1, "dialect": dialect, "url": url}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = await asyncio.wait_for(asyncio.wrap_future(future), PATIENCE)
        assert not (isinstance(answer, dict) and "crashed" in answer), answer
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self._reading.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            self._answers[answer["id"]].set_result(answer["result"])
        self.process.stdout.close()


async def read_ag_ui(node: Node, url: str) -> Read:
    answer = await node.ask("ag-ui", url)
    messages = answer["messages"]
    assistants = [message for message in messages if message["role"] == "assistant"]
    end = answer["end"]
    failed = end["type"] == "RUN_ERROR"
    assert answer["errors"] == [] or failed, answer
    (usage,) = end["usage"]
    return Read(
        texts=[message["content"] for message in assistants if message.get("content")],
        thinking="".join(message["content"] for message in messages if message["role"] == "reasoning"),
        calls=[
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"] or "{}"))
            for message in assistants
            for call in message.get("toolCalls") or ()
        ],
        results={message["toolCallId"]: message["content"] for message in messages if message["role"] == "tool"},
        usage={
            "input_tokens": usage["inputTokens"],
            "output_tokens": usage["outputTokens"],
            "total_tokens": usage["totalTokens"],
            "cache_creation_input_tokens": usage["cacheWriteInputTokens"],
            "cache_read_input_tokens": usage["cachedInputTokens"],
        },
        status=end["code"] if failed else {"success": "completed"}.get(end["outcome"]["type"], end["outcome"]["type"]),
    )


async def read_ai_sdk(node: Node, url: str) -> Read:
    answer = await node.ask("ai-sdk", url)
    message = answer["message"]
    parts = message["parts"]
    tools = [part for part in parts if part["type"] == "dynamic-tool"]
    assert all(part["state"] == "done" for part in parts if part["type"] in {"text", "reasoning"}), parts
    return Read(
        texts=[part["text"] for part in parts if part["type"] == "text"],
        thinking="".join(part["text"] for part in parts if part["type"] == "reasoning"),
        calls=[(part["toolCallId"], part["toolName"], part["input"]) for part in tools],
        results={
            part["toolCallId"]: part.get("output", part.get("errorText"))
            for part in tools
            if part["state"].startswith("output-")
        },
        usage=message["metadata"]["usage"],
        status=message["metadata"]["status"],
    )


async def read_openai(_node: Node, url: str) -> Read:
    """Read with the openai package: its parser, its types, its accumulation of a response."""
    finals: list[Any] = []
    texts: dict[str, str] = {}
    async with httpx2.AsyncClient(transport=_Elsewhere(url), timeout=PATIENCE) as http:
        client = AsyncOpenAI(api_key="none", base_url="http://gateway", http_client=http, max_retries=0)
        async with client.responses.stream(response_id="resp_any") as stream:
            numbers = []
            async for event in stream:
                numbers.append(event.sequence_number)
                if event.type in {"response.completed", "response.failed", "response.incomplete"}:
                    finals.append(event.response)
                elif event.type == "response.output_text.delta":
                    texts[event.item_id] = texts.get(event.item_id, "") + event.delta
    assert numbers == sorted(set(numbers))
    (final,) = finals
    items = final.output
    messages = [item for item in items if item.type == "message"]
    assert all(texts[item.id] == item.content[0].text for item in messages)
    usage = final.usage
    return Read(
        texts=[item.content[0].text for item in messages],
        thinking="".join(part.text for item in items if item.type == "reasoning" for part in item.summary),
        calls=[
            (item.call_id, item.name, json.loads(item.arguments or "{}"))
            for item in items
            if item.type == "function_call"
        ],
        results={item.call_id: item.output for item in items if item.type == "function_call_output"},
        usage={
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "cache_creation_input_tokens": usage.input_tokens_details.cache_write_tokens,
            "cache_read_input_tokens": usage.input_tokens_details.cached_tokens,
        },
        status=final.status,
    )


class _Elsewhere(httpx2.AsyncBaseTransport):
    """Sends the one request that the client makes to a stream's address."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._transport = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.params["stream"] == "true"
        return await self._transport.handle_async_request(httpx2.Request("GET", self._url))

    async def aclose(self) -> None:
        await self._transport.aclose()
