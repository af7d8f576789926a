"""Whom a command talks to: options, environment, the note of a gateway on this machine, in this order."""

import asyncio
import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from gateway import note
from gateway.broker.address import FORMS, Address
from gateway.cli.flags import Flag
from gateway.cli.refusal import explained
from gateway.client import Client, Subscription, Update
from gateway.errors import CommandError, DisconnectError
from gateway.note import Note
from gateway.settings import Settings
from gateway.types import Topic, parse_topic

__all__ = [
    "DEFAULT_URL",
    "PATIENCE",
    "Access",
    "checked_redis_url",
    "client",
    "gateway_options",
    "gateway_url",
    "next_update",
    "read_topic",
    "redis_options",
    "redis_target",
    "without_password",
]

DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE = 6.0
"""Seconds that a command waits for an answer; the gateway itself gives its broker 4."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway lets a command in by.

    Attributes:
        token: What it knows the caller by; None for nothing.
        api_key: A key that may do everything; None for none. With a token beside it the token counts.

    """

    token: str | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        """Show no secret."""
        return "Access(…)"


def read_topic(_context: click.Context, _parameter: click.Parameter, value: str) -> Topic:
    """Check a topic's name; a click callback."""
    try:
        return parse_topic(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def gateway_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--url``, ``--token`` and ``--api-key``; the command gets the last two as ``access``."""

    @functools.wraps(command)
    def with_access(*, token: str | None, api_key: str | None, **given: Any) -> None:
        try:
            command(access=Access(token=token, api_key=api_key), **given)
        except (CommandError, DisconnectError) as error:
            name = click.get_current_context().info_name or ""
            told = explained(error, command=name, topic=given.get("topic"), token=bool(token), api_key=bool(api_key))
            if told is None:
                raise
            raise told from error

    wrapped = click.option(
        "--api-key",
        cls=Flag,
        envvar="GATEWAY_API_KEY",
        show_envvar=True,
        metavar="KEY",
        help="A key of the gateway's --api-keys, which may do everything; with a token, the token counts.",
    )(with_access)
    wrapped = click.option(
        "--token",
        cls=Flag,
        envvar="GATEWAY_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="What the gateway knows you by.",
    )(wrapped)
    return click.option(
        "--url",
        cls=Flag,
        envvar="GATEWAY_URL",
        show_envvar=True,
        metavar="URL",
        help=f"Address of the gateway.  [default: the one that runs on this machine, else {DEFAULT_URL}]",
    )(wrapped)


def redis_options(command: _Command) -> _Command:
    """Add ``--redis-url`` and ``--key-prefix``."""
    command = click.option(
        "--key-prefix",
        cls=Flag,
        envvar="GATEWAY_KEY_PREFIX",
        show_envvar=True,
        default=Settings().key_prefix,
        show_default=True,
        metavar="TEXT",
        help="First part of every Redis key and channel; the gateway's own.",
    )(command)
    return click.option(
        "--redis-url",
        cls=Flag,
        envvar="GATEWAY_REDIS_URL",
        show_envvar=True,
        metavar="URL",
        help=f"Address of the gateway's Redis or Valkey: {FORMS}.  [default: that of the gateway on this machine]",
    )(command)


def client(url: str | None, access: Access) -> Client:
    """Make the client for a command.

    Raises:
        click.UsageError: The URL is none.

    """
    try:
        return Client(gateway_url(url), token=access.token, api_key=access.api_key, patience=PATIENCE)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def gateway_url(url: str | None) -> str:
    """Give the address of the gateway that is meant: the given one, the one on this machine, the default."""
    if url is not None:
        return url
    found = _found()
    return DEFAULT_URL if found is None else found.url


async def next_update(gateway: Client, subscription: Subscription) -> Update | None:
    """Wait for the next update of a topic that does not go on by itself; None at its end.

    Raises:
        click.ClickException: None comes.

    """
    try:
        async with asyncio.timeout(PATIENCE):
            return await anext(subscription, None)
    except TimeoutError as error:
        if subscription.refused is not None:
            why = str(subscription.refused)
        else:
            why = f"no answer within {PATIENCE:g} s" if gateway.sure else "its broker is away"
        raise click.ClickException(f"{subscription.topic} cannot be read from {gateway.url}: {why}") from error


def _found() -> Note | None:
    """Find the gateway on this machine; which of several, people are told."""
    found = note.find()
    if len(found) > 1:
        taken = found[0].url
        click.echo(f"gateway: {len(found)} gateways run here; taking {taken}, which started last", err=True)
    return found[0] if found else None


def redis_target(url: str | None) -> str:
    """Give the Redis to publish to.

    Raises:
        click.UsageError: None is known.

    """
    if url is None:
        found = _found()
        if found is None:
            raise click.UsageError(
                "no gateway runs on this machine whose Redis could be used; "
                "start gateway serve, or give --redis-url or GATEWAY_REDIS_URL"
            )
        url = found.redis_url
    return checked_redis_url(url)


def checked_redis_url(url: str) -> str:
    """Check the form of a Redis URL, and give it back.

    Raises:
        click.UsageError: It is none; the message leaves the URL out, which may hold a password.

    """
    try:
        Address.of(url)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return url


def without_password(url: str) -> str:
    """Give a URL as it may be shown."""
    parts = urlsplit(url)
    # Sentinels and keys of TLS have passwords of their own.
    parts = parts._replace(query=re.sub(r"([a-z_]*password)=[^&]*", r"\1=…", parts.query))
    if parts.password is not None:
        parts = parts._replace(netloc=f"{parts.username or ''}:…@{parts.netloc.rpartition('@')[2]}")
    return parts.geturl()
