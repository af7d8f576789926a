"""The seven usage counters of a model call, a run and a context (PROTOCOL.md 4.1)."""

from collections.abc import Mapping
from typing import Any

from gateway.fields import index

__all__ = ["COUNTERS", "MAX_COUNT", "Counters", "no_usage", "plus", "read_usage"]

Counters = dict[str, int]
"""All seven; never changed in place, so that snapshots can share them."""

COUNTERS = (
    "requests",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)

MAX_COUNT = 2**40 - 1
"""The largest count of one call; thousands of them still add up exactly in a browser."""


def no_usage() -> Counters:
    """Give seven zeros."""
    return dict.fromkeys(COUNTERS, 0)


def read_usage(event: Mapping[str, Any]) -> Counters:
    """Read the counters of a `usage` event; what is no integer from 0 to `MAX_COUNT` is 0."""
    counters = {}
    for name in COUNTERS:
        count = index(event.get(name))
        counters[name] = 0 if count is None or count > MAX_COUNT else count
    return counters


def plus(usage: Counters, more: Counters, *, less: Counters) -> Counters:
    """Give ``usage`` with ``more`` added and ``less`` subtracted."""
    return {name: usage[name] + more[name] - less[name] for name in COUNTERS}
