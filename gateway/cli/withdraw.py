"""``gateway withdraw``."""

import click

from gateway.cli.loop import run_async
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.types import Topic

__all__ = ["command"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("message", metavar="MESSAGE")
@gateway_options
def command(*, topic: Topic, message: str, url: str | None, access: Access) -> None:
    """Take a message back that waits.

    MESSAGE is the id that gateway send printed. One that was taken is stopped with gateway cancel --message.
    """
    run_async(_withdraw(topic, message, url=url, access=access))


async def _withdraw(topic: Topic, message: str, *, url: str | None, access: Access) -> None:
    async with client(url, access) as gateway:
        answer = await gateway.withdraw(topic, message)
    if answer["status"] == "taken":
        raise click.ClickException(f"too late: run {answer['run']} has taken the message")
