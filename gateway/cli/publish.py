"""``gateway publish``."""

import os
import sys
from typing import Any

import click

from gateway.cli.loop import run_async
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.codec import decode_event, encode_event
from gateway.errors import EventRefusedError
from gateway.event_types import check_publishable
from gateway.types import Topic

__all__ = ["command"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("event", metavar="JSON")
@gateway_options
def command(*, topic: Topic, event: str, url: str | None, access: Access) -> None:
    """Publish an event of your own to a topic: a JSON object, - for standard input.

    Its "type" may be anything but the types that agent runs write.
    """
    # What the shell gave that is no UTF-8 comes back as it was, and is refused as such.
    text = sys.stdin.buffer.read() if event == "-" else os.fsencode(event)
    try:
        data = decode_event(text)
        # The gateway's own checks, in its order: it would take nothing that breaks a rule.
        check_publishable(data)
        encode_event(data)
    except EventRefusedError as error:
        raise click.UsageError(f"the event is refused: {error}") from error
    run_async(_publish(topic, data, url=url, access=access))


async def _publish(topic: Topic, event: dict[str, Any], *, url: str | None, access: Access) -> None:
    async with client(url, access) as gateway:
        await gateway.publish(topic, event)
