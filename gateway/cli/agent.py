"""``gateway agent``."""

import asyncio
import logging
import os
import signal
import sys

import click

from gateway.agent import demo
from gateway.cli.flags import Flag
from gateway.cli.interrupt import INTERRUPTED, interruptible
from gateway.cli.loop import run_async
from gateway.cli.target import redis_options, redis_target, without_password
from gateway.publisher import Publisher

__all__ = ["command"]

ORPHAN_PATIENCE = 10.0
"""Seconds that its runs get to end once nobody wants it any more: the store may have gone with whoever wanted it."""


@click.command
@click.option("--model", metavar="NAME", help="A model to drive through OpenAI's API instead of the built-in rules.")
@click.option("--base-url", metavar="URL", help="Where that API is.  [default: OPENAI_BASE_URL, else OpenAI's own]")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="INTEGER",
    help="Topics that are answered at once.",
)
@click.option(
    "--lease",
    cls=Flag,
    envvar="GATEWAY_LEASE",
    show_envvar=True,
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="NUMBER",
    help="Seconds without a sign of life after which its runs count as lost.",
)
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input ends.")
@redis_options
def command(
    *,
    model: str | None,
    base_url: str | None,
    concurrency: int,
    key_prefix: str,
    lease: float,
    until_eof: bool,
    redis_url: str | None,
) -> int:
    """Answer the messages that people send to topics, until SIGINT or SIGTERM: the worker of the demo agent.

    With OPENAI_API_KEY, OPENAI_BASE_URL or a model of your own it drives that model, else its answers come from rules.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)
    store = redis_target(redis_url)
    publisher = Publisher(store, key_prefix=key_prefix, lease=lease)
    work = _work(publisher, store, model=model, base_url=base_url, concurrency=concurrency, until_eof=until_eof)
    return INTERRUPTED if run_async(work) == signal.SIGINT else 0


async def _work(
    publisher: Publisher, store: str, *, model: str | None, base_url: str | None, concurrency: int, until_eof: bool
) -> signal.Signals | None:
    """Work until told to stop; gives the signal that told it, None for the end of standard input."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, end, signal.SIGTERM)
    watching = asyncio.create_task(_stop_at_eof(stop)) if until_eof else None
    try:
        with interruptible(lambda: loop.call_soon_threadsafe(end, signal.SIGINT)):
            async with demo.opened_model(model, base_url) as opened, publisher:
                click.echo(f"Agent: {demo.AGENT_NAME}, model {opened.name}, on {without_password(store)}", err=True)
                await demo.work(publisher, opened, stop=stop, concurrency=concurrency)
    except ImportError as error:
        raise click.ClickException(f"a model of your own needs pip install 'agent-gateway[openai]': {error}") from error
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
    return received[0] if received else None


async def _stop_at_eof(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while await reader.read(1024):
            pass
    finally:
        transport.close()
    stop.set()
    loop.call_later(ORPHAN_PATIENCE, os._exit, 1)
