"""Every setting of a gateway process, each with its unit and default."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

__all__ = ["ENV_PREFIX", "Settings", "SettingsError"]

ENV_PREFIX = "GATEWAY_"
"""``ping_interval`` is read from ``GATEWAY_PING_INTERVAL``, and so on."""

_FOR_EVER = 1e9
"""Seconds: no clock and no timer can wait for infinity."""
_Port = Annotated[int, Meta(ge=0, le=65535)]
_Seconds = Annotated[float, Meta(gt=0, le=_FOR_EVER)]
_Bytes = Annotated[int, Meta(ge=1)]


class SettingsError(ValueError):
    """A setting has a value it cannot have; the message names its variable."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of ``gateway serve``; the description of each, unit included, is the flag's help."""

    host: Annotated[str, Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[_Port, Meta(description="TCP port to listen on; 0 takes a free one")] = 8000
    redis_url: Annotated[
        str,
        Meta(
            description="redis://, rediss:// or unix:// address of Redis or Valkey; empty: `serve` starts a private one"
        ),
    ] = ""
    allowed_origins: Annotated[
        str,
        Meta(
            description="origins of foreign web pages that may connect, as https://example.com, separated by commas; "
            "* lets all in; empty: only the gateway's own pages"
        ),
    ] = ""
    key_prefix: Annotated[str, Meta(description="first part of every Redis key and channel", min_length=1)] = "gw"
    workers: Annotated[int, Meta(description="processes that share the port", ge=1)] = 1
    ping_interval: Annotated[_Seconds, Meta(description="seconds between the gateway's pings on a connection")] = 25.0
    pong_timeout: Annotated[
        _Seconds, Meta(description="seconds after a ping within which something must be heard (else close 3012)")
    ] = 8.0
    connect_timeout: Annotated[
        _Seconds, Meta(description="seconds a new connection has for its connect command (else close 3502)")
    ] = 10.0
    slow_timeout: Annotated[
        _Seconds, Meta(description="seconds a full send buffer may go without shrinking (else close 3008)")
    ] = 20.0
    command_timeout: Annotated[
        _Seconds,
        Meta(description="seconds a command may wait for the broker before a temporary error; clients give up at 5"),
    ] = 4.0
    drain: Annotated[
        float,
        Meta(
            description="seconds over which the connections are closed at shutdown; 0 closes at once",
            ge=0,
            le=_FOR_EVER,
        ),
    ] = 3.0
    max_frame: Annotated[_Bytes, Meta(description="bytes of the largest frame taken from a client")] = 128 * 1024
    max_topics: Annotated[int, Meta(description="topics one connection may subscribe to", ge=1)] = 512
    ring_bytes: Annotated[
        _Bytes, Meta(description="bytes of recent events kept in one process, all topics together")
    ] = 64 * 1024 * 1024
    mirror_bytes: Annotated[
        _Bytes, Meta(description="bytes of folded states kept in one process, as their snapshots count")
    ] = 128 * 1024 * 1024
    max_bytes: Annotated[
        _Bytes, Meta(description="bytes of one topic's history; above it nothing more is taken (large values: as much)")
    ] = 64 * 1024 * 1024
    max_history_bytes: Annotated[
        _Bytes, Meta(description="bytes of one topic's events above its snapshot; above it they are folded into one")
    ] = 8 * 1024 * 1024
    max_history_events: Annotated[
        int, Meta(description="events of one topic above its snapshot; above it they are folded into one", ge=1)
    ] = 20_000
    audit_interval: Annotated[_Seconds, Meta(description="seconds between checks that no event was missed")] = 10.0
    linger: Annotated[
        float,
        Meta(description="seconds a topic without readers is kept in memory; 0 drops it at once", ge=0, le=_FOR_EVER),
    ] = 5.0

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the settings from ``GATEWAY_*`` variables; an empty or absent one takes its default.

        Raises:
            SettingsError: A value has the wrong form or is out of its range.

        """
        found: dict[str, Any] = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            text = environ.get(ENV_PREFIX + name.upper(), "").strip()
            if not text:
                continue
            try:
                found[name] = msgspec.convert(text, hint, strict=False)
            except msgspec.ValidationError as error:
                expected = str(error).partition(", got ")[0]
                raise SettingsError(f"{ENV_PREFIX}{name.upper()}: {expected}, got {text!r}") from error
        return cls(**found)

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """Give each setting's description, unit included."""
        described: dict[str, str] = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            metas = [arg for arg in get_args(hint)[1:] if isinstance(arg, Meta) and arg.description]
            described[name] = metas[-1].description or ""
        return described
