"""``gateway token``."""

import secrets
import time
from typing import Any

import click
import jwt
import msgspec

from gateway.auth import Authority, listed
from gateway.cli.flags import Flag
from gateway.cli.target import read_topic
from gateway.errors import CommandError
from gateway.settings import Settings, SettingsError
from gateway.tokens import grants_of_text
from gateway.types import Topic

__all__ = ["command"]

SECRET_BYTES = 48


@click.command
@click.argument("user", default="")
@click.option(
    "--token-secrets",
    cls=Flag,
    envvar="GATEWAY_TOKEN_SECRETS",
    show_envvar=True,
    metavar="TEXT",
    help="The gateway's secrets; the first one signs.",
)
@click.option("--token-audience", cls=Flag, envvar="GATEWAY_TOKEN_AUDIENCE", show_envvar=True, help="The claim aud.")
@click.option("--token-issuer", cls=Flag, envvar="GATEWAY_TOKEN_ISSUER", show_envvar=True, help="The claim iss.")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="PATTERN[=VERB,…]",
    help="Topics, and what may be done there, as chat:* or news:*=read,history; may be given several times.  "
    "[default: what the gateway's settings let every user do]",
)
@click.option(
    "--topic",
    callback=lambda context, parameter, value: None if value is None else read_topic(context, parameter, value),
    help="Make a subscription token for this topic instead.",
)
@click.option(
    "--lasts",
    type=click.FloatRange(min=1),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Until it expires.",
)
@click.option("--info", metavar="JSON", help="What presence shows of the user.")
@click.option("--new-secret", is_flag=True, help="Print a new secret for GATEWAY_TOKEN_SECRETS instead of a token.")
def command(
    *,
    user: str,
    token_secrets: str | None,
    token_audience: str | None,
    token_issuer: str | None,
    allowed: tuple[str, ...],
    topic: Topic | None,
    lasts: float,
    info: str | None,
    new_secret: bool,
) -> None:
    """Make a token for USER, for development: in production your own backend makes them."""
    if new_secret:
        click.echo(secrets.token_urlsafe(SECRET_BYTES))
        return
    found = listed(token_secrets or "")
    if not found:
        raise click.UsageError(
            "no secret to sign with: give the gateway's as GATEWAY_TOKEN_SECRETS; --new-secret makes one"
        )
    now = int(time.time())
    claims: dict[str, Any] = {"iat": now, "exp": now + int(lasts)}
    named = {"sub": user, "aud": token_audience, "iss": token_issuer, "channel": topic}
    claims.update({name: value for name, value in named.items() if value})
    if info is not None:
        claims["info"] = _json(info)
    if allowed:
        if topic is not None:
            raise click.UsageError("--allow is for connection tokens; a subscription token is for its --topic")
        claims["caps"] = [_cap(item) for item in allowed]
    click.echo(_checked(claims, found[0]))


def _checked(claims: dict[str, Any], secret: str) -> str:
    """Sign a token, and give it only where a gateway with this secret takes it."""
    try:
        authority = Authority(Settings(token_secrets=secret))
        token = jwt.encode(claims, secret, algorithm="HS256")
        if "channel" not in claims:
            authority.connect(token)
    except (CommandError, SettingsError) as error:
        raise click.UsageError(str(error)) from error
    return token


def _cap(item: str) -> dict[str, Any]:
    try:
        (grant,) = grants_of_text(item)
    except ValueError as error:
        raise click.UsageError(f"--allow {item!r}: {error or 'expected one pattern'}") from error
    return {"channels": [grant.pattern], "match": "wildcard", "allow": list(grant.verbs)}


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"expected --info to be JSON: {error}") from error
