"""``gateway tail``."""

import asyncio
import os
from collections.abc import Callable
from typing import Literal, TypeAlias

import click
import msgspec

from gateway.cli.loop import run_async
from gateway.cli.target import client, gateway_options, next_update, read_topic
from gateway.cli.transcript import Transcript
from gateway.client import Client, Subscription, Update
from gateway.reader import Since
from gateway.types import START, Position, Topic, parse_position

__all__ = ["command"]


_Beginning: TypeAlias = Literal["start"] | int | Position | None
_Shown: TypeAlias = Callable[[Update], str]


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
    shown = _shown_as_json if as_json else transcript.show
    async with gateway:
        if follow:
            await _follow(gateway, topic, shown, beginning)
        else:
            await _read(gateway, topic, shown, "start" if beginning is None else beginning)
    _print(transcript.end())


async def _follow(gateway: Client, topic: Topic, shown: _Shown, beginning: _Beginning) -> None:
    epoch = (await gateway.top(topic)).epoch if isinstance(beginning, int) else ""
    async with gateway.subscribe(topic, since=_since(beginning, epoch), mirror=False) as subscription:
        telling = asyncio.create_task(_tell_unwritten(subscription))
        try:
            async for update in subscription:
                _print(shown(update))
        finally:
            telling.cancel()


async def _read(gateway: Client, topic: Topic, shown: _Shown, beginning: _Beginning) -> None:
    # The top is asked for before the events: what comes later than the command is not its business.
    top = await gateway.top(topic)
    if top == START:
        _say_unwritten(topic)
    since = _since(beginning, top.epoch)
    if (since.offset if isinstance(since, Position) else 0) >= top.offset:
        return
    async with gateway.subscribe(topic, since=since, mirror=False) as subscription:
        while (update := await next_update(gateway, subscription)) is not None:
            _print(shown(update))
            if update.position.epoch != top.epoch or update.position.offset >= top.offset:
                return


def _since(beginning: _Beginning, epoch: str) -> Since:
    return Position(epoch=epoch, offset=beginning) if isinstance(beginning, int) else beginning


async def _tell_unwritten(subscription: Subscription) -> None:
    await subscription.joined.wait()
    if subscription.reader.position == START:
        _say_unwritten(subscription.topic)


def _say_unwritten(topic: Topic) -> None:
    click.echo(f"gateway: nobody has written {topic} yet", err=True)


def _shown_as_json(update: Update) -> str:
    return _line(update) + "\n"


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
