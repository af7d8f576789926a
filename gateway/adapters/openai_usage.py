"""OpenAI's counters of one model call, under the two sets of names that its APIs have for them."""

from collections.abc import Mapping
from typing import Any

from gateway.context.usage import Usage

__all__ = ["openai_usage"]


def openai_usage(raw: Mapping[str, Any], *, sent: str, written: str, tool_calls: int) -> Usage:
    """Read the counters of a call.

    Args:
        raw: The ``usage`` object.
        sent: What the API calls the input: ``prompt_tokens`` or ``input_tokens``.
        written: What it calls the output: ``completion_tokens`` or ``output_tokens``.
        tool_calls: How many tools the response called.

    """
    input_tokens, output_tokens = int(raw.get(sent) or 0), int(raw.get(written) or 0)
    details = raw.get(f"{sent}_details") or {}
    return Usage(
        requests=1,
        tool_calls=tool_calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=int(raw.get("total_tokens") or input_tokens + output_tokens),
        cache_read_input_tokens=int(details.get("cached_tokens") or 0),
    )
