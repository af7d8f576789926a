"""A real model behind Anthropic's messages API."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
from anthropic import APIConnectionError, AsyncAnthropic, omit

from gateway.adapters.anthropic import AnthropicMessages
from gateway.agent.sent_arguments import sent_arguments
from gateway.agent.streaming import respond_streamed
from gateway.context.content import ContentPart
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.run import Run

__all__ = ["AnthropicModel", "request_messages", "request_system", "request_tools"]

_BROKEN_OFF = (APIConnectionError, httpx2.TransportError)
"""The SDK lets its HTTP library's errors through once the stream has begun."""

_OWN_REASONING = frozenset({"thinking", "redacted_thinking"})


class AnthropicModel:
    """Drives a model through the official SDK.

    Args:
        name: The model's name there.
        max_tokens: Tokens that one message may have.
        base_url: Where the API is; None is ``ANTHROPIC_BASE_URL``, or Anthropic's own.
        api_key: None is ``ANTHROPIC_API_KEY``.

    """

    def __init__(
        self, name: str, *, max_tokens: int = 8192, base_url: str | None = None, api_key: str | None = None
    ) -> None:
        self.name = name
        self._max_tokens = max_tokens
        self._client = AsyncAnthropic(base_url=base_url, api_key=api_key)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        """Continue the conversation by one message; see `Model.respond`."""
        return await respond_streamed(run, lambda: self._stream(run, tools), broken_off=_BROKEN_OFF)

    async def _stream(self, run: Run, tools: Sequence[Tool]) -> None:
        adapter = AnthropicMessages(run)
        # The SDK's TypedDicts, made as plain maps.
        messages: Any = request_messages(run.context)
        offered: Any = request_tools(tools) or omit
        stream = await self._client.messages.create(
            model=self.name,
            max_tokens=self._max_tokens,
            messages=messages,
            system=request_system(run.context) or omit,
            tools=offered,
            stream=True,
        )
        async with stream:
            async for event in stream:
                await adapter.feed(event.model_dump(mode="json", exclude_unset=True, warnings=False))
        await adapter.finish()


def request_system(context: Context) -> str:
    """Give the system prompt, and behind it the system messages, which have no place among the others."""
    prompts = [context.system_prompt] if context.system_prompt else []
    prompts += [message.text for message in context.messages if message.role in {"system", "developer"}]
    return "\n\n".join(prompts)


def request_messages(context: Context) -> list[dict[str, Any]]:
    """Write a conversation in the form of the messages API: turns of blocks, user and assistant in alternation.

    What the provider ran itself is left out: its results stand in the text that followed.

    Args:
        context: The conversation.

    """
    own = {
        call.id
        for message in context.messages
        for call in message.tool_calls or ()
        if message.role == "assistant" and call.extra.get("server")
    }
    turns: list[dict[str, Any]] = []
    for message in context.messages:
        if message.role in {"system", "developer"} or (message.role == "tool" and message.tool_call_id in own):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def request_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Describe tools in the form of the messages API."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters or {"type": "object", "properties": {}},
        }
        for tool in tools
    ]


def _blocks(message: Message) -> Iterable[Mapping[str, Any]]:
    match message.role:
        case "assistant":
            # Thinking is only believed with its signature, and has to come first.
            yield from (item for item in message.reasoning_details or () if _is_own(item))
            if message.text:
                yield {"type": "text", "text": message.text}
            yield from (_call(call) for call in message.tool_calls or () if not call.extra.get("server"))
        case "tool":
            yield {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": message.text,
                "is_error": bool(message.metadata.get("error")),
            }
        case _ if isinstance(message.content, tuple):
            yield from (_part(part) for part in message.content)
        case _:
            if message.text:
                yield {"type": "text", "text": message.text}


def _is_own(item: object) -> bool:
    if not isinstance(item, Mapping) or item.get("type") not in _OWN_REASONING:
        return False
    return item["type"] != "thinking" or bool(item.get("signature"))


def _call(call: ToolCall) -> Mapping[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": msgspec.json.decode(sent_arguments(call))}


def _part(part: ContentPart) -> Mapping[str, Any]:
    if part.type == "image_url" and part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    if part.type == "image" and isinstance(part.data, str):
        source = {"type": "base64", "media_type": part.media_type or "image/png", "data": part.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": part.text or f"[{part.type}]"}
