"""Streams in: each adapter feeds the items of one provider's or agent framework's stream into a `Run`."""

from collections.abc import Mapping

from gateway.adapters.ag_ui import AgUi
from gateway.adapters.anthropic import AnthropicMessages
from gateway.adapters.gemini import Gemini
from gateway.adapters.langchain import LangChainEvents
from gateway.adapters.openai_agents import OpenAIAgents
from gateway.adapters.openai_chat import ChatCompletions
from gateway.adapters.openai_responses import Responses
from gateway.adapters.pydantic_ai import PydanticAI
from gateway.adapters.recognition import ADAPTERS
from gateway.adapters.response import Adapter, Sink

__all__ = [
    "ADAPTERS",
    "PROVIDERS",
    "Adapter",
    "AgUi",
    "AnthropicMessages",
    "ChatCompletions",
    "Gemini",
    "LangChainEvents",
    "OpenAIAgents",
    "PydanticAI",
    "Responses",
    "Sink",
]

PROVIDERS: Mapping[str, type[Adapter]] = {
    "ag-ui": AgUi,
    "anthropic": AnthropicMessages,
    "gemini": Gemini,
    "openai-chat": ChatCompletions,
    "openai-responses": Responses,
}
"""What `gateway replay --provider` takes."""
