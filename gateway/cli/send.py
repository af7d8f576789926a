"""``gateway send``."""

import sys

import click

from gateway.cli.loop import run_async
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.types import Topic

__all__ = ["command"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("text")
@click.option("--id", "message_id", metavar="ID", help="Your own id of it: sent twice, it counts once.")
@gateway_options
def command(*, topic: Topic, text: str, message_id: str | None, url: str | None, access: Access) -> None:
    """Send a message to the agent of a topic (- for standard input) and print the waiting message's id."""
    content = sys.stdin.read() if text == "-" else text
    click.echo(run_async(_send(topic, content, message_id, url=url, access=access)))


async def _send(topic: Topic, content: str, message_id: str | None, *, url: str | None, access: Access) -> str:
    async with client(url, access) as gateway:
        answer = await gateway.send(topic, content, message_id)
        return str(answer["message"])
