"""``gateway cancel``."""

from typing import Any, Literal

import click

from gateway.cli.loop import run_async
from gateway.cli.mirrored import read_state
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.client import Client
from gateway.types import Topic

__all__ = ["command"]

_Mode = Literal["now", "after_step"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("run", required=False)
@click.option("--message", metavar="ID", help="Withdraw this message, or stop the run that took it.")
@click.option("--after-step", is_flag=True, help="Let the step that is under way come to its end.")
@gateway_options
def command(
    *, topic: Topic, run: str | None, message: str | None, after_step: bool, url: str | None, access: Access
) -> None:
    """Ask a run to stop; without its id, the one that runs on the topic now.

    That it has stopped, the topic says: gateway tail.
    """
    if run is not None and message is not None:
        raise click.UsageError("expected a run or a message, got both")
    mode: _Mode = "after_step" if after_step else "now"
    click.echo(_told(run_async(_cancel(client(url, access), topic, run=run, message=message, mode=mode)), topic))


async def _cancel(
    gateway: Client, topic: Topic, *, run: str | None, message: str | None, mode: _Mode
) -> dict[str, Any]:
    async with gateway:
        if run is None and message is None:
            run = await _live_run(gateway, topic)
        return await gateway.cancel(topic, run=run, message=message, mode=mode)


async def _live_run(gateway: Client, topic: Topic) -> str:
    runs = (await read_state(gateway, topic))["runs"]
    # A sub-agent's run has a topic of its own, where it is stopped; here it ends with its parent.
    live = [run["run"] for run in runs if run["status"] in {"running", "cancelling"} and run["topic"] is None]
    if not live:
        raise click.ClickException(f"nothing runs on {topic}")
    return str(live[-1])


def _told(answer: dict[str, Any], topic: Topic) -> str:
    match answer["status"]:
        case "requested":
            return f"run {answer['run']} was asked to stop"
        case "ended":
            return f"run {answer['run']} had ended before: {answer['as']}"
        case "withdrawn":
            return f"message {answer['message']} is withdrawn"
    what = f"run {answer['run']}" if "run" in answer else f"message {answer['message']}"
    raise click.ClickException(f"no {what} is known on {topic}")
