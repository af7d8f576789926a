"""Provider streams in: each adapter feeds one provider's stream events into a `Run`."""

from collections.abc import Mapping

from gateway.adapters.anthropic import AnthropicMessages
from gateway.adapters.openai_chat import ChatCompletions
from gateway.adapters.openai_responses import Responses
from gateway.adapters.response import Adapter, Sink

__all__ = ["PROVIDERS", "Adapter", "AnthropicMessages", "ChatCompletions", "Responses", "Sink"]

PROVIDERS: Mapping[str, type[Adapter]] = {
    "anthropic": AnthropicMessages,
    "openai-chat": ChatCompletions,
    "openai-responses": Responses,
}
"""What `gateway replay --provider` takes."""
