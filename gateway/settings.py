"""Every setting of a gateway process, each with its unit and default."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

__all__ = ["ENV_PREFIX", "SECRETS", "Settings", "SettingsError"]

ENV_PREFIX = "GATEWAY_"
"""``ping_interval`` is read from ``GATEWAY_PING_INTERVAL``, and so on."""

_FOR_EVER = 1e9
"""Seconds: no clock and no timer can wait for infinity."""
_Port = Annotated[int, Meta(ge=0, le=65535)]
_Seconds = Annotated[float, Meta(gt=0, le=_FOR_EVER)]
_Bytes = Annotated[int, Meta(ge=1)]


class SettingsError(ValueError):
    """A setting has a value it cannot have; the message names its variable."""


SECRETS = frozenset({"api_keys", "redis_url", "token_secrets"})
"""Settings whose values no dump, log line or error may show."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of ``gateway serve``; the description of each, unit included, is the flag's help."""

    host: Annotated[str, Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[_Port, Meta(description="TCP port to listen on; 0 takes a free one")] = 8000
    redis_url: Annotated[
        str,
        Meta(
            description="redis://, rediss:// (TLS), unix://, redis+sentinel://host:port,host:port/service or "
            "redis+cluster://host:port,host:port address of Redis or Valkey; empty: `serve` starts a private one"
        ),
    ] = ""
    allowed_origins: Annotated[
        str,
        Meta(
            description="origins of foreign web pages that may connect, as https://example.com, separated by commas; "
            "* lets all in; empty: only the gateway's own pages"
        ),
    ] = ""
    insecure: Annotated[
        bool, Meta(description="let anybody who reaches the address do everything, where it is not loopback")
    ] = False
    token_secrets: Annotated[
        str,
        Meta(
            description="secrets of tokens signed with HS256 (32 bytes or more), HS384 (48), HS512 (64), "
            "separated by commas"
        ),
    ] = ""
    token_public_keys: Annotated[
        str,
        Meta(description="PEM files of public keys of tokens signed with RS, PS, ES or EdDSA, separated by commas"),
    ] = ""
    token_jwks: Annotated[str, Meta(description="JSON Web Key Set of tokens' keys: a file, or an https:// address")] = (
        ""
    )
    token_audience: Annotated[str, Meta(description="the `aud` that a token must name; empty: not looked at")] = ""
    token_issuer: Annotated[str, Meta(description="the `iss` that a token must name; empty: not looked at")] = ""
    token_leeway: Annotated[
        float, Meta(description="seconds by which clocks may differ where tokens are checked", ge=0, le=300)
    ] = 5.0
    token_grace: Annotated[
        float,
        Meta(
            description="seconds beyond a token's expiry in which a client may bring a fresh one (else close 3005)",
            ge=0,
            le=_FOR_EVER,
        ),
    ] = 25.0
    api_keys: Annotated[
        str,
        Meta(description="keys of the HTTP API (16 characters or more), each for everything, separated by commas"),
    ] = ""
    user_grants: Annotated[
        str,
        Meta(
            description="what every user with a token may do beside what the token says: patterns of topics, perhaps "
            "with verbs, as chat:{sub} news:*=read,history; {sub} is the user's id"
        ),
    ] = ""
    anonymous_grants: Annotated[
        str,
        Meta(description="what anybody without a token may do where keys are set, as in user grants; empty: nothing"),
    ] = ""
    grants_file: Annotated[
        str,
        Meta(description='JSON file of the same, with redactions: {"users": […], "anonymous": […]} of a token\'s caps'),
    ] = ""
    prices: Annotated[
        str,
        Meta(
            description="JSON file of what models cost, in US dollars a million tokens, told to all who connect: "
            '{"<model, * for any characters>": {"input", "output", "cached"?, "written"?}}; empty: no costs '
            "are shown"
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
    max_publish: Annotated[
        _Bytes, Meta(description="bytes of the largest event that a client may publish (else error 106)")
    ] = 64 * 1024
    command_rate: Annotated[
        int,
        Meta(
            description="commands a second that a connection may send in the long run (else error 111, temporary); "
            "0 counts none",
            ge=0,
        ),
    ] = 100
    command_burst: Annotated[
        int, Meta(description="commands that a connection may send at once, beyond its rate", ge=1)
    ] = 3000
    request_rate: Annotated[
        int,
        Meta(
            description="HTTP requests a second that a user, or an address without one, may send in the long run (else "
            "HTTP status 429); 0 counts none, as it does of those with an API key",
            ge=0,
        ),
    ] = 100
    request_burst: Annotated[int, Meta(description="HTTP requests of one caller at once, beyond that rate", ge=1)] = (
        1000
    )
    max_connections_per_user: Annotated[
        int,
        Meta(
            description="connections that a user may have to one gateway process (else close 3504); 0 counts none, "
            "as it does of anonymous ones",
            ge=0,
        ),
    ] = 100
    max_connections_per_address: Annotated[
        int,
        Meta(
            description="connections that one client address may have to one gateway process (else HTTP status 429); "
            "0 counts none",
            ge=0,
        ),
    ] = 0
    max_topics_per_user: Annotated[
        int,
        Meta(
            description="topics that all connections of a user to one gateway process may subscribe to together, each "
            "counted as often (else error 106); 0 counts none",
            ge=0,
        ),
    ] = 10_000
    trusted_proxies: Annotated[
        str,
        Meta(
            description="networks of proxies whose X-Forwarded-For is believed, as 10.0.0.0/8, separated by commas; "
            "empty: nobody's"
        ),
    ] = ""
    handshake_timeout: Annotated[
        _Seconds,
        Meta(description="seconds a client has to send the head of its first request (else the connection is cut)"),
    ] = 10.0
    body_timeout: Annotated[
        _Seconds, Meta(description="seconds a client has to send the body of a request (else the connection is cut)")
    ] = 30.0
    deflate_from: Annotated[
        int,
        Meta(
            description="bytes from which a frame is compressed for clients that can, once for all; 0 compresses none",
            ge=0,
        ),
    ] = 1024
    max_topics: Annotated[int, Meta(description="topics one connection may subscribe to (else error 106)", ge=1)] = 1000
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
    metrics_port: Annotated[
        _Port,
        Meta(
            description="TCP port on which a process tells its metrics to Prometheus, without keys; of several workers "
            "each takes the next one; 0: only /metrics on the gateway's own port"
        ),
    ] = 0
    metrics_host: Annotated[str, Meta(description="address of that port")] = "127.0.0.1"
    log_format: Annotated[
        Literal["pretty", "json"], Meta(description="log lines for people (pretty), or one JSON object each (json)")
    ] = "pretty"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="what is logged: this, and what is worse")
    ] = "info"
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

    @property
    def keyless(self) -> bool:
        """Whether no keys are set, and everybody may do everything."""
        return not (self.token_secrets or self.token_public_keys or self.token_jwks or self.api_keys)

    def shown(self) -> dict[str, Any]:
        """Give the settings as they may be shown: a secret only as ``…``."""
        values = msgspec.structs.asdict(self)
        return {name: "…" if name in SECRETS and value else value for name, value in values.items()}

    def __repr__(self) -> str:
        """Show what is no secret."""
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """Give each setting's description, unit included."""
        described: dict[str, str] = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            metas = [arg for arg in get_args(hint)[1:] if isinstance(arg, Meta) and arg.description]
            described[name] = metas[-1].description or ""
        return described
