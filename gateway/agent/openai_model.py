"""A real model behind OpenAI's chat completions API, at OpenAI or wherever else speaks it."""

from collections.abc import Mapping, Sequence
from typing import Any

from openai import APIConnectionError, AsyncOpenAI, omit

from gateway.adapters.openai_chat import ChatCompletions
from gateway.agent.sent_arguments import sent_arguments
from gateway.agent.streaming import respond_streamed
from gateway.context.content import ContentPart
from gateway.context.context import Context
from gateway.context.messages import Message
from gateway.context.tools import Tool
from gateway.run import Run

__all__ = ["OpenAIModel", "request_messages", "request_tools"]


class OpenAIModel:
    """Drives a model through the official SDK.

    Args:
        name: The model's name there.
        base_url: Where the API is; None is ``OPENAI_BASE_URL``, or OpenAI's own.
        api_key: None is ``OPENAI_API_KEY``.

    """

    def __init__(self, name: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self.name = name
        self._client = AsyncOpenAI(base_url=base_url, api_key=api_key)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        """Continue the conversation by one message; see `Model.respond`."""
        return await respond_streamed(run, lambda: self._stream(run, tools), broken_off=(APIConnectionError,))

    async def _stream(self, run: Run, tools: Sequence[Tool]) -> None:
        adapter = ChatCompletions(run)
        messages: Any = request_messages(run.context)  # the SDK's TypedDicts, made as plain maps
        offered: Any = request_tools(tools) or omit
        stream = await self._client.chat.completions.create(
            model=self.name, messages=messages, tools=offered, stream=True, stream_options={"include_usage": True}
        )
        async with stream:
            async for chunk in stream:
                await adapter.feed(chunk.model_dump(exclude_unset=True))
        await adapter.finish()


def request_messages(context: Context) -> list[dict[str, Any]]:
    """Write a conversation in the form of chat completions.

    Args:
        context: The conversation; its system prompt goes first.

    """
    messages: list[dict[str, Any]] = []
    if context.system_prompt is not None:
        messages.append({"role": "system", "content": context.system_prompt})
    messages.extend(_message(message) for message in context.messages)
    return messages


def request_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Describe tools in the form of chat completions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]


def _message(message: Message) -> dict[str, Any]:
    match message.role:
        case "assistant":
            request: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": sent_arguments(call)}}
                for call in message.tool_calls or ()
            ]
            if calls:
                request["tool_calls"] = calls
            elif request["content"] is None:
                request["content"] = ""
            return request
        case "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
        case "system" | "developer":
            return {"role": message.role, "content": message.text}
        case _:
            return {"role": "user", "content": _content(message)}


def _content(message: Message) -> str | list[Mapping[str, Any]]:
    if not isinstance(message.content, tuple):
        return message.text
    return [_part(part) for part in message.content]


def _part(part: ContentPart) -> Mapping[str, Any]:
    if part.type == "image_url" and part.url:
        return {"type": "image_url", "image_url": {"url": part.url}}
    if part.type == "image" and isinstance(part.data, str):
        return {"type": "image_url", "image_url": {"url": f"data:{part.media_type or 'image/png'};base64,{part.data}"}}
    return {"type": "text", "text": part.text or f"[{part.type}]"}
