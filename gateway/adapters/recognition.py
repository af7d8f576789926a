"""Which adapter a stream needs, told by its items; nothing is imported that the stream has not brought itself."""

from collections.abc import Mapping

from gateway.adapters.ag_ui import EVENT_TYPES, AgUi
from gateway.adapters.anthropic import AnthropicMessages
from gateway.adapters.gemini import Gemini
from gateway.adapters.langchain import LangChainEvents
from gateway.adapters.openai_agents import OpenAIAgents
from gateway.adapters.openai_chat import ChatCompletions
from gateway.adapters.openai_responses import Responses
from gateway.adapters.pydantic_ai import PydanticAI
from gateway.adapters.response import Adapter

__all__ = ["ADAPTERS", "recognised"]

ADAPTERS: Mapping[str, type[Adapter]] = {
    "ag-ui": AgUi,
    "anthropic": AnthropicMessages,
    "gemini": Gemini,
    "langchain": LangChainEvents,
    "litellm": ChatCompletions,
    "openai-agents": OpenAIAgents,
    "openai-chat": ChatCompletions,
    "openai-responses": Responses,
    "pydantic-ai": PydanticAI,
}
"""All adapters by their names."""

_PACKAGES: Mapping[str, type[Adapter]] = {
    "ag_ui": AgUi,
    "agents": OpenAIAgents,
    "anthropic": AnthropicMessages,
    "google": Gemini,
    "pydantic_ai": PydanticAI,
}
"""The packages whose objects all go to one adapter."""

_ANTHROPIC = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "ping"}
)


def recognised(item: object) -> type[Adapter] | None:
    """Tell the adapter for a stream by one of its items; None where it is none that is known.

    Args:
        item: An object of an SDK or a framework, or a map as the provider sends it.

    """
    if isinstance(item, Mapping):
        return _by_fields(item)
    package = type(item).__module__.partition(".")[0]
    if package in {"litellm", "openai"}:
        return ChatCompletions if hasattr(item, "choices") else Responses
    return _PACKAGES.get(package)


def _by_fields(item: Mapping[str, object]) -> type[Adapter] | None:
    kind, event = item.get("type"), item.get("event")
    if isinstance(event, str) and event.startswith("on_") and "run_id" in item:
        return LangChainEvents
    if isinstance(kind, str):
        if kind.startswith("response."):
            return Responses
        if kind in _ANTHROPIC:
            return AnthropicMessages
        return AgUi if kind in EVENT_TYPES else None
    if "choices" in item:
        return ChatCompletions
    return Gemini if {"candidates", "usageMetadata", "promptFeedback"} & item.keys() else None
