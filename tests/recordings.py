"""An independent reading of the recorded provider streams: what a run made of one must contain.

It shares nothing with `gateway.adapters`: the Responses reading takes the final response object, which the
adapter does not look at; the others join the pieces block by block after the fact.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("GATEWAY_STREAMS", ROOT.parent / "shared" / "streams"))
PROVIDERS = ("anthropic", "openai-chat", "openai-responses")


class Turn(NamedTuple):
    """What one provider response amounts to; a call's arguments are parsed."""

    text: str
    thinking: str
    calls: list[tuple[str, str, Any]]
    usage: dict[str, int]


def recordings() -> list[Any]:
    """List the recorded files as parameters (provider, path); one skipped parameter where there are none."""
    found = [(provider, path) for provider in PROVIDERS for path in sorted((FOLDER / provider).glob("*.jsonl"))]
    if not found:
        reason = f"no recorded provider streams under {FOLDER} (set GATEWAY_STREAMS)"
        return [pytest.param("", Path(), marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(provider, path, id=f"{provider}/{path.stem}") for provider, path in found]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def read(provider: str, path: Path) -> list[Turn]:
    """Read a recording's responses in order; the failed and the discarded ones are left out."""
    readers = {"anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses}
    return readers[provider](lines(path))


def fails(path: Path) -> bool:
    """Tell whether the provider's error ends the recording."""
    return any(line.get("type") in {"error", "response.failed"} for line in lines(path))


def _anthropic(events: list[dict[str, Any]]) -> list[Turn]:
    messages: list[list[dict[str, Any]]] = []
    for event in events:
        if event["type"] == "message_start":
            if messages and messages[-1][-1]["type"] != "message_stop":
                messages.pop()
            messages.append([])
        if event["type"] != "ping":
            messages[-1].append(event)
    return [_anthropic_message(message) for message in messages]


def _anthropic_message(events: list[dict[str, Any]]) -> Turn:
    start = events[0]["message"]
    blocks = [dict(block) for block in start["content"]]
    blocks += [dict(event["content_block"]) for event in events if event["type"] == "content_block_start"]
    for event in events:
        if event["type"] != "content_block_delta":
            continue
        block, delta = blocks[event["index"]], event["delta"]
        for field in ("text", "thinking", "partial_json"):
            if field in delta:
                block[field] = block.get(field, "") + delta[field]
    usage = dict(start["usage"])
    for event in events:
        if event["type"] == "message_delta":
            usage |= event["usage"]
    created, cached = usage.get("cache_creation_input_tokens", 0), usage.get("cache_read_input_tokens", 0)
    sent = usage["input_tokens"] + created + cached
    return Turn(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        thinking="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        calls=[
            (block["id"], block["name"], json.loads(block.get("partial_json") or json.dumps(block["input"])))
            for block in blocks
            if block["type"] in {"tool_use", "server_tool_use", "mcp_tool_use"}
        ],
        usage={
            "input_tokens": sent,
            "output_tokens": usage["output_tokens"],
            "total_tokens": sent + usage["output_tokens"],
            "cache_creation_input_tokens": created,
            "cache_read_input_tokens": cached,
        },
    )


def _chat(chunks: list[dict[str, Any]]) -> list[Turn]:
    deltas = [chunk["choices"][0].get("delta", {}) for chunk in chunks if chunk.get("choices")]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls") or []]
    calls = []
    for index in sorted({piece["index"] for piece in pieces}):
        own = [piece for piece in pieces if piece["index"] == index]
        arguments = "".join(piece["function"].get("arguments", "") for piece in own)
        calls.append((own[0]["id"], own[0]["function"]["name"], json.loads(arguments or "{}")))
    usage = [chunk["usage"] for chunk in chunks if chunk.get("usage")][-1]
    return [
        Turn(
            text="".join(delta.get("content") or "" for delta in deltas),
            thinking="".join(delta.get("reasoning_content") or "" for delta in deltas),
            calls=calls,
            usage={
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
                "total_tokens": usage["total_tokens"],
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": usage.get("prompt_tokens_details", {}).get("cached_tokens", 0),
            },
        )
    ]


def _responses(events: list[dict[str, Any]]) -> list[Turn]:
    finals = [event["response"] for event in events if event["type"] == "response.completed"]
    return [_response(final) for final in finals]


def _response(final: dict[str, Any]) -> Turn:
    items, usage = final["output"], final["usage"]
    return Turn(
        text="".join(part["text"] for item in items if item["type"] == "message" for part in item["content"]),
        thinking="\n\n".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["summary"]),
        calls=[
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        ],
        usage={
            "input_tokens": usage["input_tokens"],
            "output_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage["input_tokens_details"]["cached_tokens"],
        },
    )
