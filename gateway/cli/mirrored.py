"""A topic's state as it is now, for commands that are told less than they need."""

from typing import Any

import click

from gateway.cli.target import next_update
from gateway.client import Client
from gateway.types import Topic

__all__ = ["read_state"]


async def read_state(gateway: Client, topic: Topic) -> dict[str, Any]:
    """Read the state of a topic's mirror at its top."""
    async with gateway.subscribe(topic) as subscription:
        update = await next_update(gateway, subscription)
    if update is None:
        raise click.ClickException("the connection ended before the topic was read")
    return update.mirror.state()
