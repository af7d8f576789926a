"""``gateway replay``."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.adapters import PROVIDERS, Adapter
from gateway.cli.loop import run_async
from gateway.cli.target import read_topic, redis_options, redis_target
from gateway.errors import GatewayError, ProviderError
from gateway.publisher import Publisher
from gateway.types import Topic

__all__ = ["command"]

LINES_PER_SECOND = 50
"""At speed 1."""
MODEL_WITHIN = 20
"""Lines in which the model's name is looked for."""


class MalformedLineError(GatewayError):
    """A line of a recording is no JSON object.

    Attributes:
        file: The recording.
        line: The line's number, from 1.
        reason: What is wrong with it.

    """

    def __init__(self, *, file: Path, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file = file
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@click.command
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--provider", required=True, type=click.Choice(list(PROVIDERS)), help="Whose stream it is; one JSON object a line."
)
@click.option("--topic", required=True, callback=read_topic, metavar="TOPIC", help="Where the run appears.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="X",
    help=f"{LINES_PER_SECOND} lines a second, X times; 0 is at once.",
)
@redis_options
def command(*, file: Path, provider: str, topic: Topic, speed: float, redis_url: str | None, key_prefix: str) -> None:
    """Publish a recorded stream of a model provider as a run.

    An error that the provider itself reported ends the run as failed, and is no error of this command.
    """
    try:
        run_async(
            _replay(
                file,
                provider=provider,
                topic=topic,
                speed=speed,
                publisher=Publisher(redis_target(redis_url), key_prefix=key_prefix),
            )
        )
    except ProviderError as error:
        click.echo(f"the recorded stream ends in an error: {error}", err=True)


async def _replay(file: Path, *, provider: str, topic: Topic, speed: float, publisher: Publisher) -> None:
    adapter_type = PROVIDERS[provider]
    pause = 1 / (LINES_PER_SECOND * speed) if speed else 0.0
    model = _model(file, adapter_type)
    async with publisher, publisher.run(topic, agent="replay", model=model) as run:
        adapter = adapter_type(run)
        clock = asyncio.get_running_loop().time
        due = clock()
        for number, line in _lines(file):
            if pause:
                # Against the clock, not line by line, so that the run's own work does not slow the replay down.
                await asyncio.sleep(max(0.0, due - clock()))
                due += pause
            event = _event(file, number, line)
            try:
                await adapter.feed(event)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                reason = f"expected an event of {provider}, got another: {error!r}"
                raise MalformedLineError(file=file, line=number, reason=reason) from error
        await adapter.finish()


def _model(file: Path, adapter_type: type[Adapter]) -> str | None:
    """Find the model's name near the beginning, for the run's start is published before the first line."""
    for _, line in islice(_lines(file), MODEL_WITHIN):
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return None
        model = adapter_type.model(event) if isinstance(event, dict) else None
        if model is not None:
            return model
    return None


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line


def _event(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise MalformedLineError(file=file, line=number, reason=f"expected JSON: {error}") from error
    if not isinstance(event, dict):
        raise MalformedLineError(file=file, line=number, reason=f"expected an object, got {type(event).__name__}")
    return event
