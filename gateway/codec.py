"""The one encoder that everything passes before it enters a topic, and the decoder of what comes from outside."""

import json
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any, NoReturn

import msgspec

from gateway.errors import EventRefusedError
from gateway.event_types import DELTA_TYPES, LOGGED_TYPES
from gateway.fields import MAX_INTEGER, index

__all__ = ["MAX_DEPTH", "MAX_EVENT_BYTES", "decode_event", "encode_event", "encode_json"]

MAX_EVENT_BYTES = 120 * 1024
"""The largest encoded event: with its frame it stays below 128 KiB."""

MAX_DEPTH = 64
"""How deep an event nests: the event itself is 1."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Encode an event as one line of JSON, in UTF-8 without escapes where none are needed.

    Raises:
        EventRefusedError: It breaks an entry rule of PROTOCOL.md 4.4: nested deeper than `MAX_DEPTH`, a number that is
            not finite or an integer beyond ±(2^53-1), a value that is no JSON, the key ``__proto__``, a key twice,
            a logged type without `seq`, an empty delta, more than `MAX_EVENT_BYTES`.

    """
    if event.__class__ is not dict:
        event = dict(event)
    kind = event.get("type")
    if isinstance(kind, str):
        if kind in DELTA_TYPES:
            _check_delta(kind, event)
        elif kind in LOGGED_TYPES and index(event.get("seq")) is None:
            raise EventRefusedError(f"expected a {kind} event to have an integer seq >= 0, got {event.get('seq')!r}")
    # Nearly every event is flat: its texts need no look, msgspec itself refuses a lone surrogate.
    for key, value in event.items():
        if key.__class__ is not str or key == "__proto__":
            _refuse_key(key)
        if value.__class__ is not str:
            _check(value, MAX_DEPTH - 1)
    try:
        data = _encode(event)
    except UnicodeEncodeError:
        data = _encode(_well_formed(event))
    if len(data) > MAX_EVENT_BYTES:
        limit = f"{MAX_EVENT_BYTES // 1024} KiB ({MAX_EVENT_BYTES} bytes)"
        raise EventRefusedError(f"expected an event of at most {limit}, got {len(data)} bytes")
    return data


def decode_event(data: bytes) -> dict[str, Any]:
    r"""Decode an event; a lone surrogate (``"\ud800"``) becomes U+FFFD.

    Raises:
        EventRefusedError: The bytes are no JSON in UTF-8, no object, or an object in them has a key twice.

    """
    try:
        value = _decode(data)
        # What our own encoder wrote comes out the same again; a key given twice would be missing.
        if _encode(value) != data:
            value = _decode_strictly(data)
    except RecursionError as error:
        raise EventRefusedError("the event is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeEncodeError):
        value = _decode_strictly(data)
    if not isinstance(value, dict):
        raise EventRefusedError(f"expected a JSON object, got {type(value).__name__}")
    return value


def encode_json(value: Any) -> bytes:
    """Encode a value for a frame as one line; a lone surrogate becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_well_formed(value))


def _check_delta(kind: str, event: Mapping[str, Any]) -> None:
    if event.get("text") == "" and not (kind == "tool_call_delta" and (event.get("id") or event.get("name"))):
        raise EventRefusedError(f"a {kind} event without text says nothing")


def _check(value: Any, depth: int) -> None:
    """Check a value by the entry rules; ``depth`` is how deep it may still nest."""
    kind = value.__class__
    if kind is str or value is None or kind is bool:
        return
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise EventRefusedError("expected integers within ±(2^53-1)")
    elif kind is float:
        if not isfinite(value):
            raise EventRefusedError(f"expected finite numbers, got {value}")
    elif isinstance(value, dict):
        _check_depth(depth)
        for key, item in value.items():
            if key.__class__ is not str or key == "__proto__":
                _refuse_key(key)
            _check(item, depth - 1)
    elif isinstance(value, (list, tuple)):
        _check_depth(depth)
        for item in value:
            _check(item, depth - 1)
    elif isinstance(value, Enum):
        _check(value.value, depth)
    else:
        raise EventRefusedError(f"expected JSON values, got {kind.__name__}")


def _check_depth(depth: int) -> None:
    if depth < 1:
        raise EventRefusedError(f"expected at most {MAX_DEPTH} levels of nesting")


def _refuse_key(key: object) -> NoReturn:
    raise EventRefusedError(f"expected keys that are text other than '__proto__', got {str(key)[:80]!r}")


def _well_formed(value: Any) -> Any:
    """Copy a value with its surrogates joined, where they are pairs, or replaced by U+FFFD."""
    if isinstance(value, str):
        # UTF-16 is where a pair is one character; as `toWellFormed` of a browser's strings does it.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return _unique([(_well_formed(key), _well_formed(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return [_well_formed(item) for item in value]
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise EventRefusedError("an object has a key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise EventRefusedError(f"expected finite numbers, got {name}")


def _decode_strictly(data: bytes) -> Any:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        return _well_formed(value)
    except RecursionError as error:
        raise EventRefusedError("the event is nested too deeply") from error
    except EventRefusedError:
        raise
    except ValueError as error:
        raise EventRefusedError(f"expected JSON in UTF-8: {error}") from error
