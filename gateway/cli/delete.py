"""``gateway delete``."""

from typing import Any

import click

from gateway.cli.loop import run_async
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.types import Topic

__all__ = ["command"]


@click.command
@click.argument("topic", callback=read_topic)
@click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")
@gateway_options
def command(*, topic: Topic, yes: bool, url: str | None, access: Access) -> None:
    """Delete a topic's history for good.

    What was said on it goes, its snapshot, archive and large values too; a run that holds it ends. Its readers
    see it empty. gateway export keeps a copy before.
    """
    if not yes and not click.confirm(f"Delete everything on {topic}, for good?", err=True):
        raise click.ClickException("nothing was deleted")
    answer = run_async(_delete(topic, url=url, access=access))
    click.echo(f"{topic} is deleted" if answer["deleted"] else f"nobody has written {topic}")


async def _delete(topic: Topic, *, url: str | None, access: Access) -> dict[str, Any]:
    async with client(url, access) as gateway:
        return await gateway.delete(topic)
