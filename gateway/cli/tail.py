"""``gateway tail``."""

import os
from typing import Literal, TypeAlias

import click
import msgspec

from gateway.cli.loop import run_async
from gateway.cli.target import client, gateway_options, read_topic
from gateway.cli.transcript import Transcript
from gateway.client import Client
from gateway.reader import Update
from gateway.types import START, Position, Topic, parse_position

__all__ = ["command"]


_Beginning: TypeAlias = Literal["start"] | int | Position | None


def _read_beginning(_context: click.Context, _parameter: click.Parameter, value: str | None) -> _Beginning:
    if value is None or value == "start":
        return None if value is None else "start"
    if value.isascii() and value.isdigit() and len(value) <= 16:
        return int(value)
    try:
        return parse_position(value)
    except ValueError as error:
        raise click.BadParameter(f"expected start, an offset or a position <epoch>:<offset>, got {value!r}") from error


@click.command
@click.argument("topic", callback=read_topic)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print lines {"topic", "epoch", "offset", "data"}, and "from" where one stands for several events.',
)
@click.option(
    "--from",
    "beginning",
    callback=_read_beginning,
    metavar="start|OFFSET",
    help="Begin at the topic's first event, or after that offset.  [default: now; start with --no-follow]",
)
@click.option("--follow/--no-follow", default=True, help="Go on with what is to come, or end at the last event.")
@gateway_options
def command(
    *,
    topic: Topic,
    as_json: bool,
    beginning: _Beginning,
    follow: bool,
    url: str | None,
    token: str | None,
) -> None:
    """Print the events of a topic as they come, across restarts of the gateway.

    Where the history was trimmed, its snapshot stands for what is gone.
    """
    run_async(_tail(client(url, token), topic, as_json=as_json, beginning=beginning, follow=follow))


async def _tail(gateway: Client, topic: Topic, *, as_json: bool, beginning: _Beginning, follow: bool) -> None:
    transcript = Transcript()
    async with gateway:
        if beginning is None and not follow:
            beginning = "start"
        # The top is asked for before the events: what comes later than the command is not its business.
        top = await gateway.top(topic) if not follow or isinstance(beginning, int) else START
        since = Position(epoch=top.epoch, offset=beginning) if isinstance(beginning, int) else beginning
        begun = since.offset if isinstance(since, Position) else 0
        if not follow and begun >= top.offset:
            return
        async for update in gateway.subscribe(topic, since=since, mirror=False):
            if as_json:
                _print(_line(update) + "\n")
            else:
                _print(transcript.show(update))
            if not follow and (update.position.epoch != top.epoch or update.position.offset >= top.offset):
                break
    _print(transcript.end())


def _line(update: Update) -> str:
    data = {"type": "snapshot", **update.data} if update.snapshot else update.data
    line = {
        "topic": update.topic,
        "epoch": update.position.epoch,
        "offset": update.position.offset,
        "data": data,
    }
    if update.first != update.position.offset:
        line["from"] = update.first
    return msgspec.json.encode(line).decode()


def _print(text: str) -> None:
    # Without colours where it is no terminal, or where the user wants none (no-color.org).
    click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
