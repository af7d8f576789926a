"""``gateway publish``."""

import sys
from typing import Any

import click
import msgspec

from gateway.cli.loop import run_async
from gateway.cli.target import client, gateway_options, read_topic
from gateway.types import Topic

__all__ = ["command"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("event", metavar="JSON")
@gateway_options
def command(*, topic: Topic, event: str, url: str | None, token: str | None) -> None:
    """Publish an event of your own to a topic: a JSON object, - for standard input.

    Its "type" may be anything but the types that agent runs write.
    """
    text = sys.stdin.read() if event == "-" else event
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"expected the event as JSON: {error}") from error
    if not isinstance(data, dict):
        raise click.UsageError("expected the event as a JSON object")
    run_async(_publish(topic, data, url=url, token=token))


async def _publish(topic: Topic, event: dict[str, Any], *, url: str | None, token: str | None) -> None:
    async with client(url, token) as gateway:
        await gateway.publish(topic, event)
