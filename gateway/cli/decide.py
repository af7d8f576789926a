"""``gateway decide``."""

import sys
from typing import Any, Literal

import click

from gateway.cli.loop import run_async
from gateway.cli.mirrored import read_state
from gateway.cli.target import Access, client, gateway_options, read_topic
from gateway.client import Client
from gateway.types import Topic

__all__ = ["command"]

_Decision = Literal["approve", "reject", "edit"]


@click.command
@click.argument("topic", callback=read_topic)
@click.argument("decision", type=click.Choice(["approve", "reject", "edit"]))
@click.option("--call", metavar="ID", help="The tool call; needed where several wait for a decision.")
@click.option("--run", metavar="ID", help="The run that asks; needed where two runs ask about calls of the same id.")
@click.option("--arguments", metavar="JSON", help="With edit: the whole new arguments (- for standard input).")
@click.option("--reason", metavar="TEXT", help="What the model is told.")
@gateway_options
def command(
    *,
    topic: Topic,
    decision: _Decision,
    call: str | None,
    run: str | None,
    arguments: str | None,
    reason: str | None,
    url: str | None,
    access: Access,
) -> None:
    """Decide whether a tool call that waits for it goes on."""
    if (arguments is not None) != (decision == "edit"):
        raise click.UsageError("expected --arguments with edit, and only with it")
    text = sys.stdin.read() if arguments == "-" else arguments
    run_async(_decide(client(url, access), topic, decision, call=call, run=run, arguments=text, reason=reason))


async def _decide(
    gateway: Client,
    topic: Topic,
    decision: _Decision,
    *,
    call: str | None,
    run: str | None,
    arguments: str | None,
    reason: str | None,
) -> None:
    async with gateway:
        if run is None or call is None:
            run, call = await _waiting(gateway, topic, run, call)
        answer = await gateway.decide(topic, run, call, decision, arguments=arguments, reason=reason)
    if not answer["won"]:
        raise click.ClickException(_lost(answer))


async def _waiting(gateway: Client, topic: Topic, run: str | None, call: str | None) -> tuple[str, str]:
    """Find the one approval that is meant."""
    waiting = [
        approval
        for approval in (await read_state(gateway, topic))["approvals"]
        if approval["decision"] is None
        and approval["run"] is not None
        and run in {None, approval["run"]}
        and call in {None, approval["tool_call_id"]}
    ]
    if not waiting:
        what = "nothing" if call is None else f"no call {call}"
        raise click.ClickException(f"{what} waits for a decision on {topic}")
    if len(waiting) > 1:
        listed = ", ".join(f"{found['tool_call_id']} ({found['name']}, run {found['run']})" for found in waiting)
        raise click.UsageError(f"several calls wait for a decision, name one with --call and --run: {listed}")
    return waiting[0]["run"], waiting[0]["tool_call_id"]


def _lost(answer: dict[str, Any]) -> str:
    if "ended" in answer:
        return f"too late: the run has ended: {answer['ended']}"
    if answer["decision"] == "expired":
        return "too late: the approval has expired"
    return f"too late: {answer['by']} has decided: {answer['decision']}"
