"""``gateway replay``."""

import asyncio
import contextlib
import io
import math
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

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

    def __init__(self, *, file: str, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file = file
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


class NotUnderstoodError(GatewayError):
    """No line of a recording was understood.

    Attributes:
        file: The recording.
        provider: Whose stream it was taken for.

    """

    def __init__(self, *, file: str, provider: str) -> None:
        super().__init__(file, provider)
        self.file = file
        self.provider = provider

    def __str__(self) -> str:
        return f"{self.file}: expected a recorded stream of {self.provider}, got nothing that it says"


class Recording:
    """The lines of a recording, to be read more than once.

    Args:
        file: Where it is; ``-`` is standard input. What is no regular file is read to its end at once.

    """

    def __init__(self, file: Path) -> None:
        self._path = file
        self._text: bytes | None = None
        self.name = str(file)
        if self.name == "-":
            self._text, self.name = sys.stdin.buffer.read(), "standard input"
        elif not file.is_file():
            self._text = file.read_bytes()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Give the lines that are not blank, each with its number, from 1."""
        with self._open() as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line

    def _open(self) -> IO[bytes]:
        return self._path.open("rb") if self._text is None else io.BytesIO(self._text)


def _read_speed(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise click.BadParameter(f"expected a number from 0 on, got {value:g}")
    return value


@click.command
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--provider", required=True, type=click.Choice(list(PROVIDERS)), help="Whose stream it is; one JSON object a line."
)
@click.option("--topic", required=True, callback=read_topic, metavar="TOPIC", help="Where the run appears.")
@click.option(
    "--speed",
    type=float,
    callback=_read_speed,
    default=1.0,
    show_default=True,
    metavar="X",
    help=f"{LINES_PER_SECOND} lines a second, X times; 0 is at once.",
)
@redis_options
def command(*, file: Path, provider: str, topic: Topic, speed: float, redis_url: str | None, key_prefix: str) -> None:
    """Publish a recorded stream of a model provider as a run (- for standard input).

    An error that the provider itself reported ends the run as failed, and is no error of this command.
    """
    try:
        run_async(
            _replay(
                Recording(file),
                provider=provider,
                topic=topic,
                speed=speed,
                publisher=Publisher(redis_target(redis_url), key_prefix=key_prefix),
            )
        )
    except ProviderError as error:
        click.echo(f"the recorded stream ends in an error: {error}", err=True)


async def _replay(recording: Recording, *, provider: str, topic: Topic, speed: float, publisher: Publisher) -> None:
    adapter_type = PROVIDERS[provider]
    pause = 1 / (LINES_PER_SECOND * speed) if speed else 0.0
    file = recording.name
    async with publisher:
        if next(recording.lines(), None) is None:
            raise NotUnderstoodError(file=file, provider=provider)
        async with publisher.run(topic, agent="replay", model=_model(recording, adapter_type)) as run:
            adapter = adapter_type(run)
            clock = asyncio.get_running_loop().time
            due = clock()
            for number, line in recording.lines():
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
            if not adapter.begun:
                raise NotUnderstoodError(file=file, provider=provider)
            await adapter.finish()


def _model(recording: Recording, adapter_type: type[Adapter]) -> str | None:
    """Find the model's name near the beginning, for the run's start is published before the first line."""
    for _, line in islice(recording.lines(), MODEL_WITHIN):
        # A line that is none of the provider's is told when its turn comes.
        with contextlib.suppress(msgspec.DecodeError, AttributeError, TypeError):
            model = adapter_type.model(msgspec.json.decode(line))
            if isinstance(model, str):
                return model
    return None


def _event(file: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise MalformedLineError(file=file, line=number, reason=f"expected JSON: {error}") from error
    if not isinstance(event, dict):
        raise MalformedLineError(file=file, line=number, reason=f"expected an object, got {type(event).__name__}")
    return event
