"""The secrets among a context's deps: known by their names, kept out of what leaves the process."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.context.jsonlike import MAX_DEPTH, Live

__all__ = ["MIN_SECRET_CHARACTERS", "REDACTED", "SENSITIVE", "is_secret", "redacted", "secrets_of"]

SENSITIVE = (
    "api_key",
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "authorization",
    "credential",
    "private_key",
    "access_key",
    "auth_token",
    "bearer",
)
"""A dependency whose name contains one of these is secret, in any case and however its words are joined."""

MIN_SECRET_CHARACTERS = 4
"""Shorter secrets are not looked for in texts: they would be found in every other word."""

REDACTED = "[redacted]"
"""What stands in a text where a secret stood."""

_WORDS = tuple(word.replace("_", "") for word in SENSITIVE)
_UNJOINED = str.maketrans("", "", "_- .")


def is_secret(name: str) -> bool:
    """Tell whether a dependency is secret by its name: ``api_key``, ``X-API-Key``, ``apiKey``."""
    plain = str.__str__(name).lower().translate(_UNJOINED)
    return any(word in plain for word in _WORDS)


def secrets_of(deps: object) -> tuple[str, ...]:
    """Give the texts that stand under a secret name, at any depth, long ones first.

    Args:
        deps: The dependencies; anything but maps, lists and structs is not looked into.

    """
    found = {text for text in _texts(deps, MAX_DEPTH, secret=False) if len(text) >= MIN_SECRET_CHARACTERS}
    # A secret may be a part of another one.
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def redacted(value: Any, secrets: tuple[str, ...]) -> Any:
    """Give a value with `REDACTED` in place of each secret in its texts; an exception that tells one becomes its text.

    Args:
        value: Anything; maps and lists are followed.
        secrets: What `secrets_of` gave.

    """
    return _redacted(value, secrets, MAX_DEPTH) if secrets else value


def _redacted(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, BaseException):
        told = _redacted(repr(value), secrets, depth)
        return value if told == repr(value) else told
    if depth == 0:
        return value
    if isinstance(value, Mapping):
        return {_redacted(key, secrets, depth): _redacted(item, secrets, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, secrets, depth - 1) for item in value]
    return value


def _texts(value: object, depth: int, *, secret: bool) -> Iterator[str]:
    """Find the texts that are secret; what holds itself ends at the depth."""
    if isinstance(value, str):
        if secret:
            yield str.__str__(value)
    elif isinstance(value, bytes):
        if secret:
            yield value.decode(errors="replace")
    elif depth > 0:
        if isinstance(value, msgspec.Struct) and not isinstance(value, Live):
            value = msgspec.structs.asdict(value)
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield from _texts(item, depth - 1, secret=secret or (isinstance(key, str) and is_secret(key)))
        elif isinstance(value, list | tuple | set | frozenset):
            for item in value:
                yield from _texts(item, depth - 1, secret=secret)
