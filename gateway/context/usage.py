"""What a conversation has cost so far: seven counters that only add."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.context.jsonlike import brief

__all__ = ["Usage"]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of model requests and tokens.

    Attributes:
        requests: Model calls.
        tool_calls: Tool calls.
        input_tokens: All input, cached included.
        output_tokens: All output, reasoning included.
        total_tokens: As reported; added up on its own, never recomputed from input and output.
        cache_creation_input_tokens: Input written to the provider's cache.
        cache_read_input_tokens: Input read from it.

    """

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any]) -> "Usage":
        """Read counters; missing and null ones are 0, unknown keys are ignored.

        Raises:
            TypeError: A counter is no whole number.

        """
        return cls(**{name: _count(name, raw.get(name)) for name in cls.__struct_fields__})

    @classmethod
    def from_openai(cls, raw: object) -> "Usage":
        """Read the usage of one OpenAI response, chat or responses form, as a map or the SDK's object.

        Args:
            raw: The provider's ``usage``; None gives one request without tokens.

        Raises:
            TypeError: A counter is no whole number.

        """
        output_tokens = _count("output_tokens", _first(raw, "completion_tokens", "output_tokens"))
        input_tokens = _count("input_tokens", _first(raw, "prompt_tokens", "input_tokens"))
        details = _first(raw, "prompt_tokens_details", "input_tokens_details")
        total = _first(raw, "total_tokens")
        return cls(
            requests=1,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens if total is None else _count("total_tokens", total),
            cache_read_input_tokens=_count("cached_tokens", _first(details, "cached_tokens")),
        )

    def to_dict(self) -> dict[str, int]:
        """Give all seven counters."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def inc_requests(self, n: int = 1) -> "Usage":
        """Count model calls."""
        return msgspec.structs.replace(self, requests=self.requests + n)

    def inc_tool_calls(self, n: int = 1) -> "Usage":
        """Count tool calls."""
        return msgspec.structs.replace(self, tool_calls=self.tool_calls + n)

    def add_tokens(self, input: int = 0, output: int = 0) -> "Usage":
        """Count tokens; unlike ``+`` this moves the total along."""
        return msgspec.structs.replace(
            self,
            input_tokens=self.input_tokens + input,
            output_tokens=self.output_tokens + output,
            total_tokens=self.total_tokens + input + output,
        )


def _count(name: str, value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected a whole number for {name}, got {brief(value)}")
    return int(value)


def _first(raw: object, *names: str) -> Any:
    """Look up the first name that has a value, as key or as attribute."""
    for name in names:
        value = raw.get(name) if isinstance(raw, Mapping) else getattr(raw, name, None)
        if value is not None:
            return value
    return None
