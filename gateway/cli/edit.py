"""``gateway edit``."""

import sys

import click

from gateway.cli.loop import run_async
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.types import Topic

__all__ = ["command"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("message", metavar="MESSAGE")
@click.argument("text")
@gateway_options
def command(*, topic: Topic, message: str, text: str, url: str | None, access: Access) -> None:
    """Give a message that waits another text (- for standard input).

    MESSAGE is the id that gateway send printed.
    """
    content = sys.stdin.read() if text == "-" else text
    run_async(_edit(topic, message, content, url=url, access=access))


async def _edit(topic: Topic, message: str, content: str, *, url: str | None, access: Access) -> None:
    async with client(url, access) as gateway:
        answer = await gateway.edit(topic, message, content)
    if answer["status"] == "taken":
        raise click.ClickException(f"too late: run {answer['run']} has taken the message")
    if answer["status"] == "withdrawn":
        raise click.ClickException("too late: the message was withdrawn")
