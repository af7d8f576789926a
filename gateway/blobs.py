"""Large values: cut out of an event before it is stored, and put back where the whole is wanted (PROTOCOL.md 4.6)."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.codec import MAX_EVENT_BYTES, encode_json
from gateway.fields import mapping, text

__all__ = ["LARGE", "PREVIEW", "Cut", "cut", "encoded", "filled", "hashes"]

LARGE = 64 * 1024
"""Bytes above which a text is stored apart (STORE.md 9)."""

PREVIEW = 2000
"""Code points of it that stay in the event."""

_ROOM = 8 * 1024
"""Bytes left for what stands around an event's data: its common fields, the references themselves."""

_REFERENCE = 200
"""Bytes that one reference takes."""

_Path = tuple[str | int, ...]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Data without its large values.

    Attributes:
        data: The rest, with the first `PREVIEW` code points of each; what was given, where nothing was large.
        blobs: JSON pointer -> ``{"hash", "bytes"}``.
        values: Hash -> the value.

    """

    data: dict[str, Any]
    blobs: dict[str, dict[str, Any]]
    values: dict[str, str]


def cut(data: dict[str, Any]) -> Cut:
    """Cut every text above `LARGE` out of an event's data, and more, the largest first, until it fits an event."""
    texts = [(len(encoded(found)), path, found) for path, found in _texts(data, ()) if len(found) > PREVIEW]
    texts.sort(key=lambda item: item[0], reverse=True)
    chosen = [item for item in texts if item[0] > LARGE]
    result = _without(data, chosen)
    # Escaping can make a text six times as long, and many middling ones are as bad as a large one.
    others = texts[len(chosen) :]
    if sum(size for size, _, _ in others) * 6 < MAX_EVENT_BYTES // 2:
        return result
    excess = len(encode_json(result.data)) - (MAX_EVENT_BYTES - _ROOM)
    for item in others:
        if excess <= 0:
            break
        chosen.append(item)
        excess -= len(encode_json(item[2])) - len(encode_json(item[2][:PREVIEW])) - _REFERENCE
    return _without(data, chosen) if len(chosen) > len(result.blobs) else result


def filled(data: dict[str, Any], blobs: object, values: Mapping[str, str]) -> dict[str, Any]:
    """Put values back into data; one that is not among them leaves its preview.

    Args:
        data: As it was stored.
        blobs: Its references; anything else counts as none.
        values: Hash -> value.

    """
    for pointer, reference in (mapping(blobs) or {}).items():
        value = values.get(_hash_of(reference) or "")
        path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
        if value is not None and path:
            data = _replaced(data, path, value)
    return data


def hashes(blobs: object) -> Iterator[str]:
    """Go through the hashes of an event's references."""
    for reference in (mapping(blobs) or {}).values():
        found = _hash_of(reference)
        if found is not None:
            yield found


def encoded(value: str) -> bytes:
    """Encode a large value as it is stored; a lone surrogate becomes U+FFFD, as in events (PROTOCOL.md 4.4)."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _hash_of(reference: object) -> str | None:
    return text((mapping(reference) or {}).get("hash"))


def _texts(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))


def _without(data: dict[str, Any], chosen: list[tuple[int, _Path, str]]) -> Cut:
    blobs: dict[str, dict[str, Any]] = {}
    values: dict[str, str] = {}
    for _, path, found in chosen:
        whole = encoded(found)
        name = hashlib.sha256(whole).hexdigest()
        values[name] = found
        blobs["".join(f"/{_escaped(part)}" for part in path)] = {"hash": name, "bytes": len(whole)}
        data = _replaced(data, path, whole[: 4 * PREVIEW].decode(errors="ignore")[:PREVIEW])
    return Cut(data=data, blobs=blobs, values=values)


def _escaped(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _replaced(value: Any, path: _Path, new: str) -> Any:
    """Copy a value as far as the path goes, with another text at its end; it stays where it has no such place."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping) and step in value:
        return {**value, step: _replaced(value[step], rest, new)}
    if isinstance(value, list | tuple) and str(step).isdecimal() and int(step) < len(value):
        items = list(value)
        items[int(step)] = _replaced(items[int(step)], rest, new)
        return items
    return value
