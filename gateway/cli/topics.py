"""``gateway topics``."""

import json
from datetime import UTC, datetime
from typing import Any

import click

from gateway.cli.loop import run_async
from gateway.cli.target import client, gateway_options

__all__ = ["command"]


@click.command
@click.option("--json", "as_json", is_flag=True, help='Print lines {"topic", "at"}; at is Unix time in ms.')
@gateway_options
def command(*, url: str | None, token: str | None, as_json: bool) -> None:
    """List the topics that were written last, newest first."""
    topics = run_async(_topics(url, token))
    width = max((len(topic["topic"]) for topic in topics), default=0)
    for topic in topics:
        if as_json:
            click.echo(json.dumps(topic, ensure_ascii=False, separators=(",", ":")))
        else:
            at = datetime.fromtimestamp(topic["at"] / 1000, UTC).astimezone()
            click.echo(f"{topic['topic']:{width}}  {click.style(f'{at:%Y-%m-%d %H:%M:%S}', dim=True)}")


async def _topics(url: str | None, token: str | None) -> list[dict[str, Any]]:
    async with client(url, token) as gateway:
        return await gateway.topics()
