"""Reading a field of an event from outside: a value of another kind counts as absent (PROTOCOL.md 5.2)."""

from collections.abc import Mapping
from typing import Any

__all__ = ["MAX_INTEGER", "identifier", "index", "integer", "mapping", "text"]

MAX_INTEGER = 2**53 - 1
"""The largest integer that a browser holds exactly."""


def text(value: object) -> str | None:
    """Give a string; None for anything else."""
    return value if isinstance(value, str) else None


def identifier(value: object) -> str | None:
    """Give a non-empty string other than ``__proto__``, which is no key in a browser; None for anything else."""
    return value if isinstance(value, str) and value and value != "__proto__" else None


def integer(value: object) -> int | None:
    """Give a number of integral value within ±(2^53-1) as int; None for anything else, booleans too."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and -MAX_INTEGER <= value <= MAX_INTEGER else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -MAX_INTEGER <= value <= MAX_INTEGER else None
    return None


def index(value: object) -> int | None:
    """Give an integer that is not negative; None for anything else."""
    number = integer(value)
    return None if number is None or number < 0 else number


def mapping(value: object) -> Mapping[str, Any] | None:
    """Give an object; None for anything else."""
    return value if isinstance(value, Mapping) else None
