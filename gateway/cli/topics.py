"""``gateway topics``."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import click

from gateway.cli.loop import run_async
from gateway.cli.screen import echo
from gateway.cli.target import Access, client, gateway_options

__all__ = ["command"]


@click.command
@click.option("--json", "as_json", is_flag=True, help='Print lines {"topic", "at"}; at is Unix time in ms.')
@gateway_options
def command(*, url: str | None, access: Access, as_json: bool) -> None:
    """List the topics that were written last, newest first."""
    topics = run_async(_topics(url, access))
    if as_json:
        for topic in topics:
            click.echo(json.dumps(topic, ensure_ascii=False, separators=(",", ":")))
        return
    width = max((len(topic["topic"]) for topic in topics), default=0)
    now = time.time() * 1000
    for topic in topics:
        # A sub-agent's topic is its parent's with the run behind it.
        parent, slash, own = topic["topic"].rpartition("/")
        name = (click.style(parent + slash, dim=True) if slash else "") + click.style(own, bold=True)
        at = datetime.fromtimestamp(topic["at"] / 1000, UTC).astimezone()
        when = click.style(f"{at:%Y-%m-%d %H:%M:%S}  {_age(now - topic['at'])} ago", dim=True)
        echo(f"{name}{' ' * (width - len(topic['topic']))}  {when}\n")


def _age(milliseconds: float) -> str:
    seconds = max(0, int(milliseconds / 1000))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


async def _topics(url: str | None, access: Access) -> list[dict[str, Any]]:
    async with client(url, access) as gateway:
        return await gateway.topics()
