"""``gateway tail``."""

import click

from gateway.cli.lines import Lines
from gateway.cli.loop import run_async
from gateway.cli.tailing import Beginning, Shown, Tail
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.cli.transcripts import Transcripts
from gateway.lens import GROUPS, MAX_TYPES
from gateway.types import TYPE_PATTERN, Topic, parse_position

__all__ = ["command"]


def _read_beginning(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Beginning:
    if value is None or value == "start":
        return None if value is None else "start"
    if value.isascii() and value.isdigit() and len(value) <= 16:
        return int(value)
    try:
        return parse_position(value)
    except ValueError as error:
        raise click.BadParameter(f"expected start, an offset or a position <epoch>:<offset>, got {value!r}") from error


def _read_types(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    types = tuple(name.strip() for name in value.split(","))
    if not all(map(TYPE_PATTERN.match, types)) or len(types) > MAX_TYPES:
        raise click.BadParameter(f"expected event types or groups with commas between, such as log,chat, got {value!r}")
    return types


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
@click.option(
    "--types",
    callback=_read_types,
    metavar="TYPE,…",
    help=f"Print only events of these types; {', '.join(sorted(GROUPS))} stand for several.  [default: all]",
)
@click.option(
    "--follow-runs", is_flag=True, help="Print the topics of sub-agents too, from where a run announces them."
)
@gateway_options
def command(
    *,
    topic: Topic,
    as_json: bool,
    beginning: Beginning,
    follow: bool,
    types: tuple[str, ...] | None,
    follow_runs: bool,
    url: str | None,
    access: Access,
) -> None:
    """Print the events of a topic as they come, across restarts of the gateway.

    For people, text and the arguments of tool calls grow as the agent writes them; NO_COLOR=1 and pipes get no colours.
    Where the history was trimmed, its snapshot stands for what is gone.
    """
    shown: Shown = Lines() if as_json else Transcripts()
    reading = Tail(client(url, access), shown, types=types, follow_runs=follow_runs)
    run_async(reading.follow(topic, beginning) if follow else reading.read(topic, beginning))
