"""What a log may hold: values that are JSON, or have one JSON form."""

import json
import math
import reprlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from gateway.context.times import format_time

__all__ = ["MAX_DEPTH", "Live", "brief", "compact_json", "lenient", "native"]

MAX_DEPTH = 64
"""Levels of nesting that data may have (PROTOCOL.md 4.4); it also ends the search in a value that holds itself."""

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Live:
    """A value of this process, which has no JSON form although its fields may: it holds what must not leave."""

    __slots__ = ()


def native(value: Any, *, depth: int = MAX_DEPTH) -> Any:
    """Copy a value as plain JSON: dates and UUIDs as text, enums as their value, structs as maps, tuples as lists.

    Args:
        value: Anything.
        depth: Levels of nesting still allowed.

    Raises:
        ValueError: Something in it has no JSON form, is not finite, or is nested too deep.

    """
    kind = type(value)
    if kind is str or value is None or kind is int or kind is bool:
        return value
    if kind is float:
        return _finite(value)
    if depth == 0:
        raise ValueError(f"expected at most {MAX_DEPTH} levels of nesting")
    depth -= 1
    if kind is dict:
        return {key if type(key) is str else _native_key(key): native(item, depth=depth) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [native(item, depth=depth) for item in value]
    return _native_other(value, depth)


def _native_other(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):  # before int and str: an IntEnum is both
        return native(value.value, depth=depth)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value))
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, msgspec.Struct) and not isinstance(value, Live):
        return native(msgspec.structs.asdict(value), depth=depth + 1)
    if isinstance(value, Mapping):
        return {_native_key(key): native(item, depth=depth) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [native(item, depth=depth) for item in value]
    raise ValueError(f"expected a JSON value, got {type(value).__name__}")


def _native_key(key: object) -> str:
    plain = key.value if isinstance(key, Enum) else key
    if not isinstance(plain, str):
        raise ValueError(f"expected text as a key, got {type(plain).__name__}")  # noqa: TRY004 - one kind of refusal
    return str.__str__(plain)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value}")
    return value


def lenient(value: Any, *, depth: int = MAX_DEPTH) -> Any:
    """Copy a value as plain JSON, whatever it is: sets as lists, what has no JSON form as its ``repr``.

    Args:
        value: Anything.
        depth: Levels of nesting that are followed; what lies deeper is given as its ``repr``.

    """
    if depth > 0:
        if isinstance(value, msgspec.Struct) and not isinstance(value, Live):
            value = msgspec.structs.asdict(value)
        if isinstance(value, Mapping):
            return {_lenient_key(key): lenient(item, depth=depth - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [lenient(item, depth=depth - 1) for item in value]
        if isinstance(value, AbstractSet):
            # Sets have no order; sorted, the same set gives the same text in every process.
            return sorted((lenient(item, depth=depth - 1) for item in value), key=compact_json)
    try:
        return native(value, depth=1)
    except ValueError:
        return _repr(value)


def _lenient_key(key: object) -> str:
    try:
        return _native_key(key)
    except ValueError:
        return _repr(key)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def brief(value: object) -> str:
    """Show a value from outside in a sentence: shortened, however deep or large it is, and never failing."""
    return reprlib.repr(value)


def compact_json(value: Any) -> str:
    """Write a value as JSON without spaces, with what has no JSON form as its ``repr``; never fails."""
    return _encoder.encode(lenient(value))
